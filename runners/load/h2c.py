# SPDX-License-Identifier: Apache-2.0
"""gRPC calls over HTTP/2 in the clear (RFC 9113; gRPC over HTTP2, grpc/grpc doc/PROTOCOL-HTTP2.md).

One stream at a time on each connection, and a receive window so wide that no answer ever waits for us.
hyperframe and hpack read and write what is rare; the frames of a request, and the one that is there for every
token, are ours.
"""

import asyncio
import struct
from typing import Final
from urllib.parse import unquote

from hpack import Decoder, Encoder, HPACKError
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from runners.load.clock import CellClock
from runners.load.connection import Connection, WireError
from runners.load.link import Link, Target

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WIDEST: Final = (1 << 31) - 1
DEFAULT_WINDOW: Final = 65535
LARGEST_FRAME: Final = 1 << 20
"""What we accept; servers send 16 KiB at most unless told."""
SENT_FRAME: Final = 1 << 14
"""Every server takes frames of this size (RFC 9113, 4.2)."""
GREETING_S: Final = 5.0
FRAME_HEAD: Final = struct.Struct(">HBBBI")
MESSAGE_HEAD: Final = struct.Struct(">?I")
DATA: Final = 0
HEADERS: Final = 1
END_STREAM: Final = 1
END_HEADERS: Final = 4
PADDED: Final = 8


def message_bytes(message: bytes) -> bytes:
    """A gRPC message with its prefix, uncompressed."""
    return MESSAGE_HEAD.pack(False, len(message)) + message


def header_block(authority: str, path: str, request_id: str) -> bytes:
    """The headers of a call, coded without memory, so that they fit any connection."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "bakeoff"),
            ("x-request-id", request_id),
        ]
    )


def request_bytes(block: bytes, message: bytes) -> bytes:
    """One prepared call: the header block's length, the block, the message with its prefix."""
    return struct.pack(">I", len(block)) + block + message_bytes(message)


