# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: every life of every block, every cell of every life."""

import time
import uuid
from dataclasses import asdict
from pathlib import Path

from runners.cell import Kitchen, draw, run_cell
from runners.cells import Life
from runners.environments import Say
from runners.launch.server import Server
from runners.load.transport import Transport, transport_of
from runners.report.record import LedgerEntry, LifeRecord, trace_fields, write_launch, write_model
from runners.session import Session
from runners.verify import Verified, verify


def bake(session: Session, folder: Path, say: Say) -> None:
    """Run every life that the folder does not hold yet. Raises what stops the comparison."""
    import_ahead()
    remaining = [life for life in session.lives if not _finished(folder, life)]
    began = time.monotonic()
    for number, life in enumerate(remaining):
        left = _left(time.monotonic() - began, number, len(remaining))
        say(
            f"block {life.block} of {session.bakeoff.blocks}, {life.contender.name}: "
            f"start {number + 1} of {len(remaining)}{left}"
        )
        live(session, life, _fresh_folder(folder, life), say)


def _left(spent_s: float, done: int, of: int) -> str:
    """How long the rest will take if it goes on as it went."""
    return f", about {spent_s / done * (of - done) / 60:.0f} min left" if done else ""


def import_ahead() -> None:
    """What summing up needs is imported before the first cell, not within it."""
    import pandas
    import pyarrow
    import scipy.stats

    assert pandas and pyarrow and scipy


def live(session: Session, life: Life, folder: Path, say: Say) -> None:
    """One server life: up, verified, each cell driven and written, down, then the life's own record."""
    served_name = f"bakeoff-{uuid.uuid4().hex[:12]}"
    launch = session.plan(life, folder / "engine", served_name)
    contestant = session.contestants[life.contender.name]
    write_launch(folder / "launch.json", launch)
    with contestant.runner.up(launch, folder / "engine") as server:
        say(_up(server))
        transport = transport_of(server.address(life.contender.transport), life.contender.transport)
        verified = verified_server(session, life, server, transport, served_name)
        for cell in life.cells:
            run_cell(Kitchen(session, life, contestant, server, transport, verified, folder, say), cell)
    write_model(folder / "life.json", _life_record(session, life, server, verified))


def _up(server: Server) -> str:
    return "  attached" if server.start_s is None else f"  ready after {server.start_s:.1f} s"


def _finished(folder: Path, life: Life) -> bool:
    return (folder / "lives" / life.name / "life.json").exists()


def _fresh_folder(folder: Path, life: Life) -> Path:
    """The life's folder; what an interrupted attempt left there is moved aside, marked, never used."""
    mine = folder / "lives" / life.name
    if mine.exists():
        attempts = len(list(mine.parent.glob(f"{life.name}.superseded-*")))
        mine.rename(mine.with_name(f"{life.name}.superseded-{attempts + 1}"))
    mine.mkdir(parents=True)
    return mine


def verified_server(session: Session, life: Life, server: Server, transport: Transport, served_name: str) -> Verified:
    """The server's capabilities and ledger. A served name of ours is demanded where we started it."""
    contestant = session.contestants[life.contender.name]
    ours = served_name if contestant.environment else life.contender.model
    canary = next(draw(session, life.cells[0], "canary").prompts())
    knobs = session.bakeoff.knobs_of(life.contender)
    return verify(server, transport, contestant.engine, ours, knobs.max_model_len, canary, session.rendering)


def _life_record(session: Session, life: Life, server: Server, verified: Verified) -> LifeRecord:
    contestant = session.contestants[life.contender.name]
    return LifeRecord(
        block=life.block,
        position=life.position,
        contender=life.contender.name,
        engine_kind=contestant.engine.name,
        engine_version=verified.capabilities.engine_version,
        front_end=verified.capabilities.front_end,
        runner=contestant.config.runner,
        transport=contestant.config.transport,
        environment=contestant.environment.recipe.name if contestant.environment else None,
        start_up_s=server.start_s,
        capabilities=asdict(verified.capabilities),
        ledger=tuple(LedgerEntry(name=r.name, value=r.value, source=r.source, kind=r.kind) for r in verified.ledger),
        canary=trace_fields(verified.canary),
        cells=tuple(cell.name for cell in life.cells),
    )
