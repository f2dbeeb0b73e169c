# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: every life of every block, every cell of every life."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from engines.contract import Call, Counters, Launch, Prompt
from runners.cells import Cell, Life
from runners.environments import Say
from runners.launch.process import last_lines
from runners.launch.server import LaunchError, Server
from runners.load.drive import Driven, Load, drive
from runners.load.fold import fold_exchange
from runners.load.scrape import settled_counters
from runners.load.trace import Trace
from runners.load.workload import Draw, fingerprint
from runners.report.record import (
    CellRecord,
    LedgerEntry,
    LifeRecord,
    Phases,
    Summary,
    write_model,
    write_traces,
)
from runners.report.summary import Measured, summarize
from runners.session import Contestant, Session
from runners.verify import Verified, verify
from runners.warm_up import warm_up

WINDOW_E2E = 12.0
"""The window lasts at least so many mean request times, two more than a verdict needs: the mean is
that of the requests so far, and the last ones may be slower."""
REQUEST_LIMIT_IDLES = 20.0


def bake(session: Session, folder: Path, say: Say) -> None:
    """Run every life that the folder does not hold yet. Raises what stops the comparison."""
    import_ahead()
    remaining = [life for life in session.lives if not _finished(folder, life)]
    for number, life in enumerate(remaining, start=1):
        say(
            f"block {life.block} of {session.bakeoff.blocks}, {life.contender.name}: start {number} of {len(remaining)}"
        )
        live(session, life, _fresh_folder(folder, life), say)


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
    with contestant.runner.up(launch, folder / "engine") as server:
        say(_up(server))
        verified = verified_server(session, life, server, served_name)
        for cell in life.cells:
            run_cell(_Kitchen(session, life, contestant, server, verified, folder, say), cell)
    write_model(folder / "life.json", _life_record(session, life, launch, server, verified))


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


def verified_server(session: Session, life: Life, server: Server, served_name: str) -> Verified:
    """The server's capabilities and ledger. A served name of ours is demanded where we started it."""
    contestant = session.contestants[life.contender.name]
    ours = served_name if contestant.environment else life.contender.model
    canary = next(_draw(session, life.cells[0], "canary").prompts())
    knobs = session.bakeoff.knobs_of(life.contender)
    return verify(server, contestant.engine, ours, knobs.max_model_len, canary, session.rendering)


class _Kitchen:
    """What the cells of one life share."""

    def __init__(
        self,
        session: Session,
        life: Life,
        contestant: Contestant,
        server: Server,
        verified: Verified,
        folder: Path,
        say: Say,
    ) -> None:
        self.session = session
        self.life = life
        self.contestant = contestant
        self.server = server
        self.verified = verified
        self.folder = folder
        self.say = say

    def encode(self, prompt: Prompt) -> Call:
        return self.contestant.engine.encode(prompt, self.verified.capabilities)

    def counters(self, expect_requests: float | None) -> Counters:
        return settled_counters(self.server, self.contestant.engine, self.verified.capabilities.model, expect_requests)


def run_cell(kitchen: _Kitchen, cell: Cell) -> None:
    """Warm up, settle, drive, settle, sum up, write."""
    clock = _Stopwatch()
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    load = _load(kitchen, cell, 0.0)
    with clock.phase("warm-up"):
        request_s = warm_up(load, _draw(kitchen.session, cell, "warm-up").prompts(), kitchen.encode, kitchen.server.url)
    before = kitchen.counters(None)
    load = _load(kitchen, cell, request_s)
    window_s = max(load.window_s, load.window_e2e * request_s)
    kitchen.say(f"  {cell.workload.name} at {cell.level}: warm, driving for about {window_s:.0f} s")
    with clock.phase("drive"):
        driven = drive(load, _draw(kitchen.session, cell, "measured").prompts(), kitchen.encode, kitchen.server.url)
    _still_alive(kitchen, driven)
    sent = float(len(driven.exchanges))
    after = kitchen.counters(None if before.requests is None else before.requests + sent)
    traces = _fold(kitchen, driven)
    summary = _summary(kitchen, cell, driven, traces, before, after)
    write_traces(kitchen.folder / f"{cell.name}.parquet", traces)
    record = _record(kitchen, cell, started_at, driven, before, after, clock.phases(), summary)
    write_model(kitchen.folder / f"{cell.name}.json", record)
    kitchen.say(_told(summary))


