# SPDX-License-Identifier: Apache-2.0
"""Engines that exist in simulated time only, whose true rates are known by construction.

The load generator itself runs unchanged; the event loop's clock jumps from one timer to the next.
"""

import asyncio
import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from engines.contract import Call
from runners.load.clock import CellClock
from runners.load.event_stream import events
from runners.load.trace import Exchange
from runners.load.transport import Transport

TOKEN = b'data: {"text_output":" w"}\n\n'


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: with nothing to do, its time is that of the next timer."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now_s = max(self.now_s, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


@contextmanager
def simulated_time() -> Iterator[None]:
    """Within, the load generator runs on a JumpingLoop."""
    loop = JumpingLoop()

    def run(main: Any) -> Any:
        try:
            return loop.run_until_complete(main)
        finally:
            loop.close()

    def now_ns() -> int:
        return math.ceil(loop.now_s * 1e9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runners.load.clock.time", SimpleNamespace(monotonic_ns=now_ns, time_ns=now_ns))
        patch.setattr("runners.load.drive.TIMER_S", 0.0)
        patch.setattr(asyncio, "run", run)
        yield


class Engine:
    """Decodes in steps, one token for every request in the batch; `step_s` is the length of a step from
    the number of requests in it."""

    def __init__(self, step_s: Callable[[int], float]) -> None:
        self._step_s = step_s
        self._batch: dict[Exchange, int] = {}
        self._done: dict[Exchange, asyncio.Future[None]] = {}
        self._stepping: asyncio.Task[None] | None = None

    async def answer(self, exchange: Exchange, clock: CellClock) -> None:
        loop = asyncio.get_running_loop()
        self._batch[exchange] = exchange.prompt.max_tokens
        self._done[exchange] = loop.create_future()
        if self._stepping is None or self._stepping.done():
            self._stepping = loop.create_task(self._steps(clock))
        await self._done[exchange]

    async def _steps(self, clock: CellClock) -> None:
        while self._batch:
            batch = list(self._batch)
            await asyncio.sleep(self._step_s(len(batch)))
            now_s = clock()
            for exchange in batch:
                exchange.body.add(TOKEN)
                exchange.reads.extend((exchange.body.length, now_s, now_s))
                exchange.last_activity_s = exchange.end_s = now_s
                self._batch[exchange] -= 1
                if self._batch[exchange] == 0:
                    del self._batch[exchange]
                    self._done.pop(exchange).set_result(None)


class _Carrier:
    def __init__(self, engine: Engine, clock: CellClock) -> None:
        self._engine = engine
        self._clock = clock
        self.connects = 0
        self.refused = ""

    async def open(self) -> None:
        self.connects = 1

    async def exchange(self, request: bytes, exchange: Exchange) -> None:
        exchange.sent_s = self._clock()
        exchange.status = 200
        await self._engine.answer(exchange, self._clock)
        exchange.complete = True

    def abort(self, reason: str) -> None:
        raise AssertionError(reason)

    async def aclose(self) -> None:
        pass


def transport_to(step_s: Callable[[int], float]) -> Transport:
    engine: list[Engine] = []

    def connect(clock: CellClock) -> _Carrier:
        if not engine:
            engine.append(Engine(step_s))
        return _Carrier(engine[0], clock)

    return Transport("simulated", lambda call, request_id: call.body, connect, events)


def call(prompt: Any, request_id: str) -> Call:
    return Call("/", json.dumps({"max_tokens": prompt.max_tokens}).encode())


def lengths(low: int, high: int, seed: int) -> Iterator[int]:
    chance = random.Random(seed)
    while True:
        yield chance.randint(low, high)
