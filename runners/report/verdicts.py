# SPDX-License-Identifier: Apache-2.0
"""The verdicts of a run: each contender against the reference, over all levels and at each of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from runners.config import Bakeoff
from runners.config_workload import LevelKind
from runners.report.compare import (
    ALPHA,
    FEWEST_FOR_POSITION,
    Estimate,
    Further,
    estimate,
    fit,
    further_blocks,
    holm,
    verdict,
)
from runners.report.crossover import Crossover, crossover
from runners.report.primary import PRIMARY, primary_of
from runners.report.record import CellRecord, Run
from runners.report.summary import LATENCY_BOUND


@dataclass(frozen=True)
class Logs:
    """Log ratios to the reference by block, above 0 is better, and how many places later the contender came."""

    ratios: Mapping[int, float]
    places: Mapping[int, float]

    @property
    def values(self) -> list[float]:
        return list(self.ratios.values())

    @property
    def shifts(self) -> list[float]:
        return [self.places[block] for block in self.ratios]


@dataclass(frozen=True)
class Comparison:
    """One contender against the reference.

    `level` is None for the mean log ratio over all levels, the comparison declared ahead; levels are judged
    beside it. `p_holm` is adjusted within the workload: among the contenders for the former, among contenders and
    levels for the latter. The interval is that of `confidence`, not adjusted. `with_position`: the term for position
    is in the model. `position_p` and `drift_p`: that position in the block, and the number of the block, do not
    matter to the log ratio. `withheld`: the contender may have no verdict, whatever it measured.
    """

    workload: str
    contender: str
    reference: str
    metric: str
    level_kind: LevelKind
    level: float | None
    ratio: Estimate | None
    confidence: float
    p_holm: float | None
    verdict: str
    further: Further | None
    with_position: bool
    position: float | None
    position_p: float | None
    drift: float | None
    drift_p: float | None
    withheld: bool = False

    @property
    def decided(self) -> bool:
        return self.verdict.startswith(("equal", "faster", "slower"))

    @property
    def settled(self) -> bool:
        """No further block changes it."""
        return self.decided or self.withheld


def judge(run: Run) -> tuple[Comparison, ...]:
    """All comparisons of a run, in the order of its config: over all levels first, then each level."""
    bakeoff = Bakeoff.model_validate(run.config)
    alpha = ALPHA / len(run.looks) if run.looks else ALPHA
    pairs = [(c.name, bakeoff.reference_name) for c in bakeoff.contenders if c.name != bakeoff.reference_name]
    return tuple(
        comparison
        for cells in by_primary_metric(run, bakeoff)
        for comparison in judge_pairs(cells, pairs, bakeoff.margin, alpha)
    )


def withhold(comparisons: Sequence[Comparison], against: Mapping[str, str]) -> tuple[Comparison, ...]:
    """The comparisons, without a verdict for contenders that may have none: `against` maps names to reasons."""
    return tuple(
        replace(c, verdict=f"no verdict: {against[c.contender]}", further=None, withheld=True)
        if c.contender in against
        else c
        for c in comparisons
    )


def by_primary_metric(run: Run, bakeoff: Bakeoff) -> list[list[CellRecord]]:
    """Cells that share a primary metric: those of one workload whose levels are of one kind."""
    return [
        cells
        for workload in bakeoff.workloads
        for kind in PRIMARY
        if (cells := [c for c in run.cells if c.workload == workload.name and c.level_kind == kind])
    ]


def judge_pairs(
    cells: Sequence[CellRecord], pairs: Sequence[tuple[str, str]], margin: float, alpha: float
) -> list[Comparison]:
    """Each pair of a contender and its reference, on cells that share a primary metric."""
    levels = sorted({c.level for c in cells})
    declared, beside = [], []
    for contender, reference in pairs:
        of_levels = {level: log_ratios(cells, contender, reference, level) for level in levels}
        whole = mean_logs(list(of_levels.values()))
        position = position_joins(whole)
        declared.append(_compare(cells, contender, reference, None, whole, position, alpha))
        beside += [_compare(cells, contender, reference, at, logs, position, alpha) for at, logs in of_levels.items()]
    found = [*_concluded(declared, cells, margin, alpha), *_concluded(beside, cells, margin, alpha)]
    order = [contender for contender, _ in pairs]
    return sorted(found, key=lambda c: order.index(c.contender))


def _compare(
    cells: Sequence[CellRecord],
    contender: str,
    reference: str,
    level: float | None,
    logs: Logs,
    with_position: bool,
    alpha: float,
) -> Comparison:
    """Estimate without a verdict, which takes the family's p values."""
    position, position_p = trend(logs.values, logs.shifts)
    drift, drift_p = trend(logs.values, list(logs.ratios))
    return Comparison(
        workload=cells[0].workload,
        contender=contender,
        reference=reference,
        metric=primary_of(cells[0]).name,
        level_kind=cells[0].level_kind,
        level=level,
        ratio=estimate(logs.values, logs.shifts, alpha, with_position=with_position),
        with_position=with_position,
        confidence=1 - alpha,
        p_holm=None,
        verdict="",
        further=None,
        position=position,
        position_p=position_p,
        drift=drift,
        drift_p=drift_p,
    )


