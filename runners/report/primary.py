# SPDX-License-Identifier: Apache-2.0
"""The one metric of a workload on which its verdicts rest; all else is descriptive."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from runners.report.record import CellRecord, Summary


@dataclass(frozen=True)
class Metric:
    """A figure of a cell. `higher_is_better` orients ratios so that above 1 is better."""

    name: str
    of: Callable[[Summary], float | None]
    higher_is_better: bool


PRIMARY: Final[Mapping[str, Metric]] = {
    "concurrency": Metric("output_tokens_per_s", lambda s: s.output_tokens_per_s, higher_is_better=True),
    "rate": Metric("ttft_visible_p95_s", lambda s: s.ttft_visible.p95.value, higher_is_better=False),
}
"""By the kind of a workload's level. Below saturation, throughput in open loop is the arrival rate."""


def block_logs(cells: Sequence[CellRecord], levels: Collection[float]) -> dict[int, float]:
    """Mean over levels of the metric's log by block, of one contender; only blocks that have all levels."""
    by_block: dict[int, list[float]] = {}
    for cell in cells:
        value = primary_of(cell).of(cell.summary)
        if cell.level in levels and value:
            by_block.setdefault(cell.block, []).append(math.log(value))
    return {block: fmean(of) for block, of in sorted(by_block.items()) if len(of) == len(levels)}


def primary_of(cell: CellRecord) -> Metric:
    return PRIMARY[cell.level_kind]
