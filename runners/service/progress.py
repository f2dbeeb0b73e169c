# SPDX-License-Identifier: Apache-2.0
"""How far a comparison is, read from its folder: the records are written one by one, so nobody has to say it."""

from dataclasses import dataclass
from pathlib import Path

from runners.cells import Life, expand
from runners.config import Bakeoff
from runners.report.record import read_looks


@dataclass(frozen=True)
class Progress:
    """Lives and cells that are done, of those planned; with looks, of the most that may be planned. `now` is the life
    under way: block, contender and its cells; None between lives."""

    lives_done: int
    lives: int
    cells_done: int
    cells: int
    blocks: int
    now: "Now | None"


@dataclass(frozen=True)
class Now:
    block: int
    contender: str
    cells: tuple[tuple[str, bool], ...]


def planned_lives(bakeoff: Bakeoff, folder: Path) -> tuple[Life, ...]:
    """In their order, without contenders that cannot run the checkpoint."""
    unsupported = {path.stem for path in folder.glob("unsupported/*.json")}
    lives = expand(bakeoff, read_looks(folder))
    return tuple(life for life in lives if life.contender.name not in unsupported)


def progress_of(bakeoff: Bakeoff, folder: Path) -> Progress:
    """A life's cells count once they are written, whether the life has ended or not."""
    lives = planned_lives(bakeoff, folder)
    there = {path.name: {f.stem for f in path.glob("*.json")} for path in folder.glob("lives/*")}
    done = [life for life in lives if "life" in there.get(life.name, ())]
    current = next((life for life in lives if life.name in there and "life" not in there[life.name]), None)
    return Progress(
        lives_done=len(done),
        lives=len(lives),
        cells_done=sum(cell.name in there.get(life.name, ()) for life in lives for cell in life.cells),
        cells=sum(len(life.cells) for life in lives),
        blocks=max((life.block for life in lives), default=0),
        now=_now(current, there[current.name]) if current else None,
    )


def _now(life: Life, written: set[str]) -> Now:
    cells = tuple((f"{cell.workload.name} at {cell.level}", cell.name in written) for cell in life.cells)
    return Now(life.block, life.contender.name, cells)
