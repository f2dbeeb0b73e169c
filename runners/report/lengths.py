# SPDX-License-Identifier: Apache-2.0
"""How long answers are, where engines may end them: a contender whose answers are shorter looks faster.

The mean log ratio of mean lengths over blocks has the variance sum((s1 / m1)^2 / n1 + (s2 / m2)^2 / n2) / B^2, from the
means m, deviations s and numbers n of each block's answers. Both contenders answer the same prompts, which makes that
variance too large rather than too small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from runners.config import Bakeoff
from runners.config_workload import Level, LevelKind
from runners.report.record import CellRecord, Run
from runners.report.verdicts import Comparison

CERTAIN: Final = 2.5758293035489004
"""Standard deviations that a difference has to be away from none: 1% on both sides."""


@dataclass(frozen=True)
class LengthDifference:
    """Answers of one contender are decidedly longer or shorter than the reference's: `ratio` of their mean lengths.
    `reasons` are shares of finish reasons, of both, in words."""

    workload: str
    contender: str
    reference: str
    level_kind: LevelKind
    level: float
    ratio: float
    reasons: str

    def concerns(self, workload: str, contender: str, level_kind: LevelKind, level: float | None) -> bool:
        """No level stands for all of a kind."""
        mine = (self.workload, self.contender, self.level_kind)
        return mine == (workload, contender, level_kind) and level in (None, self.level)

    @property
    def flag(self) -> str:
        return f"{'shorter' if self.ratio < 1 else 'longer'} answers ({self.ratio - 1:+.0%})"

    @property
    def remark(self) -> str:
        seems = "faster" if self.ratio < 1 else "slower"
        return (
            f"{self.contender} gives {self.flag} than {self.reference} in {self.workload} at "
            f"{Level(self.level_kind, self.level)}, which makes it look {seems} by E2E, goodput and, at a rate, TTFT; "
            f"finish reasons: {self.reasons}"
        )


def length_differences(run: Run) -> tuple[LengthDifference, ...]:
    """Beyond the margin and beyond chance; nothing where lengths are forced."""
    bakeoff = Bakeoff.model_validate(run.config)
    if bakeoff.output_length == "forced":
        return ()
    reference = bakeoff.reference_name
    found = []
    for workload in bakeoff.workloads:
        for level in workload.levels:
            cells = [c for c in run.cells if (c.workload, c.level_kind, c.level) == (workload.name, *_key(level))]
            theirs = [c for c in cells if c.contender == reference]
            for name in (c.name for c in bakeoff.contenders if c.name != reference):
                mine = [c for c in cells if c.contender == name]
                ratio = _different(mine, theirs, bakeoff.margin)
                if ratio is not None:
                    reasons = f"{reasons_of(mine) or 'not kept'} against {reasons_of(theirs) or 'not kept'}"
                    found.append(LengthDifference(workload.name, name, reference, *_key(level), ratio, reasons))
    return tuple(found)


def _key(level: Level) -> tuple[LevelKind, float]:
    return level.kind, level.value


def _different(mine: Sequence[CellRecord], theirs: Sequence[CellRecord], margin: float) -> float | None:
    """The ratio of mean lengths, where it is decidedly not 1."""
    logs, variance = [], 0.0
    by_block = {c.block: c for c in theirs}
    for cell in mine:
        pair = [cell, by_block[cell.block]] if cell.block in by_block else []
        lengths = [(c.summary.answer_lengths, c.summary.requests_done) for c in pair]
        known = [(of.mean, of.deviation, n) for of, n in lengths if of is not None and of.deviation is not None]
        if len(known) == 2 and all(mean for mean, _, _ in known):
            logs.append(math.log(known[0][0] / known[1][0]))
            variance += sum((deviation / mean) ** 2 / n for mean, deviation, n in known)
    if not logs:
        return None
    log, spread = fmean(logs), math.sqrt(variance) / len(logs)
    return math.exp(log) if abs(log) > max(-math.log1p(-margin), CERTAIN * spread) else None


def reasons_of(cells: Sequence[CellRecord]) -> str | None:
    """Shares of finish reasons over all cells, None of records that do not have them."""
    totals: dict[str, int] = {}
    for cell in cells:
        for name, count in cell.summary.finish_reasons.items():
            totals[name] = totals.get(name, 0) + count
    whole = sum(totals.values())
    return ", ".join(f"{name} {count / whole:.0%}" for name, count in sorted(totals.items())) or None


def withhold_latency(comparisons: Sequence[Comparison], found: Sequence[LengthDifference]) -> tuple[Comparison, ...]:
    """No verdict on a latency, where answers are of different lengths: it is not that of the same work."""
    return tuple(_withheld(comparison, found) for comparison in comparisons)


def _withheld(comparison: Comparison, found: Sequence[LengthDifference]) -> Comparison:
    wanted = (comparison.workload, comparison.contender, comparison.level_kind, comparison.level)
    against = [difference for difference in found if difference.concerns(*wanted)]
    if not against or not comparison.metric.startswith("ttft") or comparison.withheld:
        return comparison
    return replace(comparison, verdict=f"no verdict: {against[0].flag}", further=None, withheld=True)
