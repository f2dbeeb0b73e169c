# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: every life of every block, every cell of every life."""

import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Final

from engines.contract import Prompt
from runners.capacity import search
from runners.cell import Kitchen, draw, run_cell
from runners.cells import Cell, Life
from runners.checkpoint import check_unchanged
from runners.config_workload import Level, WorkloadConfig
from runners.environments import Say
from runners.gate import ask_gate
from runners.gpu import gpu_uuids
from runners.gpu_settings import gpu_settings
from runners.launch.server import LaunchError, Server
from runners.load.transport import Transport, transport_of
from runners.own_rows import Given
from runners.report.blocks import torn
from runners.report.gate_record import GateRecord
from runners.report.layout import SUPERSEDED, is_finished, life_folder, unsupported_note
from runners.report.limits import misses
from runners.report.record import Capacity, LedgerEntry, LifeRecord, Probe, Unsupported, read_life, write_launch
from runners.report.trace_table import trace_fields
from runners.report.written import write_model
from runners.session import Session
from runners.verify import Verified, verify

CANARY_TOKENS: Final = 24
ROOM_FOR_SPECIAL: Final = 8
COUNTED: Final = 3
"""Prompts beside the canary whose tokens engine and client both count."""


def bake(session: Session, lives: Sequence[Life], folder: Path, say: Say) -> None:
    """Run every one of the lives that the folder does not hold yet. Raises what stops the comparison."""
    import_ahead()
    for name, reason in session.unsupported.items():
        _note_unsupported(session, folder, name, reason)
    _tear_down(session, lives, folder, say)
    remaining = [life for life in lives if not is_finished(folder, life.name)]
    began = time.monotonic()
    for number, life in enumerate(remaining):
        if unsupported_note(folder, life.contender.name).exists():
            continue
        left = _left(time.monotonic() - began, number, len(remaining))
        say(
            f"block {life.block} of {lives[-1].block}, {life.contender.name}: "
            f"start {number + 1} of {len(remaining)}{left}"
        )
        try:
            live(session, life, _fresh_folder(folder, life), say)
        except LaunchError as error:
            told = _told_unsupported(session, life, error)
            if told is None:
                raise
            say(f"  unsupported on this engine: {told}")
            _note_unsupported(session, folder, life.contender.name, told)


def missing_blocks(lives: Sequence[Life], folder: Path, most: int | None) -> tuple[Life, ...]:
    """The lives of the first `most` blocks that are not whole in the folder; of all without a limit."""
    able = [life for life in lives if not unsupported_note(folder, life.contender.name).exists()]
    blocks = list(dict.fromkeys(life.block for life in able if not is_finished(folder, life.name)))[:most]
    return tuple(life for life in lives if life.block in blocks)


def _told_unsupported(session: Session, life: Life, error: LaunchError) -> str | None:
    """What the engine said, where it ended since it does not know the checkpoint's architecture."""
    words = session.contestants[life.contender.name].engine.unsupported_words
    found = re.search(words, str(error)) if words else None
    return found.group(0) if found else None


def _note_unsupported(session: Session, folder: Path, contender: str, reason: str) -> None:
    """The others run; this one keeps its row, with the reason."""
    note = unsupported_note(folder, contender)
    if not note.exists():
        kind = session.contestants[contender].engine.name
        write_model(note, Unsupported(contender=contender, engine_kind=kind, reason=reason))


def _tear_down(session: Session, planned: Sequence[Life], folder: Path, say: Say) -> None:
    """Blocks whose lives would not belong together are moved aside whole, to be run anew."""
    for block, of_block in groupby(planned, key=lambda life: life.block):
        lives = list(of_block)
        finished = [life for life in lives if is_finished(folder, life.name)]
        records = [read_life(life_folder(folder, life.name)) for life in finished]
        open_now = datetime.now(UTC) if finished and len(finished) < len(lives) else None
        gpus_now = {life.contender.name: gpu_uuids(life.contender.gpus) for life in lives} if open_now else None
        reason = torn(records, session.bakeoff.block_gap_s, open_now, gpus_now)
        if reason:
            say(f"block {block} is redone whole: {reason}")
            for life in finished:
                _supersede(life_folder(folder, life.name))


def _left(spent_s: float, done: int, of: int) -> str:
    """How long the rest will take if it goes on as it went."""
    return f", about {spent_s / done * (of - done) / 60:.0f} min left" if done else ""


def import_ahead() -> None:
    """What summing up needs is imported before the first cell, not within it."""
    import pandas
    import pyarrow
    import scipy.special

    assert pandas and pyarrow and scipy