@dataclass(frozen=True)
class Crossing:
    """Where a contender and the reference change places."""

    workload: str
    level_kind: LevelKind
    contender: str
    reference: str
    crossover: Crossover


def crossings(run: Run) -> tuple[Crossing, ...]:
    """For each workload with several levels and each contender, over the blocks that have all levels."""
    bakeoff = Bakeoff.model_validate(run.config)
    found = []
    for cells in by_primary_metric(run, bakeoff):
        levels = sorted({c.level for c in cells})
        for name in (c.name for c in bakeoff.contenders if c.name != bakeoff.reference_name):
            of_levels = [log_ratios(cells, name, bakeoff.reference_name, level) for level in levels]
            whole = mean_logs(of_levels)
            if len(whole.ratios) < 2:
                continue
            logs = np.array([[at.ratios[block] for block in whole.ratios] for at in of_levels])
            where = crossover(levels, logs, np.asarray(whole.shifts), with_position=position_joins(whole))
            if where is not None:
                found.append(Crossing(cells[0].workload, cells[0].level_kind, name, bakeoff.reference_name, where))
    return tuple(found)


def log_ratios(cells: Sequence[CellRecord], contender: str, reference: str, level: float) -> Logs:
    """Of the primary metric, in the blocks in which both have it."""
    base = {c.block: c for c in cells if c.contender == reference and c.level == level}
    ratios, places = {}, {}
    for cell in sorted((c for c in cells if c.contender == contender and c.level == level), key=lambda c: c.block):
        metric = primary_of(cell)
        other = base.get(cell.block)
        mine, its = metric.of(cell.summary), metric.of(other.summary) if other else None
        if mine and its and other:
            ratios[cell.block] = math.log(mine / its) if metric.higher_is_better else math.log(its / mine)
            places[cell.block] = float(cell.position - other.position)
    return Logs(ratios, places)


def mean_logs(of_levels: Sequence[Logs]) -> Logs:
    """The mean over levels, in the blocks that have all of them."""
    blocks = [b for b in of_levels[0].ratios if all(b in logs.ratios for logs in of_levels)] if of_levels else []
    return Logs(
        {b: sum(logs.ratios[b] for logs in of_levels) / len(of_levels) for b in blocks},
        {b: of_levels[0].places[b] for b in blocks},
    )


def position_joins(logs: Logs) -> bool:
    """The term for position is in the model of a contender in a workload, by the mean over levels."""
    return len(logs.ratios) > 1 and bool(fit(np.asarray(logs.values), np.asarray(logs.shifts)).with_position)


def trend(logs: Sequence[float], against: Sequence[float]) -> tuple[float | None, float | None]:
    """Slope of log values against something that is known of each, and p of "there is none"; None where it
    cannot be told, as under four blocks."""
    if len(logs) < FEWEST_FOR_POSITION:
        return None, None
    found = fit(np.asarray(logs), np.asarray(against, dtype=float))
    return (None, None) if np.isnan(found.position) else (float(found.position), float(found.position_p))


def _concluded(
    family: Sequence[Comparison], cells: Sequence[CellRecord], margin: float, alpha: float
) -> list[Comparison]:
    """Holm over the family, then each verdict and what it may still take."""
    tested = [c.ratio.p for c in family if c.ratio is not None and c.ratio.p is not None]
    adjusted = iter(holm(np.asarray(tested, dtype=float)).tolist())
    concluded = []
    for comparison in family:
        ratio = comparison.ratio
        p_holm = next(adjusted) if ratio is not None and ratio.p is not None else None
        said = _verdict(comparison, p_holm, cells, margin, alpha)
        undecided = ratio is not None and said == "undecided"
        further = further_blocks(ratio, p_holm, margin, alpha) if undecided and ratio else None
        concluded.append(replace(comparison, p_holm=p_holm, verdict=said, further=further))
    return concluded


def _verdict(
    comparison: Comparison, p_holm: float | None, cells: Sequence[CellRecord], margin: float, alpha: float
) -> str:
    if comparison.ratio is None:
        return "no verdict: no block has both figures"
    against = _against(cells, comparison)
    return f"no verdict: {against}" if against else verdict(comparison.ratio, p_holm, margin, alpha)


def _against(cells: Sequence[CellRecord], comparison: Comparison) -> str | None:
    """The first reason why no verdict may rest on these cells, on either side. A client that was the limit of
    latency forbids one on latency, and one between transports: they do not cost the client the same."""
    sides = (comparison.contender, comparison.reference)
    concerned = [c for c in cells if c.contender in sides and comparison.level in (None, c.level)]
    latency_counts = comparison.metric.startswith("ttft") or len({c.transport for c in concerned}) > 1
    for cell in sorted(concerned, key=lambda c: sides.index(c.contender)):
        for flag in cell.summary.flags:
            if flag.no_verdict or (latency_counts and flag.code == LATENCY_BOUND):
                return f"{flag.code} ({cell.contender}, block {cell.block})"
    return None
