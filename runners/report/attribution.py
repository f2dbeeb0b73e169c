# SPDX-License-Identifier: Apache-2.0
"""Splits a difference into runtime, front end and their interaction, where a 2 x 2 of contenders was run.

With y the log of the primary metric, oriented so that more is better, within a block:
runtime = ((y_BD - y_AD) + (y_BF - y_AF)) / 2, front end = ((y_AF - y_AD) + (y_BF - y_BD)) / 2 and interaction =
y_BF - y_BD - y_AF + y_AD, for runtimes A and B, each directly (D) and behind the front end (F). Runtime and front end
add up to the difference between the corners, y_BF - y_AD, whatever the interaction is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runners.config import Bakeoff
from runners.config_workload import LevelKind
from runners.report.compare import Estimate, estimate
from runners.report.primary import block_logs, primary_of
from runners.report.record import CellRecord, Run
from runners.report.verdicts import by_primary_metric

SQUARE: Final = {
    "runtime": {"BD": 0.5, "AD": -0.5, "BF": 0.5, "AF": -0.5},
    "front end": {"AF": 0.5, "AD": -0.5, "BF": 0.5, "BD": -0.5},
    "interaction": {"BF": 1.0, "BD": -1.0, "AF": -1.0, "AD": 1.0},
}
SIDES: Final = (
    ("runtime", "AD", "BD", "direct"),
    ("runtime", "AF", "BF", "behind the front end"),
    ("front end", "AD", "AF", "of the first runtime"),
    ("front end", "BD", "BF", "of the second runtime"),
)


@dataclass(frozen=True)
class Part:
    """A ratio above 1 is a gain; for `interaction`, the second runtime loses less to the front end than the first.
    `of` says which contrast it is. `level` is None for the mean over levels."""

    workload: str
    level_kind: LevelKind
    level: float | None
    name: str
    of: str
    ratio: Estimate


def attribution(run: Run) -> tuple[Part, ...]:
    """For each workload, over all levels and at each; nothing where the config names no `square`."""
    bakeoff = Bakeoff.model_validate(run.config)
    corners = bakeoff.square.corners() if bakeoff.square else {}
    found: list[Part] = []
    for cells in by_primary_metric(run, bakeoff) if corners else ():
        levels = sorted({c.level for c in cells})
        for level in (None, *levels) if len(levels) > 1 else (None,):
            found += _parts(cells, levels if level is None else [level], level, corners)
    return tuple(found)


def _parts(
    cells: Sequence[CellRecord], levels: Sequence[float], level: float | None, corners: Mapping[str, str]
) -> list[Part]:
    logs = {corner: block_logs([c for c in cells if c.contender == name], levels) for corner, name in corners.items()}
    better = 1 if primary_of(cells[0]).higher_is_better else -1
    contrasts = [(name, "all four", weights) for name, weights in SQUARE.items()] if len(corners) == 4 else []
    if len(corners) < 4:
        contrasts = [(n, of, {a: -1.0, b: 1.0}) for n, a, b, of in SIDES if a in corners and b in corners]
    found = []
    for name, of, weights in contrasts:
        blocks = sorted(set.intersection(*(set(logs[corner]) for corner in weights)))
        effect = [better * sum(weight * logs[corner][block] for corner, weight in weights.items()) for block in blocks]
        ratio = estimate(effect, [0.0] * len(effect))
        if ratio is not None:
            found.append(Part(cells[0].workload, cells[0].level_kind, level, name, of, ratio))
    return found
