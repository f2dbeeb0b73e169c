# SPDX-License-Identifier: Apache-2.0
"""One connection that carries one request at a time, kept alive where the server allows it.

What the bytes mean beyond where an answer ends is read after the cell.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from typing import Final

from runners.load.clock import CellClock
from runners.load.link import CONNECT_S, Link, Target, open_link
from runners.load.trace import Exchange

MOST_BODY: Final = 1 << 30
"""What is longer ends as failed. Where each event repeats the text so far, 16,000 tokens are half of it."""


class WireError(Exception):
    """Bytes that are not the protocol; the message says which and why."""


class Connection(ABC):
    """A link, the exchange under way on it, and a protocol's way of telling where an answer ends."""

    def __init__(self, target: Target, clock: CellClock) -> None:
        self._target = target
        self._clock = clock
        self._link: Link | None = None
        self.refused = ""
        """Why the last attempt to connect failed."""
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] | None = None
        self._served = self._heard = self._lost = False
        self._kernel_s = self._user_s = math.nan
        self.connects = 0

    async def open(self) -> None:
        """Connect ahead of the first request; a refusal is left for that request to tell."""
        if self._link is not None:
            return
        self._served = False
        self._reset()
        try:
            self._link = await open_link(self._target, self._clock, self)
            await self._greet(self._link)
        except ConnectionRefusedError:
            self.refused = "connection refused"
        except TimeoutError:
            self.refused = f"no connection within {CONNECT_S:g} s"
        except (OSError, WireError) as error:
            self.refused = f"no connection: {error}"
            self.close()
        else:
            self.connects += 1

    async def exchange(self, request: bytes, exchange: Exchange) -> None:
        """Send, and fill `exchange` until its response is complete or has failed.

        A connection that the server had closed while idle is replaced and the request sent once
        more: until then no engine has seen it.
        """
        await self.open()
        idle_before = self._served
        await self._attempt(request, exchange)
        if idle_before and self._lost and not self._heard:
            exchange.error = None
            await self.open()
            await self._attempt(request, exchange)
        if exchange.end_s is None:
            exchange.end_s = self._clock()

    def abort(self, reason: str) -> None:
        """End the exchange under way as failed."""
        self._fail(reason)

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def received(self, data: bytes, kernel_s: float, user_s: float) -> None:
        """See `Listener`. A link is watched while idle too, so one that was closed is known at once."""
        exchange = self._exchange
        if not data:
            self._ended()
            return
        self._kernel_s, self._user_s, self._heard = kernel_s, user_s, True
        before = exchange.body.length if exchange else 0
        try:
            self._feed(data)
        except WireError as error:
            self._fail(str(error))
        if exchange is None:
            return
        exchange.last_activity_s = user_s
        length = exchange.body.length
        if length > before:
            exchange.reads.extend((length, kernel_s, user_s))
        if length > MOST_BODY:
            self._fail(f"an answer of more than {MOST_BODY >> 20} MiB")
            exchange.let_go()

    def lost(self, reason: str) -> None:
        """See `Listener`."""
        self._lost = True
        self._fail(reason)

    @abstractmethod
    def _reset(self) -> None:
        """A new link begins."""

    async def _greet(self, link: Link) -> None:  # noqa: B027 (not every protocol greets)
        """What the protocol wants said before the first request. Raises WireError."""

    @abstractmethod
    async def _send(self, link: Link, request: bytes) -> float:
        """Send a request; the time just before its first byte went. Raises OSError."""

    @abstractmethod
    def _feed(self, data: bytes) -> None:
        """Read on: body bytes go to the exchange, an end to `_complete`. Raises WireError."""

    def _ends_by_closing(self) -> bool:
        """Whether the end of the connection is a proper end of the answer under way."""
        return False

    async def _attempt(self, request: bytes, exchange: Exchange) -> None:
        self._exchange, self._done = exchange, asyncio.get_running_loop().create_future()
        self._heard = self._lost = False
        exchange.sent_s = exchange.last_activity_s = self._clock()
        if self._link is None:
            self._fail(self.refused)
        else:
            try:
                exchange.sent_s = await self._send(self._link, request)
            except OSError as error:
                self.lost(f"connection lost while sending: {error}")
        await self._done
        self._exchange = None

    def _ended(self) -> None:
        if self._exchange is not None and self._ends_by_closing():
            self._complete(keep=False)
        else:
            self.lost("connection closed before the response was complete")

    def _complete(self, *, keep: bool) -> None:
        """The answer is whole; `keep` the connection for the next."""
        if self._exchange is None or self._done is None or self._done.done():
            return
        self._exchange.complete = self._served = True
        self._exchange.end_s = self._user_s if math.isnan(self._kernel_s) else self._kernel_s
        if not keep:
            self.close()
        self._done.set_result(None)

    def _fail(self, error: str) -> None:
        self.close()
        if self._exchange is None or self._done is None or self._done.done():
            return
        self._exchange.error = self._exchange.error or error
        self._done.set_result(None)
