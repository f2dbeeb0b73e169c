# SPDX-License-Identifier: Apache-2.0
"""Drives one cell: in closed loop, slots that take the next prompt as soon as they are free; in open loop,
requests that are due whatever the server does."""

import asyncio
import gc
import itertools
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator

from engines.contract import Call, Prompt
from runners.interrupts import deferred
from runners.load.clock import CellClock
from runners.load.load import Arrivals, Driven, Load
from runners.load.priority import foremost, waited_for_cpu_s
from runners.load.spool import Received
from runners.load.trace import Exchange
from runners.load.transport import Carrier, Transport

WATCH_EVERY_S = 0.1
TIMER_S = 0.0012
MOST_WINDOWS = 4.0

Encode = Callable[[Prompt, str], Call]
"""From a prompt and the id of its request to the call."""


def drive(load: Load, prompts: Iterator[Prompt], encode: Encode, transport: Transport) -> Driven:
    """Run the cell to its last response. Bodies are encoded ahead; meanwhile the collector is off and
    the client comes before other processes."""
    prepared = _Drive(load, prompts, encode, transport)
    with deferred():
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
    def __init__(self, load: Load, prompts: Iterator[Prompt], encode: Encode, transport: Transport) -> None:
        self._load = load
        self._connect = transport.connect
        self._encoded = _Ahead(prompts, encode, transport, load.expected_requests)
        self._clock = CellClock.now()
        self._driven = Driven(split=transport.split)
        self._unsteady = set(range(load.level))
        self._active: dict[Carrier, Exchange] = {}
        self._failures_in_a_row = 0
        self._spent_s, self._finished = 0.0, 0

    async def run(self) -> Driven:
        watch = asyncio.create_task(self._watch())
        self._clock = CellClock.now()
        self._driven.start_ns = self._clock.start_ns
        cpu_s = time.process_time()
        if self._load.arrivals is None:
            await asyncio.gather(*(self._slot(i) for i in range(self._load.level)))
        else:
            await self._open_loop(self._load.arrivals)
        watch.cancel()
        self._driven.end_s = self._clock()
        self._driven.cpu_s = time.process_time() - cpu_s
        self._driven.clock_drift_s = self._clock.drift_s()
        return self._driven

    async def _slot(self, slot: int) -> None:
        connection = self._connect(self._clock)
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
        await connection.aclose()

    async def _open_loop(self, arrivals: Arrivals) -> None:
        """Each request in a task of its own, on a connection that is free or new. Due times count from
        when the first connections are open."""
        free = [self._connect(self._clock) for _ in range(min(arrivals.warm, self._load.level))]
        await asyncio.gather(*(connection.open() for connection in free))
        start_s = self._clock()
        steady_s = start_s + arrivals.ramp_s
        slots = asyncio.Semaphore(self._load.level)
        tasks: list[asyncio.Task[None]] = []
        for number, offset_s in enumerate(arrivals.due_s):
            due_s = start_s + offset_s
            if self._all_due(number, due_s - steady_s):
                break
            await self._until(due_s)
            if due_s >= steady_s and self._driven.steady_s is None:
                self._driven.steady_s = steady_s
            self._driven.over_cap += slots.locked()
            if await self._free_slot(slots, due_s):
                tasks.append(asyncio.create_task(self._arrival(number, due_s, free, slots)))
            else:
                self._never_sent(number, due_s)
        await self._drain(tasks)
        for connection in free:
            self._driven.connects += connection.connects
            await connection.aclose()

    @property
    def _patience_s(self) -> float:
        """How long a request may wait for a slot, and the last ones for their end: a saturated engine would
        take for ever."""
        return self._load.request_limit_s if self._load.requests is not None else self._load.window_s

    async def _free_slot(self, slots: asyncio.Semaphore, due_s: float) -> bool:
        left_s = due_s + self._patience_s - self._clock()
        try:
            await asyncio.wait_for(slots.acquire(), max(0.0, left_s))
        except TimeoutError:
            return False
        return True

    def _never_sent(self, number: int, due_s: float) -> None:
        """A request that waited for a slot in vain: failed, and counted."""
        prompt, request_id, _ = self._encoded.take()
        exchange = self._begun(number, prompt, due_s, request_id)
        exchange.error = f"never sent: {self._load.level} requests were in flight for {self._patience_s:g} s"
        exchange.end_s = exchange.last_activity_s

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the requests under way."""
        if not tasks:
            return
        _, unfinished = await asyncio.wait(tasks, timeout=self._patience_s)
        for connection in list(self._active):
            connection.abort(f"unfinished {self._patience_s:g} s after the last request was due")
        if unfinished:
            await asyncio.wait(unfinished)

    def _all_due(self, number: int, into_window_s: float) -> bool:
        """Whether driving ends before this request."""
        if self._driven.gave_up:
            return True
        if self._load.requests is not None or self._load.all_sent(number):
            return self._load.all_sent(number)
        return into_window_s > min(self._window_s(), MOST_WINDOWS * self._load.window_s)

    async def _arrival(self, number: int, due_s: float, free: list[Carrier], slots: asyncio.Semaphore) -> None:
        connection = free.pop() if free else self._connect(self._clock)
        self._note(await self._one(connection, number, due_s))
        self._over()
        free.append(connection)
        slots.release()

    async def _until(self, due_s: float) -> None:
        """Timers are a millisecond coarse: the last stretch is waited for by looking."""
        while (left_s := due_s - self._clock()) > 0:
            await asyncio.sleep(left_s - TIMER_S if left_s > TIMER_S else 0)

    async def _one(self, connection: Carrier, slot: int, due_s: float) -> Exchange:
        prompt, request_id, request = self._encoded.take()
        exchange = self._begun(slot, prompt, due_s, request_id)
        self._active[connection] = exchange
        await connection.exchange(request, exchange)
        del self._active[connection]
        exchange.trim()
        self._driven.spool.keep(exchange.body)
        return exchange

    def _begun(self, slot: int, prompt: Prompt, due_s: float, request_id: str) -> Exchange:
        body = Received(self._driven.spool)
        exchange = Exchange(len(self._driven.exchanges), slot, prompt, due_s, request_id, body)
        self._driven.exchanges.append(exchange)
        self._driven.last_send_s = exchange.last_activity_s = self._clock()
        return exchange

    def _note(self, exchange: Exchange) -> None:
        failed = exchange.error is not None or exchange.status != 200
        if not failed and exchange.end_s is not None:
            self._spent_s += exchange.end_s - exchange.due_s
            self._finished += 1
        self._failures_in_a_row = self._failures_in_a_row + 1 if failed else 0
        self._unsteady.discard(exchange.slot)
        if not self._unsteady and self._driven.steady_s is None and self._load.arrivals is None:
            self._driven.steady_s = self._clock()

    def _over(self) -> bool:
        if self._failures_in_a_row >= self._load.most_failures:
            self._driven.gave_up = True
        if self._driven.gave_up:
            return True
        if self._load.requests is not None or self._load.all_sent(len(self._driven.exchanges)):
            return self._load.all_sent(len(self._driven.exchanges))
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

    def __init__(self, prompts: Iterator[Prompt], encode: Encode, transport: Transport, depth: int) -> None:
        self._source = prompts
        self._run = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()
        self._encode = encode
        self._prepare = transport.prepare
        self._ready = deque(self._next() for _ in range(depth))

    def take(self) -> tuple[Prompt, str, bytes]:
        return self._ready.popleft() if self._ready else self._next()

    def _next(self) -> tuple[Prompt, str, bytes]:
        prompt, request_id = next(self._source), f"{self._run}-{next(self._numbers)}"
        return prompt, request_id, self._prepare(self._encode(prompt, request_id), request_id)
