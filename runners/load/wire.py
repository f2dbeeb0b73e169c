# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over a non-blocking socket, with the kernel's receive stamps beside our own.

The kernel stamps a segment when it arrives (SO_TIMESTAMPNS, socket(7)), so a busy client does not
make an engine look slow. Body bytes are kept with their stamps; what they mean is read after the cell.
"""

import asyncio
import math
import socket
import struct
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httptools

from engines.contract import Call
from runners.errors import MendableError
from runners.load.trace import Exchange

SO_TIMESTAMPNS: Final = 35
"""asm-generic/socket.h: SO_TIMESTAMPNS_OLD, a pair of longs in the clock CLOCK_REALTIME."""
READ_SIZE: Final = 1 << 16
MOST_BODY: Final = 1 << 30
"""What is longer ends as failed. Where each event repeats the text so far, 16,000 tokens are half of it."""
CONTROL_SIZE: Final = 128
TIMESPEC: Final = struct.Struct("@ll")


@dataclass(frozen=True)
class CellClock:
    """Seconds since the start of a cell, monotonic; maps the kernel's wall-clock stamps onto it."""

    start_ns: int
    wall_offset_ns: int

    @classmethod
    def now(cls) -> "CellClock":
        return cls(time.monotonic_ns(), wall_offset_ns())

    def __call__(self) -> float:
        return (time.monotonic_ns() - self.start_ns) * 1e-9

    def of_wall(self, wall_ns: int) -> float:
        return (wall_ns - self.wall_offset_ns - self.start_ns) * 1e-9

    def drift_s(self) -> float:
        """How far the wall clock was moved against the monotonic one since the start."""
        return (wall_offset_ns() - self.wall_offset_ns) * 1e-9


def wall_offset_ns() -> int:
    """Wall clock minus monotonic clock, by the tightest of five readings."""
    readings = []
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


def request_bytes(call: Call, host: str, request_id: str) -> bytes:
    """The whole request, ready to be sent in one piece. The id joins it to a server's own log."""
    head = (
        f"POST {call.path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nX-Request-Id: {request_id}\r\nContent-Length: {len(call.body)}\r\n\r\n"
    )
    return head.encode() + call.body


class AddressError(MendableError):
    """An address that cannot be driven; the message says why."""


@dataclass(frozen=True)
class Target:
    """Where requests go: the Host header, the socket's family and its address."""

    host: str
    family: int
    address: tuple[str, int]