def _framed(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame whose making must cost nothing: it happens between due and sent."""
    return FRAME_HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


class H2cConnection(Connection):
    """gRPC calls of one request message each; the body is what came in DATA frames, unparsed."""

    def __init__(self, target: Target, clock: CellClock) -> None:
        super().__init__(target, clock)
        self._stream = -1

    def _reset(self) -> None:
        self._buffer = bytearray()
        self._decoder = Decoder()
        self._stream = -1
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._peer_window = self._connection_window = DEFAULT_WINDOW
        self._stream_window = 0
        self._unsent = self._block = b""
        self._block_ends = self._leaving = False
        self._owed = 0
        self._turn = asyncio.Lock()
        self._replies: set[asyncio.Task[None]] = set()

    async def _greet(self, link: Link) -> None:
        settings = SettingsFrame(
            settings={
                SettingsFrame.HEADER_TABLE_SIZE: 0,
                SettingsFrame.ENABLE_PUSH: 0,
                SettingsFrame.INITIAL_WINDOW_SIZE: WIDEST,
                SettingsFrame.MAX_FRAME_SIZE: LARGEST_FRAME,
            }
        )
        wide = WindowUpdateFrame(0, window_increment=WIDEST - DEFAULT_WINDOW)
        await link.send(PREFACE + settings.serialize() + wide.serialize())
        try:
            await asyncio.wait_for(asyncio.shield(self._greeted), GREETING_S)
        except TimeoutError:
            raise WireError(f"no HTTP/2 settings within {GREETING_S:g} s; is this a gRPC port?") from None

    def _fail(self, error: str) -> None:
        if not self._greeted.done():
            self._greeted.set_exception(WireError(f"{error}; is this a gRPC port?"))
        super()._fail(error)

    async def _send(self, link: Link, request: bytes) -> float:
        """HEADERS, and as much of the message as the server's windows take; the rest when they open."""
        (size,) = struct.unpack_from(">I", request)
        self._stream += 2
        self._stream_window = self._peer_window
        headers = _framed(HEADERS, END_HEADERS, self._stream, request[4 : 4 + size])
        self._unsent = request[4 + size :]
        async with self._turn:
            return await link.send(self._returned_window() + headers + self._next_data())

    def _returned_window(self) -> bytes:
        """What earlier answers took of the connection's window."""
        owed, self._owed = self._owed, 0
        return WindowUpdateFrame(0, window_increment=owed).serialize() if owed else b""

    def _next_data(self) -> bytes:
        """DATA frames for what may be sent now; the last one ends our side of the stream."""
        frames = []
        while self._unsent:
            size = min(len(self._unsent), SENT_FRAME, self._stream_window, self._connection_window)
            if size <= 0:
                break
            piece, self._unsent = self._unsent[:size], self._unsent[size:]
            self._stream_window -= size
            self._connection_window -= size
            frames.append(_framed(DATA, 0 if self._unsent else END_STREAM, self._stream, piece))
        return b"".join(frames)

    def _feed(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start, available = 0, len(buffer)
        while available - start >= FRAME_HEAD.size:
            high, low, kind, flags, stream = FRAME_HEAD.unpack_from(buffer, start)
            end = start + FRAME_HEAD.size + (high << 8 | low)
            if end - start > LARGEST_FRAME + FRAME_HEAD.size:
                raise WireError("not HTTP/2: a frame of more than was allowed")
            if kind != SettingsFrame.type and not self._greeted.done():
                raise WireError("not HTTP/2: no settings at the start")
            if end > available:
                break
            if kind == DATA and not flags & (PADDED | END_STREAM):
                self._data(stream, bytes(buffer[start + FRAME_HEAD.size : end]))
            else:
                self._frame(memoryview(bytes(buffer[start:end])))
            start = end
        del buffer[:start]

    def _data(self, stream: int, payload: bytes) -> None:
        self._owed += len(payload)
        if stream == self._stream and self._exchange is not None:
            self._exchange.body.add(payload)

    def _frame(self, raw: memoryview) -> None:
        """One frame that is not there for every token."""
        try:
            frame, _ = Frame.parse_frame_header(raw[: FRAME_HEAD.size])
            frame.parse_body(raw[FRAME_HEAD.size :])
        except HyperframeError as error:
            raise WireError(f"not HTTP/2: {error}") from None
        match frame:
            case DataFrame():
                self._data(frame.stream_id, frame.data)
                if "END_STREAM" in frame.flags:
                    self._end(frame.stream_id)
            case HeadersFrame():
                self._block, self._block_ends = frame.data, "END_STREAM" in frame.flags
                self._headers(frame)
            case ContinuationFrame():
                self._block += frame.data
                self._headers(frame)
            case SettingsFrame() if "ACK" not in frame.flags:
                self._settings(frame)
            case PingFrame() if "ACK" not in frame.flags:
                self._reply(PingFrame(0, opaque_data=frame.opaque_data, flags=["ACK"]).serialize())
            case WindowUpdateFrame():
                self._widen(frame.stream_id, frame.window_increment)
            case GoAwayFrame():
                self._leaving = True
                if frame.last_stream_id < self._stream:
                    self._heard = False
                    self.lost("the server left before it took the request (GOAWAY)")
            case RstStreamFrame() if frame.stream_id == self._stream:
                self._fail(f"stream reset by the server (HTTP/2 error {frame.error_code})")

    def _headers(self, frame: HeadersFrame | ContinuationFrame) -> None:
        """Headers or trailers, once their last frame is there. They are decoded even where the call is
        over, since the decoder has a memory."""
        if "END_HEADERS" not in frame.flags:
            return
        try:
            fields = {_text(name): _text(value) for name, value in self._decoder.decode(self._block)}
        except HPACKError as error:
            raise WireError(f"not HTTP/2: {error}") from None
        if frame.stream_id != self._stream or self._exchange is None:
            return
        if ":status" in fields:
            self._exchange.status = int(fields[":status"])
        code = fields.get("grpc-status", "0")
        if code != "0":
            self._exchange.error = f"gRPC status {code}: {unquote(fields.get('grpc-message', ''))}"
        if self._block_ends:
            self._end(frame.stream_id)

    def _end(self, stream: int) -> None:
        if stream == self._stream:
            self._complete(keep=not self._leaving and not self._unsent)

    def _settings(self, frame: SettingsFrame) -> None:
        window = frame.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, self._peer_window)
        self._stream_window += window - self._peer_window
        self._peer_window = window
        if not self._greeted.done():
            self._greeted.set_result(None)
        self._reply(SettingsFrame(0, flags=["ACK"]).serialize() + self._next_data())

    def _widen(self, stream: int, increment: int) -> None:
        if stream == 0:
            self._connection_window += increment
        elif stream == self._stream:
            self._stream_window += increment
        if self._unsent:
            self._reply(self._next_data())

    def _reply(self, frames: bytes) -> None:
        """Send what the protocol wants sent, behind a request that is still going out."""
        task = asyncio.get_running_loop().create_task(self._write(frames))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    async def _write(self, frames: bytes) -> None:
        try:
            async with self._turn:
                if self._link is not None:
                    await self._link.send(frames)
        except OSError as error:
            self.lost(f"connection lost while sending: {error}")
