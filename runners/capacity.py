# SPDX-License-Identifier: Apache-2.0
"""The search for the highest level that meets the limits, within one server life: bracketing, then bisection."""

import math
from collections.abc import Callable
from typing import Final

from runners.config_judging import CapacityConfig
from runners.config_workload import WorkloadConfig
from runners.report.metrics import SMALLEST_N
from runners.report.record import Capacity, Probe

ROOM: Final = 1.3
"""A probe is planned for so many times the requests that its percentile needs."""
LOWEST_SHARE: Final = 1 / 64
"""A search for a rate that missed at so small a share of its start is given up."""


def search(workload: str, plan: CapacityConfig, probe: Callable[[float], Probe]) -> Capacity:
    """Double from `start`, or halve it, until one level meets the limits and a higher one misses; then halve that
    bracket in the logarithm until it is no wider than `resolution`, or one request in flight."""
    probes: list[Probe] = []
    met: float | None = None
    missed: float | None = None
    level: float | None = plan.start
    while level is not None:
        probes.append(probe(level))
        if probes[-1].missed is None:
            met = level
        else:
            missed = level
        level = _next_level(met, missed, plan)
    return Capacity(workload=workload, level_kind=plan.of, met=met, missed=missed, probes=tuple(probes))


def _next_level(met: float | None, missed: float | None, plan: CapacityConfig) -> float | None:
    """The level to try; None where the search is over: bracketed, at `most`, or so low that nothing is left."""
    whole = plan.of == "concurrency"
    if met is None:
        assert missed is not None
        lower = missed // 2 if whole else missed / 2
        return lower if lower >= (1 if whole else LOWEST_SHARE * plan.start) else None
    if missed is None:
        return min(plan.most, 2 * met) if met < plan.most else None
    if missed <= (1 + plan.resolution) * met or (whole and missed - met <= 1):
        return None
    middle = math.sqrt(met * missed)
    return min(missed - 1, max(met + 1, float(round(middle)))) if whole else middle


def probe_requests(workload: WorkloadConfig) -> int:
    """Requests that a probe needs in its window: enough for the highest percentile among the limits."""
    highest = max((limit.percentile for limit in workload.limits if limit.everywhere), default=50)
    return math.ceil(ROOM * SMALLEST_N[highest / 100])
