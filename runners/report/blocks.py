# SPDX-License-Identifier: Apache-2.0
"""Which blocks may stand: a block in which a GPU was slowed down is left out, for all contenders."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from runners.config import Bakeoff, read_config
from runners.config_workload import Level
from runners.errors import MendableError
from runners.report.record import CellRecord, LifeRecord, Run
from runners.report.unpack import opened

SLOWED_SHARE: Final = 0.01
"""Clocks held down for more than so much of a cell exclude its block."""


def exclusions(run: Run) -> dict[int, str]:
    """Excluded blocks, each with its reason. Failures never exclude."""
    found: dict[int, str] = {}
    for cell in run.cells:
        reason = _slowed(cell)
        if reason and cell.block not in found:
            found[cell.block] = reason
    return found


def _slowed(cell: CellRecord) -> str | None:
    if cell.gpu is None:
        return None
    for reason, seconds in cell.gpu.slowed_s.items():
        share = (seconds or 0.0) / (cell.gpu.seconds * cell.gpu.gpus)
        if share > SLOWED_SHARE:
            return f"{reason} for {share:.0%} of {cell.workload} at {cell.level}, {cell.contender}"
    return None


def without_excluded(run: Run) -> Run:
    """The run with the blocks that count."""
    out = exclusions(run)
    return run.model_copy(
        update={
            "cells": tuple(c for c in run.cells if c.block not in out),
            "lives": tuple(life for life in run.lives if life.block not in out),
        }
    )


def torn(
    finished: Sequence[LifeRecord],
    most_gap_s: float,
    now: datetime | None = None,
    gpus_now: Mapping[str, tuple[str, ...]] | None = None,
) -> str | None:
    """Why the lives of one block do not belong together, or None.

    `now` is when a missing life would start, `gpus_now` the UUIDs of each contender's GPUs then.
    """
    ordered = sorted(finished, key=lambda life: life.started_at)
    ends = [datetime.fromisoformat(life.ended_at) for life in ordered]
    starts = [datetime.fromisoformat(life.started_at) for life in ordered[1:]] + ([now] if now else [])
    gap_s = max(((start - end).total_seconds() for start, end in zip(starts, ends, strict=False)), default=0.0)
    if gap_s > most_gap_s:
        return f"its lives lie {gap_s / 3600:.1f} h apart, block_gap_s allows {most_gap_s / 3600:.1f} h"
    moved = next((life for life in finished if gpus_now and life.gpus != gpus_now[life.contender]), None)
    return f"{moved.contender} ran on another GPU" if moved else None


class MixedPlanError(MendableError):
    """Records of different plans in one folder."""


def check_one_plan(run: Run) -> None:
    """Every cell is one of the config's, and all contenders of a block were asked the same. Raises MixedPlanError."""
    bakeoff = Bakeoff.model_validate(run.config)
    planned = {(w.name, level) for w in bakeoff.workloads for level in w.levels}
    names = {c.name for c in bakeoff.contenders}
    for cell in run.cells:
        level = Level(cell.level_kind, cell.level)
        if cell.contender not in names or (cell.workload, level) not in planned:
            raise MixedPlanError(
                f"block {cell.block} of {cell.contender} has {cell.workload} at {level}, which config.yaml does "
                "not plan; one folder holds one plan"
            )
    for first, other in asked_differently(run.cells):
        raise MixedPlanError(
            f"block {other.block}, {other.workload} at {Level(other.level_kind, other.level)}: {first.contender} and "
            f"{other.contender} were asked different prompts; they cannot be compared in one table"
        )


def asked_differently(cells: Sequence[CellRecord]) -> Iterator[tuple[CellRecord, CellRecord]]:
    """Cells of one block, workload and level whose prompts were not those of the first of them."""
    first: dict[tuple[int, str, Level], CellRecord] = {}
    for cell in cells:
        other = first.setdefault((cell.block, cell.workload, Level(cell.level_kind, cell.level)), cell)
        if other.prompts_sha256 != cell.prompts_sha256:
            yield other, cell


class NoResultsError(MendableError):
    """A folder that holds no results."""


def read_run(folder: Path, accepted: Sequence[str] = ()) -> Run:
    """The records of a results folder or of its bundle; `accepted` rows of the ledger may be unequal. Raises
    NoResultsError, ConfigError, RecordError, BundleError, or MixedPlanError where they are not of one plan."""
    try:
        with opened(folder) as found:
            if not (found / "config.yaml").is_file():
                raise NoResultsError(f"{folder} is no results folder: config.yaml is missing")
            read_config(found / "config.yaml")
            run = Run.load(found)
    except FileNotFoundError as error:
        raise NoResultsError(f"{folder} is no results folder: {error.filename} is missing") from None
    check_one_plan(run)
    _check_rows(run, accepted)
    return run.model_copy(update={"accepted": tuple(accepted)})


def _check_rows(run: Run, accepted: Sequence[str]) -> None:
    known = dict.fromkeys(entry.name for life in run.lives for entry in life.ledger)
    for name in accepted:
        if name not in known:
            raise NoResultsError(f"--accept-unequal {name!r}: the ledger has no such row; it has {', '.join(known)}")