def live(session: Session, life: Life, folder: Path, say: Say) -> None:
    """One server life: up, verified, each cell driven and written, down, then the life's own record."""
    served_name = f"bakeoff-{uuid.uuid4().hex[:12]}"
    contestant = session.contestants[life.contender.name]
    check_unchanged(contestant.checkpoint, session.source)
    launch = session.plan(life, folder / "engine", served_name)
    started = datetime.now(UTC)
    write_launch(folder / "launch.json", launch)
    with contestant.runner.up(launch, folder / "engine") as server:
        say(_up(server))
        transport = transport_to(server, life)
        verified = verified_server(session, life, server, transport, served_name)
        kitchen = Kitchen(session, life, contestant, server, transport, verified, folder, say)
        for cell in life.cells:
            run_cell(kitchen, cell)
        capacities = tuple(_capacity(kitchen, w) for w in session.bakeoff.workloads if w.capacity)
        gate = ask_gate(kitchen)
    write_model(folder / "life.json", _life_record(session, life, server, verified, started, capacities, gate))


def _up(server: Server) -> str:
    return "  attached" if server.start_s is None else f"  ready after {server.start_s:.1f} s"


def _fresh_folder(folder: Path, life: Life) -> Path:
    """The life's folder; what an interrupted attempt left there is moved aside, marked, never used."""
    mine = life_folder(folder, life.name)
    if mine.exists():
        _supersede(mine)
    mine.mkdir(parents=True)
    return mine


def _supersede(life: Path) -> None:
    attempts = len(list(life.parent.glob(f"{life.name}{SUPERSEDED}*")))
    life.rename(life.with_name(f"{life.name}{SUPERSEDED}{attempts + 1}"))


def transport_to(server: Server, life: Life) -> Transport:
    """How the contender's requests travel."""
    name = life.contender.transport
    return transport_of(server.address(name), name)


def verified_server(session: Session, life: Life, server: Server, transport: Transport, served_name: str) -> Verified:
    """The server's capabilities and ledger. A served name of ours is demanded where we started it."""
    contestant = session.contestants[life.contender.name]
    ours = life.contender.model if life.contender.runner == "attach" else served_name
    knobs = session.bakeoff.knobs_of(life.contender)
    longest = knobs.max_model_len
    prompts = draw(session, life.cells[0], "canary").prompts()
    canary = _telling(next(prompts), longest)
    gpus = None if life.contender.runner == "attach" else gpu_settings(life.contender.gpus)
    given = Given(contestant.checkpoint, gpus, knobs.kv_cache_tokens)
    return verify(
        server,
        transport,
        contestant.engine,
        ours,
        longest,
        canary,
        session.rendering,
        given=given,
        others=[replace(prompt, max_tokens=1, forced=False) for prompt in islice(prompts, COUNTED)],
        first=life.block == 1,
    )


def _telling(canary: Prompt, longest: int) -> Prompt:
    """With an answer long enough to show how many tokens come in an event, where there is room for it."""
    room = longest - canary.input_tokens - ROOM_FOR_SPECIAL
    return replace(canary, max_tokens=max(canary.max_tokens, min(CANARY_TOKENS, room)))


def _capacity(kitchen: Kitchen, workload: WorkloadConfig) -> Capacity:
    """One search for the highest level that meets the limits; each probe is a cell of its own."""
    life, plan = kitchen.life, workload.capacity
    assert plan is not None

    def probe(value: float) -> Probe:
        level = Level(plan.of, value)
        summary = run_cell(kitchen, Cell(life.block, life.contender.name, workload, level, "capacity"))
        missed = next(iter(misses(summary, workload, level)), None)
        kitchen.say(f"    {workload.name} at {level}: {missed or 'limits met'}")
        return Probe(level=value, missed=missed, output_tokens_per_s=summary.output_tokens_per_s)

    return search(workload.name, plan, probe)


def _life_record(
    session: Session,
    life: Life,
    server: Server,
    verified: Verified,
    started: datetime,
    capacities: tuple[Capacity, ...],
    gate: GateRecord | None,
) -> LifeRecord:
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
        started_at=started.isoformat(timespec="seconds"),
        ended_at=datetime.now(UTC).isoformat(timespec="seconds"),
        gpus=gpu_uuids(life.contender.gpus),
        image_digest=server.image_digest,
        start_up_s=server.start_s,
        build_s=server.build_s,
        capabilities=asdict(verified.capabilities),
        ledger=tuple(LedgerEntry(name=r.name, value=r.value, source=r.source, kind=r.kind) for r in verified.ledger),
        canary=trace_fields(verified.canary),
        cells=tuple(cell.name for cell in life.cells),
        capacities=capacities,
        gate=gate,
    )
