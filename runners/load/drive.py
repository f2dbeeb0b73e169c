# SPDX-License-Identifier: Apache-2.0
"""Drives one cell in closed loop: slots that take the next prompt as soon as they are free."""

import asyncio
import gc
import itertools
import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engines.contract import Call, Prompt
from runners.load.priority import foremost, waited_for_cpu_s
from runners.load.spool import Received, Spool
from runners.load.trace import Exchange
from runners.load.wire import CellClock, Connection, request_bytes, target_of

WATCH_EVERY_S = 0.1
TIMER_S = 0.002

Encode = Callable[[Prompt, str], Call]
"""From a prompt and the id of its request to the call."""


@dataclass(frozen=True)
class Load:
    """Closed loop at `level` slots, started evenly over `spread_s`; or, where `due_s` gives the times
    at which requests are due, open loop with at most `level` in flight: one that is due when as many are
    waits, and its time runs all the same.

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
    due_s: Iterator[float] | None = None

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
    spool: Spool = field(default_factory=Spool)
    start_ns: int = 0
    cpu_s: float = 0.0
    steady_s: float | None = None
    last_send_s: float = 0.0
    end_s: float = 0.0
    connects: int = 0
    idle_slot_s: float = 0.0
    clock_drift_s: float = 0.0
    gave_up: bool = False
    over_cap: int = 0
    realtime: bool = False
    waited_for_cpu_s: float | None = None


def drive(load: Load, prompts: Iterator[Prompt], encode: Encode, url: str) -> Driven:
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
    def __init__(self, load: Load, prompts: Iterator[Prompt], encode: Encode, url: str) -> None:
        self._load = load
        self._target = target_of(url)
        self._encoded = _Ahead(prompts, encode, self._target.host, load.expected_requests)
        self._clock = CellClock.now()
        self._driven = Driven()
        self._unsteady = set(range(load.level))
        self._active: dict[Connection, Exchange] = {}
        self._failures_in_a_row = 0
        self._spent_s, self._finished = 0.0, 0

    async def run(self) -> Driven:
        watch = asyncio.create_task(self._watch())
        self._clock = CellClock.now()
        self._driven.start_ns = self._clock.start_ns
        cpu_s = time.process_time()
        if self._load.due_s is None:
            await asyncio.gather(*(self._slot(i) for i in range(self._load.level)))
        else:
            await self._arrivals(self._load.due_s)
        watch.cancel()
        self._driven.end_s = self._clock()
        self._driven.cpu_s = time.process_time() - cpu_s
        self._driven.clock_drift_s = self._clock.drift_s()
        return self._driven

    async def _slot(self, slot: int) -> None:
        connection = Connection(self._target, self._clock)
        await connection.open()
        start_s = max(self._clock(), slot * self._load.spread_s / self._load.level)
        await self._until(start_s)
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

    async def _arrivals(self, due_times: Iterator[float]) -> None:
        """Open loop: each request in a task of its own, on a connection that is free or new."""
        free: list[Connection] = []
        slots = asyncio.Semaphore(self._load.level)
        tasks: list[asyncio.Task[None]] = []
        for number, due_s in enumerate(due_times):
            if (self._load.requests is not None and number >= self._load.requests) or self._driven.gave_up:
                break
            await self._until(due_s)
            self._driven.over_cap += slots.locked()
            await slots.acquire()
            tasks.append(asyncio.create_task(self._arrival(number, due_s, free, slots)))
        await asyncio.gather(*tasks)
        for connection in free:
            self._driven.connects += connection.connects
            connection.close()

    async def _arrival(self, number: int, due_s: float, free: list[Connection], slots: asyncio.Semaphore) -> None:
        connection = free.pop() if free else Connection(self._target, self._clock)
        self._note(await self._one(connection, number, due_s))
        self._over()
        free.append(connection)
        slots.release()

    async def _until(self, due_s: float) -> None:
        """Timers are a millisecond coarse: the last stretch is waited for by looking."""
        while (left_s := due_s - self._clock()) > 0:
            await asyncio.sleep(left_s - TIMER_S if left_s > TIMER_S else 0)

    async def _one(self, connection: Connection, slot: int, due_s: float) -> Exchange:
        prompt, request_id, request = self._encoded.take()
        body = Received(self._driven.spool)
        exchange = Exchange(len(self._driven.exchanges), slot, prompt, due_s, request_id, body)
        self._driven.exchanges.append(exchange)
        self._driven.last_send_s = self._clock()
        self._active[connection] = exchange
        exchange.last_activity_s = self._clock()
        await connection.exchange(request, exchange)
        del self._active[connection]
        self._driven.spool.keep(body)
        return exchange

    def _note(self, exchange: Exchange) -> None:
        failed = exchange.error is not None or exchange.status != 200
        if not failed and exchange.end_s is not None:
            self._spent_s += exchange.end_s - exchange.due_s
            self._finished += 1
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
        mean_s = self._spent_s / self._finished if self._finished else 0.0
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

    def __init__(self, prompts: Iterator[Prompt], encode: Encode, host: str, depth: int) -> None:
        self._source = prompts
        self._run = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()
        self._encode = encode
        self._host = host
        self._ready = deque(self._next() for _ in range(depth))

    def take(self) -> tuple[Prompt, str, bytes]:
        return self._ready.popleft() if self._ready else self._next()

    def _next(self) -> tuple[Prompt, str, bytes]:
        prompt, request_id = next(self._source), f"{self._run}-{next(self._numbers)}"
        return prompt, request_id, request_bytes(self._encode(prompt, request_id), self._host, request_id)
