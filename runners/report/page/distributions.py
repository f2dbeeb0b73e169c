# SPDX-License-Identifier: Apache-2.0
"""How the time to first token of single requests is distributed, from the traces."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runners.config_workload import LevelKind
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
    """In the order of cells; nothing of cells whose traces are not there, or whose streams come whole."""
    by_place: dict[tuple[str, str, LevelKind, float], list[NDArray[np.float64]]] = {}
    for cell, path in traces_of(run, folder):
        values = _ttft_s(path)
        if values is not None and cell.summary.tpot.p50.reason != "one event":
            by_place.setdefault((cell.workload, cell.contender, cell.level_kind, cell.level), []).append(values)
    return tuple(_distribution(*place, values) for place, values in by_place.items())


def traces_of(run: Run, folder: Path) -> Iterator[tuple[CellRecord, Path]]:
    """Each cell of a finished life with the file of its traces, where that is there."""
    cells = {(cell.block, cell.contender, cell_name(cell)): cell for cell in run.cells}
    for life in run.lives:
        for name in life.cells:
            path = folder / "lives" / f"b{life.block:02d}-{life.contender}" / f"{name}.parquet"
            cell = cells.get((life.block, life.contender, name))
            if cell is not None and path.is_file():
                yield cell, path


def cell_name(cell: CellRecord) -> str:
    """As its files are named."""
    probe = "-capacity" if cell.purpose == "capacity" else ""
    return f"{cell.workload}{probe}-{cell.level_kind[0]}{cell.level:g}"


def _ttft_s(path: Path) -> "NDArray[np.float64] | None":
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["due_s", "visible_s", "error"])
    except (pa.ArrowException, OSError):
        return None
    values = table["visible_s"].to_numpy() - table["due_s"].to_numpy()
    failed = ~table["error"].is_null().to_numpy()
    return np.where(failed | np.isnan(values), math.inf, values)


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
