# SPDX-License-Identifier: Apache-2.0
"""Where things lie in a results folder."""

from pathlib import Path
from typing import Final

from runners.config_workload import Level

SUPERSEDED: Final = ".superseded-"
"""Behind the name of a life's folder: an attempt that was redone."""


def life_name(block: int, contender: str) -> str:
    """The name of a life's folder."""
    return f"b{block:02d}-{contender}"


def cell_name(workload: str, purpose: str, level: Level) -> str:
    """What the files of a cell are named in its life's folder."""
    return f"{workload}{'-capacity' if purpose == 'capacity' else ''}-{level.name}"


def life_folder(folder: Path, life: str) -> Path:
    return folder / "lives" / life


def is_finished(folder: Path, life: str) -> bool:
    """A life's own record is written last."""
    return (life_folder(folder, life) / "life.json").exists()


def unsupported_note(folder: Path, contender: str) -> Path:
    """Why an engine cannot run the checkpoint, where it cannot."""
    return folder / "unsupported" / f"{contender}.json"


def of_lives(folder: Path, name: str) -> list[Path]:
    """The files of that name in the folders of lives, without attempts that were redone."""
    return [path for path in sorted(folder.glob(f"lives/*/{name}")) if SUPERSEDED not in path.parent.name]
