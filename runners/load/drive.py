# SPDX-License-Identifier: Apache-2.0
"""Drives one cell in closed loop: slots that take the next prompt as soon as they are free."""

import asyncio
import gc
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import fmean

from engines.contract import Call, Prompt
from runners.load.priority import foremost, waited_for_cpu_s
from runners.load.trace import Exchange
from runners.load.wire import CellClock, Connection, host_of, request_bytes

WATCH_EVERY_S = 0.1


@dataclass(frozen=True)
class Load:
    """Closed loop at `level` slots, started evenly over `spread_s`.

    The steady window opens when every slot has finished its first request. New requests stop when it
    has lasted `window_s` and `window_e2e` mean request times, or after `requests` where that is given
    (warm-up). `idle_limit_s` ends a stream that is silent for so long, `request_limit_s` one that
    never ends.
    """

    level: int
    spread_s: float
    window_s: float
    window_e2e: float
    idle_limit_s: float
    request_limit_s: float
    requests: int | None = None

    @property
    def most_failures(self) -> int:
        """Failures in a row after which driving is given up."""
        return 2 * self.level + 4

    @property
    def expected_requests(self) -> int:
        """Requests to have ready before the start: half as many again as the spread foretells."""
        if self.requests is not None:
            return self.requests
        per_slot = max(self.window_s / self.spread_s, self.window_e2e) + 2 if self.spread_s else 8
        return math.ceil(1.5 * self.level * per_slot)


@dataclass
class Driven:
    """What came back, raw. `steady_s` is None where some slot never finished a request."""

    exchanges: list[Exchange] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    steady_s: float | None = None
    last_send_s: float = 0.0
    end_s: float = 0.0
    connects: int = 0
    idle_slot_s: float = 0.0
    clock_drift_s: float = 0.0
    gave_up: bool = False
    realtime: bool = False
    waited_for_cpu_s: float | None = None


def drive(load: Load, prompts: Iterator[Prompt], encode: Callable[[Prompt], Call], url: str) -> Driven:
    """Run the cell to its last response. Bodies are encoded ahead; meanwhile the collector is off and
    the client comes before other processes."""
    prepared = _Drive(load, prompts, encode, url)
    gc.collect()
    gc.disable()
    try:
        with foremost() as realtime:
            waited_s = waited_for_cpu_s()
            driven = asyncio.run(prepared.run())
            driven.realtime = realtime
            driven.waited_for_cpu_s = None if waited_s is None else (waited_for_cpu_s() or 0.0) - waited_s
            return driven
    finally:
        gc.enable()


class _Drive:
    def __init__(self, load: Load, prompts: Iterator[Prompt], encode: Callable[[Prompt], Call], url: str) -> None:
        self._load = load
        self._address = host_of(url)
        self._encoded = _Ahead(prompts, encode, "{}:{}".format(*self._address), load.expected_requests)
        self._clock = CellClock.now()
        self._driven = Driven()
        self._unsteady = set(range(load.level))
        self._active: dict[Connection, Exchange] = {}
        self._failures_in_a_row = 0
        self._request_s: list[float] = []

    async def run(self) -> Driven:
        watch = asyncio.create_task(self._watch())
        self._clock = CellClock.now()
        await asyncio.gather(*(self._slot(i) for i in range(self._load.level)))
        watch.cancel()
        self._driven.end_s = self._clock()
        self._driven.clock_drift_s = self._clock.drift_s()
        return self._driven

    async def _slot(self, slot: int) -> None:
        start_s = slot * self._load.spread_s / self._load.level
        await asyncio.sleep(max(0.0, start_s - self._clock()))
        connection = Connection(self._address, self._clock)
        due_s, free_s = start_s, None
        while not self._over():
            exchange = await self._one(connection, slot, due_s)
            assert exchange.end_s is not None and exchange.sent_s is not None
            if free_s is not None:
                self._driven.idle_slot_s += max(0.0, exchange.sent_s - free_s)
            self._note(exchange)
            free_s, due_s = exchange.end_s, self._clock()
        self._driven.connects += connection.connects
        connection.close()

    async def _one(self, connection: Connection, slot: int, due_s: float) -> Exchange:
        prompt, request = self._encoded.take()
        exchange = Exchange(len(self._driven.exchanges), slot, prompt, due_s)
        self._driven.exchanges.append(exchange)
        self._driven.prompts.append(prompt)
        self._driven.last_send_s = self._clock()
        self._active[connection] = exchange
        exchange.last_activity_s = self._clock()
        await connection.exchange(request, exchange)
        del self._active[connection]
        return exchange

    def _note(self, exchange: Exchange) -> None:
        failed = exchange.error is not None or exchange.status != 200
        if not failed and exchange.end_s is not None:
            self._request_s.append(exchange.end_s - exchange.due_s)
        self._failures_in_a_row = self._failures_in_a_row + 1 if failed else 0
        self._unsteady.discard(exchange.slot)
        if not self._unsteady and self._driven.steady_s is None:
            self._driven.steady_s = self._clock()

    def _over(self) -> bool:
        if self._failures_in_a_row >= self._load.most_failures:
            self._driven.gave_up = True
        if self._driven.gave_up:
            return True
        if self._load.requests is not None:
            return len(self._driven.exchanges) >= self._load.requests
        steady_s = self._driven.steady_s
        return steady_s is not None and self._clock() >= steady_s + self._window_s()

    def _window_s(self) -> float:
        mean_s = fmean(self._request_s) if self._request_s else 0.0
        return max(self._load.window_s, self._load.window_e2e * mean_s)

    async def _watch(self) -> None:
        """End streams that stall."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            now = self._clock()
            for connection, exchange in list(self._active.items()):
                silent_s = now - exchange.last_activity_s
                if silent_s > self._load.idle_limit_s:
                    connection.abort(f"stalled: nothing received for {silent_s:.1f} s")
                elif now - exchange.due_s > self._load.request_limit_s:
                    connection.abort(f"unfinished after {now - exchange.due_s:.1f} s")


class _Ahead:
    """Prompts encoded before the clock starts; any beyond `depth` are drawn while driving."""

    def __init__(self, prompts: Iterator[Prompt], encode: Callable[[Prompt], Call], host: str, depth: int) -> None:
        self._source = prompts
        self._encode = encode
        self._host = host
        self._ready = deque(self._next() for _ in range(depth))

    def take(self) -> tuple[Prompt, bytes]:
        return self._ready.popleft() if self._ready else self._next()

    def _next(self) -> tuple[Prompt, bytes]:
        prompt = next(self._source)
        return prompt, request_bytes(self._encode(prompt), self._host)
