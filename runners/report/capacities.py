# SPDX-License-Identifier: Apache-2.0
"""Capacity under limits: what the searches of all lives come to, with a t interval on the logarithm over blocks."""

from collections.abc import Mapping
from dataclasses import dataclass

from runners.config import Bakeoff
from runners.report.compare import Estimate, geometric_of_all
from runners.report.record import Capacity, Run


@dataclass(frozen=True)
class CapacityEstimate:
    """The highest level at which a contender meets the limits, as a geometric mean over blocks.

    A search leaves a bracket: the lower bound of the interval is that of the levels that met the limits, the upper
    bound that of the highest levels that may still have met them.

    `at_least`: some search met the limits at the highest level it was allowed, so value and upper bound are open
    above. `none_in`: blocks in which even level 1 missed; then there is no value.
    """

    workload: str
    contender: str
    blocks: int
    value: float | None
    low: float | None
    high: float | None
    at_least: bool
    none_in: tuple[int, ...]
    output_tokens_per_s: Estimate | None

    def text(self) -> str:
        if self.value is None:
            return f"none: level 1 misses a limit in block {', '.join(str(b) for b in self.none_in)}"
        if self.low is None or self.high is None:
            bounds = "one block has no spread"
        elif self.at_least:
            bounds = f"[{self.low:.3g}, above)"
        else:
            bounds = f"[{self.low:.3g}, {self.high:.3g}]"
        return f"{'at least ' if self.at_least else ''}{self.value:.3g} {bounds}"


def capacities(run: Run) -> tuple[CapacityEstimate, ...]:
    """For each workload with a search and each contender."""
    bakeoff = Bakeoff.model_validate(run.config)
    found = []
    for workload in bakeoff.workloads:
        for contender in bakeoff.contenders:
            searches = {
                life.block: capacity
                for life in run.lives
                for capacity in life.capacities
                if life.contender == contender.name and capacity.workload == workload.name
            }
            if searches:
                found.append(_estimate(workload.name, contender.name, searches))
    return tuple(found)


def _estimate(workload: str, contender: str, searches: Mapping[int, Capacity]) -> CapacityEstimate:
    none_in = tuple(sorted(block for block, capacity in searches.items() if capacity.met is None))
    mean = geometric_of_all([None if c.met is None else float(c.met) for c in searches.values()])
    above = geometric_of_all([_may_have_met(c) for c in searches.values()])
    return CapacityEstimate(
        workload=workload,
        contender=contender,
        blocks=len(searches),
        value=mean.value if mean else None,
        low=mean.low if mean else None,
        high=above.high if mean and above else None,
        at_least=any(c.missed is None for c in searches.values()),
        none_in=none_in,
        output_tokens_per_s=geometric_of_all([_rate_there(c) for c in searches.values()]),
    )


def _may_have_met(capacity: Capacity) -> float | None:
    """The highest level below the one that missed; the highest tried where none missed."""
    if capacity.missed is None:
        return capacity.met
    return capacity.missed - 1 if capacity.level_kind == "concurrency" else capacity.missed


def _rate_there(capacity: Capacity) -> float | None:
    """The rate of the probe at the level that the search ended with."""
    return next((p.output_tokens_per_s for p in capacity.probes if p.level == capacity.met), None)