def _load(kitchen: _Kitchen, cell: Cell, request_s: float) -> Load:
    bakeoff = kitchen.session.bakeoff
    return Load(
        level=cell.level,
        spread_s=request_s,
        window_s=bakeoff.window_s,
        window_e2e=WINDOW_E2E,
        idle_limit_s=bakeoff.idle_limit_s,
        request_limit_s=REQUEST_LIMIT_IDLES * bakeoff.idle_limit_s,
    )


def _draw(session: Session, cell: Cell, purpose: str) -> Draw:
    """Prompts by block, workload, level and purpose, and not by contender: all are asked the same.

    Shared openings belong to a workload's level in a block: no other cell of the life knows them.
    """
    key = (session.bakeoff.seed, cell.block, cell.workload.name, cell.level)
    return Draw(
        rendering=session.rendering,
        workload=cell.workload,
        sampling=session.bakeoff.sampling_fields(),
        forced=session.bakeoff.output_length == "forced",
        seed=(*key, purpose),
        prefix_seed=(*key, "openings"),
    )


def _still_alive(kitchen: _Kitchen, driven: Driven) -> None:
    if not kitchen.server.alive():
        first = next((e.error for e in driven.exchanges if e.error), "no request failed before")
        log = kitchen.folder / "engine" / "server.log"
        raise LaunchError(f"the engine died while it was driven ({first}); its last lines:\n{last_lines(log)}")


def _fold(kitchen: _Kitchen, driven: Driven) -> list[Trace]:
    engine, capabilities = kitchen.contestant.engine, kitchen.verified.capabilities
    return [fold_exchange(e, engine, capabilities, kitchen.session.rendering.tokens) for e in driven.exchanges]


def _summary(
    kitchen: _Kitchen, cell: Cell, driven: Driven, traces: list[Trace], before: Counters, after: Counters
) -> Summary:
    margin = kitchen.session.bakeoff.margin
    capabilities = kitchen.verified.capabilities
    return summarize(Measured(cell.workload, cell.level, margin, driven, traces, capabilities, before, after))


def _record(
    kitchen: _Kitchen,
    cell: Cell,
    started_at: str,
    driven: Driven,
    before: Counters,
    after: Counters,
    phases: Phases,
    summary: Summary,
) -> CellRecord:
    capabilities = kitchen.verified.capabilities
    return CellRecord(
        block=cell.block,
        position=kitchen.life.position,
        contender=cell.contender,
        engine_kind=kitchen.contestant.engine.name,
        engine_version=capabilities.engine_version,
        front_end=capabilities.front_end,
        runner=kitchen.contestant.config.runner,
        workload=cell.workload.name,
        level=cell.level,
        started_at=started_at,
        start_up_s=kitchen.server.start_s,
        prompts_sha256=fingerprint(driven.prompts),
        counters_before=before,
        counters_after=after,
        phases=phases,
        summary=summary,
    )


def _told(summary: Summary) -> str:
    rate = "-" if summary.output_tokens_per_s is None else f"{summary.output_tokens_per_s:.0f} tok/s"
    flags = ", ".join(flag.code for flag in summary.flags)
    return f"    {rate}, {summary.requests_done} of {summary.requests_due} requests done{'; ' + flags if flags else ''}"


def _life_record(session: Session, life: Life, launch: Launch, server: Server, verified: Verified) -> LifeRecord:
    contestant = session.contestants[life.contender.name]
    ours = contestant.environment is not None
    return LifeRecord(
        block=life.block,
        position=life.position,
        contender=life.contender.name,
        engine_kind=contestant.engine.name,
        engine_version=verified.capabilities.engine_version,
        front_end=verified.capabilities.front_end,
        runner=contestant.config.runner,
        environment=contestant.environment.recipe.name if contestant.environment else None,
        start_up_s=server.start_s,
        capabilities=asdict(verified.capabilities),
        ledger=tuple(LedgerEntry(name=r.name, value=r.value, source=r.source, kind=r.kind) for r in verified.ledger),
        canary=asdict(verified.canary),
        argv=launch.serve.argv if ours else (),
        env=dict(launch.serve.env) if ours else {},
        cells=tuple(cell.name for cell in life.cells),
    )


class _Stopwatch:
    """Times the phases of a cell."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._spent[name] = time.monotonic() - began

    def phases(self) -> Phases:
        whole = time.monotonic() - self._began
        return Phases(
            warm_up_s=self._spent["warm-up"],
            drive_s=self._spent["drive"],
            overhead_s=whole - sum(self._spent.values()),
        )