def target_of(url: str) -> Target:
    """Resolve an http:// address. Raises AddressError."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise AddressError(f"{url}: give http://HOST:PORT; only plain HTTP/1.1 is driven")
    port = parts.port or 80
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise AddressError(f"{url}: {parts.hostname} cannot be resolved ({error.strerror})") from None
    family, _, _, _, address = found[0]
    return Target(f"{parts.hostname}:{port}", family, (str(address[0]), int(address[1])))


def check_address(url: str) -> None:
    """One connection, opened and closed. Raises AddressError where nobody answers."""
    target = target_of(url)
    with socket.socket(target.family, socket.SOCK_STREAM) as probe:
        probe.settimeout(5.0)
        try:
            probe.connect(target.address)
        except OSError as error:
            raise AddressError(f"{url}: no connection ({error.strerror or error})") from None


class Connection:
    """One connection, kept alive where the server allows it; one exchange at a time."""

    def __init__(self, target: Target, clock: CellClock) -> None:
        self._target = target
        self._clock = clock
        self._socket: socket.socket | None = None
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] | None = None
        self._served = self._heard = self._lost = self._sized = False
        self.connects = 0

    async def open(self) -> None:
        """Connect ahead of the first request; a refusal is left for that request to tell."""
        await self._connected()

    async def exchange(self, request: bytes, exchange: Exchange) -> None:
        """Send, and fill `exchange` until its response is complete or has failed.

        A connection that the server had closed while idle is replaced and the request sent once
        more: until then no engine has seen it.
        """
        await self._connected()
        idle_before = self._served
        await self._attempt(request, exchange)
        if idle_before and self._lost and not self._heard:
            exchange.error = None
            await self._connected()
            await self._attempt(request, exchange)
        if exchange.end_s is None:
            exchange.end_s = self._clock()

    def abort(self, reason: str) -> None:
        """End the exchange under way as failed."""
        self._finish(reason)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def _connected(self) -> None:
        """Make sure of a connection, if there is anybody to connect to.

        It is watched while idle too, so one that the server has closed is known before it is used.
        """
        if self._socket is not None:
            return
        sock = socket.socket(self._target.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(sock, self._target.address)
        except OSError:
            sock.close()
            return
        self._socket = sock
        self._served = False
        self._parser = httptools.HttpResponseParser(self)
        self.connects += 1
        loop.add_reader(sock, self._readable)

    async def _attempt(self, request: bytes, exchange: Exchange) -> None:
        done = asyncio.get_running_loop().create_future()
        self._exchange, self._done = exchange, done
        self._sized = self._heard = self._lost = False
        exchange.sent_s = exchange.last_activity_s = self._clock()
        if self._socket is None:
            self._finish("connection refused")
        else:
            await self._send(self._socket, request, exchange)
        await done
        self._exchange = None

    async def _send(self, sock: socket.socket, request: bytes, exchange: Exchange) -> None:
        try:
            exchange.sent_s = self._clock()
            sent = sock.send(request)
            if sent < len(request):
                await asyncio.get_running_loop().sock_sendall(sock, request[sent:])
        except OSError as error:
            self._lost = True
            self._finish(f"connection lost while sending: {error}")

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data, ancillary, _, _ = self._socket.recvmsg(READ_SIZE, CONTROL_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost = True
            self._finish(f"connection lost: {error}")
            return
        exchange = self._exchange
        if exchange is None:
            self.close()
            return
        self._user_s = exchange.last_activity_s = self._clock()
        self._kernel_s = self._kernel_stamp(ancillary)
        if not data:
            self._end_of_stream()
            return
        self._heard = True
        before = exchange.body.length
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._finish(f"not HTTP: {error}")
        length = exchange.body.length
        if length > before:
            exchange.reads.extend((length, self._kernel_s, self._user_s))
        if length > MOST_BODY:
            self._finish(f"an answer of more than {MOST_BODY >> 20} MiB")

    def _kernel_stamp(self, ancillary: list[tuple[int, int, bytes]]) -> float:
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = TIMESPEC.unpack_from(value)
                return self._clock.of_wall(seconds * 1_000_000_000 + nanoseconds)
        return math.nan

    def _end_of_stream(self) -> None:
        assert self._exchange is not None
        if self._exchange.status is not None and not self._sized:
            self.on_message_complete()
        else:
            self._lost = True
            self._finish("connection closed before the response was complete")

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        self._sized |= lowered in (b"transfer-encoding", b"content-length")
        if lowered == b"location" and self._exchange:
            self._exchange.error = f"redirected to {value.decode('latin-1')}; give that address"
        if lowered == b"content-encoding" and value.lower() != b"identity" and self._exchange:
            self._exchange.error = f"compressed answer ({value.decode('latin-1')}), which was not asked for"

    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._exchange.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None:
            self._exchange.body.add(body)

    def on_message_complete(self) -> None:
        if self._exchange is None or self._done is None or self._done.done():
            return
        self._exchange.complete = self._served = True
        self._exchange.end_s = self._user_s if math.isnan(self._kernel_s) else self._kernel_s
        if not self._parser.should_keep_alive() or not self._sized:
            self.close()
        self._done.set_result(None)

    def _finish(self, error: str) -> None:
        self.close()
        if self._exchange is None or self._done is None or self._done.done():
            return
        self._exchange.error = error
        self._done.set_result(None)
