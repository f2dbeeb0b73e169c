# SPDX-License-Identifier: Apache-2.0
"""The same gRPC calls through grpc.aio, where our own wire cannot go: over TLS, or to check it.

Stamps are those of this process. It holds some 1,400 events a second on two cores.
"""

import asyncio
import math
from typing import Final

import grpc.aio

from runners.load.clock import CellClock
from runners.load.grpc_calls import STREAM_PATH
from runners.load.h2c import message_bytes
from runners.load.link import CONNECT_S, Target
from runners.load.trace import Exchange

OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)
"""No limits, and a connection for each channel where grpc would share one."""


class AioConnection:
    """One channel; the interface of `Connection`. Requests are bare messages, the body is as H2c's."""

    def __init__(self, target: Target, clock: CellClock) -> None:
        self._target = target
        self._clock = clock
        self._channel: grpc.aio.Channel | None = None
        self._exchange: Exchange | None = None
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        self.refused = ""
        self.connects = 0

    async def open(self) -> None:
        """Connect ahead of the first request, as well as can be; failures are the request's to tell."""
        if self._channel is not None:
            return
        target = self._target.authority
        if self._target.encrypted:
            self._channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options=OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, options=OPTIONS)
        try:
            await asyncio.wait_for(self._channel.channel_ready(), CONNECT_S)
            self.connects += 1
        except TimeoutError:
            self.refused = f"no gRPC server answers within {CONNECT_S:g} s"

    async def exchange(self, request: bytes, exchange: Exchange) -> None:
        """Call, and fill `exchange` until the stream has ended or failed."""
        await self.open()
        assert self._channel is not None
        stream = self._channel.stream_stream(STREAM_PATH)
        exchange.sent_s = self._clock()
        self._exchange, self._call = exchange, stream(iter([request]))
        try:
            async for message in self._call:
                now = exchange.last_activity_s = self._clock()
                exchange.body.add(message_bytes(message))
                exchange.reads.extend((exchange.body.length, math.nan, now))
            exchange.complete = True
            exchange.status = 200
        except grpc.aio.AioRpcError as error:
            exchange.error = exchange.error or f"gRPC status {error.code().value[0]}: {error.details()}"
        except asyncio.CancelledError:
            if exchange.error is None:
                raise
        exchange.end_s = self._clock()
        self._exchange = self._call = None

    def abort(self, reason: str) -> None:
        """End the exchange under way as failed."""
        if self._exchange is not None and self._call is not None:
            self._exchange.error = reason
            self._call.cancel()

    async def aclose(self) -> None:
        if self._channel is not None:
            await self._channel.close()
