# SPDX-License-Identifier: Apache-2.0
"""Runs block after block until the declared comparisons are decided, looking only where that was planned."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from runners.bakeoff import bake
from runners.cells import expand
from runners.config import Bakeoff
from runners.environments import Say
from runners.report.decisions import decide_run
from runners.report.record import LOOKS_FILE, LifeRecord, Looks, Run, read_looks
from runners.report.written import write_model
from runners.results import ResultsError
from runners.session import Session

DEFAULT_LOOKS: Final = (4, 6, 10)


@dataclass(frozen=True)
class Caps:
    """Where to stop though nothing is decided: blocks, hours of server lives, and what they cost in the currency of
    `price_per_gpu_hour`. None is no cap."""

    blocks: int | None = None
    hours: float | None = None
    cost: float | None = None


def planned_looks(most_blocks: int | None) -> tuple[int, ...]:
    """After 4, 6 and 10 blocks; a cap in blocks is the last look.

    >>> planned_looks(8)
    (4, 6, 8)
    """
    if most_blocks is None:
        return DEFAULT_LOOKS
    return (*(look for look in DEFAULT_LOOKS if look < most_blocks), most_blocks)


def plan_looks(folder: Path, caps: Caps, *, resume: bool) -> tuple[int, ...]:
    """Write the looks down before the first block, or find them there. Raises ResultsError.

    A run that was begun without looks must not get some later: its verdicts would be at another error.
    """
    kept, wanted = read_looks(folder), planned_looks(caps.blocks)
    if kept:
        if caps.blocks is not None and kept != wanted:
            raise ResultsError(f"{folder} was planned with looks after {kept} blocks; leave out --most-blocks")
        return kept
    if resume and any((folder / "lives").glob("*/life.json")):
        raise ResultsError(f"{folder} was begun without looks; resume it without --until-decided")
    write_model(folder / LOOKS_FILE, Looks(after_blocks=wanted))
    return wanted


def check_caps(bakeoff: Bakeoff, caps: Caps) -> None:
    """Raises ResultsError for a cap in money where something has no price."""
    free = next((c.name for c in bakeoff.contenders if bakeoff.price_per_hour(c.name) is None), None)
    if caps.cost is not None and free is not None:
        raise ResultsError(f"--most-cost: {free} has no price; set its gpus and price_per_gpu_hour")


def bake_until_decided(session: Session, folder: Path, looks: tuple[int, ...], caps: Caps, say: Say) -> None:
    """Block after block; stops at a look at which all declared comparisons are decided, or at a cap."""
    lives = expand(session.bakeoff, looks)
    for block in range(1, looks[-1] + 1):
        reached = cap_reached(session.bakeoff, Run.load(folder).lives, caps)
        if reached:
            say(f"stopped before block {block}: {reached}")
            return
        bake(session, tuple(life for life in lives if life.block == block), folder, say)
        if block in looks and _decided(folder):
            say(f"decided at the look after {block} blocks")
            return
    say(f"not decided after {looks[-1]} blocks, the last look that was planned")


def _decided(folder: Path) -> bool:
    declared = [c for c in decide_run(Run.load(folder)).comparisons if c.level is None]
    return all(comparison.settled for comparison in declared)


def cap_reached(bakeoff: Bakeoff, lives: tuple[LifeRecord, ...], caps: Caps) -> str | None:
    """Which cap one more block would break, if it takes as long as those before; None while none would."""
    blocks = len({life.block for life in lives})
    room = (blocks + 1) / blocks if blocks else 1.0
    hours = sum(_hours(life) for life in lives)
    if caps.hours is not None and hours * room > caps.hours:
        return f"{hours:.2f} of {caps.hours:g} hours are spent, one more block would take more than is left"
    cost = sum(_hours(life) * (bakeoff.price_per_hour(life.contender) or 0.0) for life in lives)
    if caps.cost is not None and cost * room > caps.cost:
        return f"{cost:.2f} of {caps.cost:g} are spent, one more block would cost more than is left"
    return None


def _hours(life: LifeRecord) -> float:
    return (datetime.fromisoformat(life.ended_at) - datetime.fromisoformat(life.started_at)).total_seconds() / 3600
