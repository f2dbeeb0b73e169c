# SPDX-License-Identifier: Apache-2.0
"""How the lives of one contender differ: spread, drift over blocks, two groups of starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev

from runners.config import Bakeoff
from runners.report.compare import Groups, two_groups
from runners.report.primary import block_logs
from runners.report.record import CellRecord, Run
from runners.report.verdicts import by_primary_metric, trend

APART_SHARE_OF_MARGIN = 0.25
"""Groups of lives nearer to each other than so much of the margin are not worth a word."""


@dataclass(frozen=True)
class Scatter:
    """Of a contender's primary metric in one workload, as the mean log over levels. `spread` is its
    standard deviation over lives, `drift` its slope per block; `apart` are the blocks of the lives that stand
    apart from the others, at `groups.ratio` of them."""

    workload: str
    contender: str
    blocks: tuple[int, ...]
    spread: float | None
    drift: float | None
    drift_p: float | None
    groups: Groups | None
    apart: tuple[int, ...]

    @property
    def remark(self) -> str | None:
        """Start-up modes or an outlier, named."""
        if self.groups is None:
            return None
        kind = "start-up modes" if self.groups.modes else "an outlier"
        blocks = ", ".join(str(block) for block in self.apart)
        return (
            f"{kind}: {self.contender} in {self.workload}, block{'s' if len(self.apart) > 1 else ''} {blocks} "
            f"at {self.groups.ratio:.3f} of the others (p {self.groups.p:.3f})"
        )


def scatter(run: Run) -> tuple[Scatter, ...]:
    """One for each workload and contender that was measured."""
    bakeoff = Bakeoff.model_validate(run.config)
    found = []
    for cells in by_primary_metric(run, bakeoff):
        for contender in bakeoff.contenders:
            of_one = [c for c in cells if c.contender == contender.name]
            if of_one:
                found.append(_scatter(of_one, bakeoff.margin))
    return tuple(found)


def _scatter(cells: Sequence[CellRecord], margin: float) -> Scatter:
    by_block = block_logs(cells, {c.level for c in cells})
    logs = list(by_block.values())
    drift, drift_p = trend(logs, list(by_block))
    groups = two_groups(logs)
    if groups is not None and abs(math.log(groups.ratio)) < APART_SHARE_OF_MARGIN * margin:
        groups = None
    blocks = tuple(by_block)
    return Scatter(
        workload=cells[0].workload,
        contender=cells[0].contender,
        blocks=blocks,
        spread=stdev(logs) if len(logs) > 1 else None,
        drift=drift,
        drift_p=drift_p,
        groups=groups,
        apart=tuple(blocks[i] for i in groups.apart) if groups else (),
    )
