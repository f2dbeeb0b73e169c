# SPDX-License-Identifier: Apache-2.0
"""The one metric of a workload on which its verdicts rest; all else is descriptive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


def primary_of(cell: CellRecord) -> Metric:
    return PRIMARY[cell.level_kind]
