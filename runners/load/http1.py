# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 requests and answers over a `Connection`; httptools parses."""

import httptools

from engines.contract import Call
from runners.load.clock import CellClock
from runners.load.connection import Connection, WireError
from runners.load.link import Link, Target


def request_bytes(call: Call, host: str, request_id: str) -> bytes:
    """The whole request, ready to be sent in one piece. The id joins it to a server's own log."""
    head = (
        f"POST {call.path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nX-Request-Id: {request_id}\r\nContent-Length: {len(call.body)}\r\n\r\n"
    )
    return head.encode() + call.body


class Http1Connection(Connection):
    """Keep-alive HTTP/1.1, one request at a time."""

    def __init__(self, target: Target, clock: CellClock) -> None:
        super().__init__(target, clock)
        self._sized = False

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    async def _send(self, link: Link, request: bytes) -> float:
        self._sized = False
        return await link.send(request)

    def _feed(self, data: bytes) -> None:
        if self._exchange is None:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise WireError(f"not HTTP: {error}") from None

    def _ends_by_closing(self) -> bool:
        return self._exchange is not None and self._exchange.status is not None and not self._sized

    # What follows is called by the parser.

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
        self._complete(keep=self._parser.should_keep_alive() and self._sized)
