# SPDX-License-Identifier: Apache-2.0
"""How the time to first token of single requests is distributed, from the traces."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runners.config_workload import LevelKind
from runners.report.layout import life_folder
from runners.report.record import CellRecord, Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_STEPS = 200
"""Points of a curve, beyond which nothing more is to be seen."""


@dataclass(frozen=True)
class Distribution:
    """Of one contender at one load, all blocks together: `ttft_s` ascending, and the `shares` of all requests that
    took no longer. Failed requests took for ever."""

    workload: str
    contender: str
    level_kind: LevelKind
    level: float
    requests: int
    failed: int
    shares: tuple[float, ...]
    ttft_s: tuple[float, ...]

    def at(self, share: float) -> float | None:
        """The time within which this share of all requests had its first text."""
        return next((t for s, t in zip(self.shares, self.ttft_s, strict=True) if s >= share), None)


def distributions(run: Run, folder: Path) -> tuple[Distribution, ...]:
    """At the lowest, the middle and the highest load of each workload, in the order of cells; nothing of cells whose
    traces are not there, or whose streams come whole."""
    levels: dict[tuple[str, LevelKind], list[float]] = {}
    for cell in run.cells:
        levels.setdefault((cell.workload, cell.level_kind), []).append(cell.level)
    shown = {place: _three(sorted(set(of_one))) for place, of_one in levels.items()}
    by_place: dict[tuple[str, str, LevelKind, float], list[NDArray[np.float64]]] = {}
    for cell, path in traces_of(run, folder):
        if cell.level not in shown[cell.workload, cell.level_kind]:
            continue
        values = _ttft_s(path)
        if values is not None and cell.summary.tpot.p50.reason != "one event":
            by_place.setdefault((cell.workload, cell.contender, cell.level_kind, cell.level), []).append(values)
    return tuple(_distribution(*place, values) for place, values in by_place.items())


def _three(levels: Sequence[float]) -> set[float]:
    return {levels[0], levels[len(levels) // 2], levels[-1]}


def traces_of(run: Run, folder: Path) -> Iterator[tuple[CellRecord, Path]]:
    """Each cell of a finished life with the file of its traces, where that is there."""
    cells = {(cell.block, cell.contender, cell.name): cell for cell in run.cells}
    for life in run.lives:
        for name in life.cells:
            path = life_folder(folder, life.name) / f"{name}.parquet"
            cell = cells.get((life.block, life.contender, name))
            if cell is not None and path.is_file():
                yield cell, path


def _ttft_s(path: Path) -> "NDArray[np.float64] | None":
    """By request; infinite for one that failed."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read(columns=["due_s", "visible_s", "error"])
    except (pa.ArrowException, OSError):
        return None
    lost = pc.or_(pc.is_valid(table["error"]), pc.is_null(table["visible_s"]))
    took_s = _plain(table["visible_s"], np.float64) - _plain(table["due_s"], np.float64)
    return np.where(_plain(pc.cast(lost, pa.uint8()), np.uint8), math.inf, took_s)


def _plain(column: Any, kind: type[Any]) -> "NDArray[Any]":
    """A column's values; what stands where one is null means nothing. Arrow's own way would import pandas."""
    import numpy as np

    array = column.combine_chunks()
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * np.dtype(kind).itemsize)


def _distribution(
    workload: str, contender: str, kind: LevelKind, level: float, values: "Sequence[NDArray[np.float64]]"
) -> Distribution:
    import numpy as np

    ordered = np.sort(np.concatenate(values))
    n, finite = len(ordered), int(np.isfinite(ordered).sum())
    ranks = (
        np.unique(np.linspace(1, finite, min(finite, MOST_STEPS)).astype(int)) if finite else np.array([], dtype=int)
    )
    return Distribution(
        workload=workload,
        contender=contender,
        level_kind=kind,
        level=level,
        requests=n,
        failed=n - finite,
        shares=tuple((ranks / n).tolist()),
        ttft_s=tuple(ordered[ranks - 1].tolist()),
    )
