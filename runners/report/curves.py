# SPDX-License-Identifier: Apache-2.0
"""Curves of each contender over its levels: throughput per GPU against the speed of one user, and against TTFT.

A level is on the front of its contender where no other level is at least as good in both figures and better in
one. Its uncertainty is told by blocks: in how many of them it is on the front of that block.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runners.config import Bakeoff
from runners.config_workload import LevelKind
from runners.report.compare import Estimate, geometric, geometric_of_all
from runners.report.record import CellRecord, Run


def user_tokens_per_s(cell: CellRecord) -> float | None:
    """Output tokens per second that a typical user sees once the first has come: 1 / median TPOT."""
    tpot_s = cell.summary.tpot.p50.value
    return 1 / tpot_s if tpot_s else None


def _promptness(cell: CellRecord) -> float | None:
    ttft_s = cell.summary.ttft_visible.p50.value
    return 1 / ttft_s if ttft_s else None


Figure = Callable[[CellRecord], float | None]


@dataclass(frozen=True)
class Front:
    """Whether a level is on the front by the means over blocks, and in how many of `blocks` it is by itself."""

    on: bool
    in_blocks: int
    blocks: int


@dataclass(frozen=True)
class Point:
    """One level of one contender; rates in tokens per second, TTFT in seconds. None where a block lacks it."""

    workload: str
    contender: str
    level_kind: LevelKind
    level: float
    output_tokens_per_s_per_gpu: Estimate | None
    user_tokens_per_s: Estimate | None
    ttft_visible_p50_s: Estimate | None
    by_user_speed: Front | None
    by_ttft: Front | None


def points(run: Run) -> tuple[Point, ...]:
    """In the order of the config, levels ascending. A contender without GPUs counts as one."""
    bakeoff = Bakeoff.model_validate(run.config)
    found: list[Point] = []
    for workload in bakeoff.workloads:
        for contender in bakeoff.contenders:
            of_one = [c for c in run.cells if c.workload == workload.name and c.contender == contender.name]
            for kind in dict.fromkeys(c.level_kind for c in of_one):
                found += _curve([c for c in of_one if c.level_kind == kind], max(1, len(contender.gpus)))
    return tuple(found)


def _curve(cells: Sequence[CellRecord], gpus: int) -> list[Point]:
    def rate(cell: CellRecord) -> float | None:
        total = cell.summary.output_tokens_per_s
        return None if total is None else total / gpus

    by_speed, by_ttft = (_fronts(cells, rate, of) for of in (user_tokens_per_s, _promptness))
    found = []
    for level in sorted({c.level for c in cells}):
        here = [c for c in cells if c.level == level]
        found.append(
            Point(
                workload=here[0].workload,
                contender=here[0].contender,
                level_kind=here[0].level_kind,
                level=level,
                output_tokens_per_s_per_gpu=geometric_of_all([rate(c) for c in here]),
                user_tokens_per_s=geometric_of_all([user_tokens_per_s(c) for c in here]),
                ttft_visible_p50_s=geometric_of_all([c.summary.ttft_visible.p50.value for c in here]),
                by_user_speed=by_speed.get(level),
                by_ttft=by_ttft.get(level),
            )
        )
    return found


def _fronts(cells: Sequence[CellRecord], rate: Figure, other: Figure) -> Mapping[float, Front]:
    """By level, where every block has both figures."""
    levels = sorted({c.level for c in cells})
    at: dict[tuple[float, int], tuple[float, float]] = {}
    for cell in cells:
        x, y = rate(cell), other(cell)
        if x and y:
            at[cell.level, cell.block] = (x, y)
    blocks = [b for b in sorted({c.block for c in cells}) if all((level, b) in at for level in levels)]
    if not blocks:
        return {}
    means: dict[float, tuple[float, float]] = {}
    for level in levels:
        x_mean, y_mean = (geometric([at[level, b][i] for b in blocks]) for i in (0, 1))
        assert x_mean and y_mean
        means[level] = (x_mean.value, y_mean.value)
    return {
        level: Front(
            on=on_front(means[level], means.values()),
            in_blocks=sum(on_front(at[level, b], [at[other_level, b] for other_level in levels]) for b in blocks),
            blocks=len(blocks),
        )
        for level in levels
    }


def on_front(point: tuple[float, float], others: Iterable[tuple[float, float]]) -> bool:
    """No other point is at least as good in both figures and better in one."""
    return not any(other != point and other[0] >= point[0] and other[1] >= point[1] for other in others)
