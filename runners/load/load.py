# SPDX-License-Identifier: Apache-2.0
"""What a cell is asked to do, and what comes back raw."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from runners.load.event_stream import events
from runners.load.spool import Spool
from runners.load.trace import Exchange
from runners.load.transport import Split

MOST_FAILING = 1024


@dataclass(frozen=True)
class Arrivals:
    """Open loop: when requests are due, in seconds. `expected` of them are encoded, and `warm` connections
    opened, ahead. The first `ramp_s` seconds are not measured."""

    due_s: Iterator[float]
    expected: int
    warm: int = 1
    ramp_s: float = 0.0


@dataclass(frozen=True)
class Load:
    """Closed loop at `level` slots, started evenly over `spread_s`; or, where `arrivals` are given, open
    loop with at most `level` in flight: one that is due when as many are waits, and its time runs all the
    same.

    The steady window opens when every slot has finished its first request, in open loop when the ramp is
    over. New requests stop when it has lasted `window_s` and `window_e2e` mean request times (in open loop
    MOST_WINDOWS times `window_s` at most, since behind a saturated engine times grow without end), or after
    `requests` where that is given; and in any case after `most_requests`, as many prompts as there are.
    `idle_limit_s` ends a stream that is silent for so long, `request_limit_s` one that never ends.
    """

    level: int
    spread_s: float
    window_s: float
    window_e2e: float
    idle_limit_s: float
    request_limit_s: float
    requests: int | None = None
    arrivals: Arrivals | None = None
    most_requests: int | None = None

    @property
    def most_failures(self) -> int:
        """Failures in a row after which driving is given up."""
        return 2 * min(self.level, MOST_FAILING) + 4

    @property
    def expected_requests(self) -> int:
        """Requests to have ready before the start: half as many again as the spread foretells."""
        if self.requests is not None:
            return self.requests
        per_slot = max(self.window_s / self.spread_s, self.window_e2e) + 2 if self.spread_s else 8
        expected = self.arrivals.expected if self.arrivals else math.ceil(1.5 * self.level * per_slot)
        return expected if self.most_requests is None else min(expected, self.most_requests)

    def all_sent(self, number: int) -> bool:
        """Whether so many requests are all that may be sent."""
        return number >= min((x for x in (self.requests, self.most_requests) if x is not None), default=math.inf)


def one_by_one(requests: int, idle_limit_s: float, request_limit_s: float) -> Load:
    """So many requests, each when the one before has ended."""
    return Load(
        level=1,
        spread_s=0.0,
        window_s=0.0,
        window_e2e=0.0,
        idle_limit_s=idle_limit_s,
        request_limit_s=request_limit_s,
        requests=requests,
    )


@dataclass
class Driven:
    """What came back, raw, and how to read it. `steady_s` is None where some slot never finished a request."""

    split: Split = events
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
