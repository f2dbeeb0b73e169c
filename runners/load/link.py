# SPDX-License-Identifier: Apache-2.0
"""One TCP connection below any protocol: bytes out, bytes in with their stamps.

Over plain TCP on Linux the kernel stamps a segment when it arrives (SO_TIMESTAMPNS, socket(7)), so that a
busy client does not make an engine look slow. Over TLS, and on other systems, there is only the time
at which this process had the bytes.
"""

import asyncio
import math
import socket
import ssl
import struct
import sys
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from runners.errors import MendableError
from runners.load.clock import CellClock

SO_TIMESTAMPNS: Final = 35
"""asm-generic/socket.h: SO_TIMESTAMPNS_OLD, a pair of longs in the clock CLOCK_REALTIME."""
CONNECT_S: Final = 10.0
READ_SIZE: Final = 1 << 14
CONTROL_SIZE: Final = 128
TIMESPEC: Final = struct.Struct("@ll")
PORTS: Final = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}


class AddressError(MendableError):
    """An address that cannot be driven; the message says why."""


@dataclass(frozen=True)
class Target:
    """Where requests go: the name and port as written, the socket's family and address, and whether
    the connection is encrypted."""

    host: str
    port: int
    family: int
    address: tuple[str, int]
    encrypted: bool

    @property
    def authority(self) -> str:
        """Name and port, as the Host header has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(url: str, schemes: tuple[str, ...] = ("http", "https")) -> Target:
    """Resolve an address. Raises AddressError."""
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        raise AddressError(f"{url}: give {' or '.join(f'{scheme}://HOST:PORT' for scheme in schemes)}")
    port = parts.port or PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise AddressError(f"{url}: {parts.hostname} cannot be resolved ({error.strerror})") from None
    family, _, _, _, address = found[0]
    encrypted = parts.scheme in ("https", "grpcs")
    return Target(parts.hostname, port, family, (str(address[0]), int(address[1])), encrypted)


class Listener(Protocol):
    """Who gets the bytes of a link."""

    def received(self, data: bytes, kernel_s: float, user_s: float) -> None:
        """Bytes and their stamps; `kernel_s` is NaN where there is none. No bytes: the other side ended."""

    def lost(self, reason: str) -> None:
        """The connection broke."""


class Link(Protocol):
    """An open connection."""

    async def send(self, data: bytes) -> float:
        """Send all; returns the time just before the first byte went. Raises OSError."""

    def close(self) -> None:
        """Stop listening and close."""


async def open_link(target: Target, clock: CellClock, listener: Listener) -> Link:
    """Connect. Raises OSError (which ssl.SSLError is)."""
    sock = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(sock, target.address)
            if target.encrypted:
                return await _encrypted(sock, target, clock, listener)
        return PlainLink(sock, clock, listener)
    except OSError:
        sock.close()
        raise


class PlainLink:
    """A TCP socket, read with the kernel's stamps where the system has them."""

    def __init__(self, sock: socket.socket, clock: CellClock, listener: Listener) -> None:
        if sys.platform == "linux":
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket = sock
        self._clock = clock
        self._listener = listener
        asyncio.get_running_loop().add_reader(sock, self._readable)

    async def send(self, data: bytes) -> float:
        sent_s = self._clock()
        sent = self._socket.send(data)
        if sent < len(data):
            await asyncio.get_running_loop().sock_sendall(self._socket, data[sent:])
        return sent_s

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()

    def _readable(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(READ_SIZE, CONTROL_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._listener.lost(f"connection lost: {error}")
            return
        user_s = self._clock()
        kernel_s = math.nan
        if ancillary:  # there is no other kind than the one that was asked for
            seconds, nanoseconds = TIMESPEC.unpack_from(ancillary[0][2])
            kernel_s = self._clock.of_wall(seconds * 1_000_000_000 + nanoseconds)
        self._listener.received(data, kernel_s, user_s)


async def _encrypted(sock: socket.socket, target: Target, clock: CellClock, listener: Listener) -> Link:
    context = ssl.create_default_context()
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(
        lambda: EncryptedLink(clock, listener), sock=sock, ssl=context, server_hostname=target.host
    )
    return link


class EncryptedLink(asyncio.Protocol):
    """TLS by asyncio: stamps are those of this process."""

    def __init__(self, clock: CellClock, listener: Listener) -> None:
        self._clock = clock
        self._listener: Listener | None = listener
        self._transport: asyncio.Transport

    async def send(self, data: bytes) -> float:
        sent_s = self._clock()
        self._transport.write(data)
        return sent_s

    def close(self) -> None:
        self._listener = None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._listener is not None:
            self._listener.received(data, math.nan, self._clock())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._listener is None:
            return
        if exc is None:
            self._listener.received(b"", math.nan, self._clock())
        else:
            self._listener.lost(f"connection lost: {exc}")
