# SPDX-License-Identifier: Apache-2.0
"""One cell: warm up, fill the cache, settle, drive, settle, sum up, write."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from engines.contract import Call, Capabilities, Counters, Engine, Prompt
from runners.capacity import probe_requests
from runners.cells import Cell, Life
from runners.contestants import Contestant
from runners.environments import Say
from runners.gpu_meter import GpuUse, metered
from runners.launch.process import last_words
from runners.launch.server import LaunchError, Server
from runners.load.drive import drive
from runners.load.fold import fold_all
from runners.load.load import Arrivals, Driven, Load
from runners.load.pacing import constant, gamma
from runners.load.prompt_file import Line
from runners.load.rendering import Rendering
from runners.load.scrape import settled_counters
from runners.load.trace import Trace
from runners.load.transport import Transport
from runners.load.workload import Draw, fingerprint
from runners.report.caching import prefix_cache
from runners.report.record import CellRecord, Phases, Summary
from runners.report.summary import Measured, summarize
from runners.report.trace_table import write_traces
from runners.report.written import write_model
from runners.session import Session
from runners.verify import Verified, ask_once, folding
from runners.warm_up import prime, warm_up

WINDOW_E2E = 12.0
"""The window lasts at least so many mean request times, two more than a verdict needs: the mean is
that of the requests so far, and the last ones may be slower."""
REQUEST_LIMIT_IDLES = 20.0
MOST_WARM = 32
"""Slots that warm up for a rate."""
FINGERPRINTED = 64
"""Prompts of a cell that its fingerprint covers: a faster engine is asked more of the same sequence."""


def draw(session: Session, cell: Cell, purpose: str) -> Draw:
    """Prompts by block, workload, level and purpose, and not by contender: all are asked the same.

    Shared openings belong to a workload's level in a block: no other cell of the life knows them.
    """
    key = (session.bakeoff.seed, cell.block, cell.workload.name, cell.level.name, cell.purpose)
    return Draw(
        rendering=session.rendering,
        workload=cell.workload,
        sampling=session.bakeoff.sampling_fields(),
        forced=session.bakeoff.output_length == "forced",
        seed=(*key, purpose),
        prefix_seed=(*key, "openings"),
        alive=cell.workload.alive_at(cell.level),
        lines=_lines(session, cell) if purpose == "measured" else (),
    )


def _lines(session: Session, cell: Cell) -> tuple[Line, ...]:
    """The prompts that a file has for a cell; none where the workload has no file."""
    if cell.workload.file is None:
        return ()
    portions = session.files[cell.workload.name].portions
    levels = cell.workload.levels
    return portions[levels.index(cell.level) if cell.level in levels else 0]


@dataclass(frozen=True)
class Kitchen:
    """What the cells of one life share. `folder` is the life's own."""

    session: Session
    life: Life
    contestant: Contestant
    server: Server
    transport: Transport
    verified: Verified
    folder: Path
    say: Say

    @property
    def asked(self) -> tuple[Engine, Capabilities, Rendering]:
        """Who is asked, what it can do, and by whose tokens its answers are counted."""
        return self.contestant.engine, self.verified.capabilities, self.session.rendering

    def encode(self, prompt: Prompt, _request_id: str) -> Call:
        return self.contestant.engine.encode(prompt, self.verified.capabilities)

    def counters(self, expect_requests: float | None) -> Counters:
        return settled_counters(self.server, self.contestant.engine, self.verified.capabilities.model, expect_requests)


def run_cell(kitchen: Kitchen, cell: Cell) -> Summary:
    """Warm up, fill the cache, settle, drive, settle, sum up, write."""
    clock = _Stopwatch()
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with clock.phase("warm-up"):
        load, prompts = _warm_up_load(kitchen, cell), draw(kitchen.session, cell, "warm-up").prompts()
        request_s = warm_up(load, prompts, kitchen.encode, kitchen.transport)
        prime(load, draw(kitchen.session, cell, "measured").primers(), kitchen.encode, kitchen.transport)
    before = kitchen.counters(None)
    load = _load(kitchen, cell, request_s)
    window_s = max(load.window_s, load.window_e2e * request_s)
    kitchen.say(f"  {cell.workload.name} at {cell.level}: warm, driving for about {window_s:.0f} s")
    with clock.phase("drive"), metered(kitchen.contestant.config.gpus, time.monotonic) as use:
        driven = drive(load, draw(kitchen.session, cell, "measured").prompts(), kitchen.encode, kitchen.transport)
        gpu = use()
    _still_alive(kitchen, cell, driven)
    sent = float(len(driven.exchanges))
    after = kitchen.counters(None if before.requests is None else before.requests + sent)
    traces = fold_all(driven, folding(*kitchen.asked))
    summary = _summary(kitchen, cell, driven, traces, before, after)
    write_traces(kitchen.folder / f"{cell.name}.parquet", traces)
    record = _record(kitchen, cell, started_at, before, after, gpu, clock.phases(), summary)
    write_model(kitchen.folder / f"{cell.name}.json", record)
    kitchen.say(_told(summary))
    return summary


def _warm_up_load(kitchen: Kitchen, cell: Cell) -> Load:
    """Closed loop; for a rate, as many slots as requests are due in a second."""
    load = _load(kitchen, cell, 0.0)
    slots = int(cell.level.value) if load.arrivals is None else min(load.level, MOST_WARM, math.ceil(cell.level.value))
    return replace(load, level=slots, arrivals=None, most_requests=None)


def _arrivals(kitchen: Kitchen, cell: Cell, request_s: float) -> Arrivals | None:
    """The same due times for every contender of a block; None is closed loop."""
    if cell.level.kind == "concurrency":
        return None
    bakeoff, workload, rate = kitchen.session.bakeoff, cell.workload, cell.level.value
    if workload.arrivals == "constant":
        due_s = constant(rate)
    else:
        due_s = gamma(rate, workload.burstiness or 1.0, (bakeoff.seed, cell.block, cell.name))
    expected = math.ceil(1.2 * rate * (workload.ramp_s + max(bakeoff.window_s, _probing(cell))))
    return Arrivals(due_s, expected, math.ceil(2 * rate * request_s), workload.ramp_s)


def _load(kitchen: Kitchen, cell: Cell, request_s: float) -> Load:
    bakeoff = kitchen.session.bakeoff
    closed = cell.level.kind == "concurrency"
    lines = () if cell.workload.repeat else _lines(kitchen.session, cell)
    return Load(
        level=int(cell.level.value) if closed else cell.workload.max_in_flight,
        spread_s=request_s,
        arrivals=_arrivals(kitchen, cell, request_s),
        window_s=max(bakeoff.window_s, _probing(cell) if not closed else 0.0),
        window_e2e=max(WINDOW_E2E, _probing(cell) if closed else 0.0),
        idle_limit_s=bakeoff.idle_limit_s,
        request_limit_s=REQUEST_LIMIT_IDLES * bakeoff.idle_limit_s,
        most_requests=len(lines) or None,
    )


def _probing(cell: Cell) -> float:
    """How long a probe for capacity lasts, until its percentile can be had: in mean request times for requests in
    flight, in seconds for a rate."""
    return probe_requests(cell.workload) / cell.level.value if cell.purpose == "capacity" else 0.0


def _still_alive(kitchen: Kitchen, cell: Cell, driven: Driven) -> None:
    """The process runs; and where requests failed, one more is answered: health pages of a front end whose engine
    is dead go on saying 200. Raises LaunchError."""
    first = next((e.error or f"HTTP {e.status}" for e in driven.exchanges if e.error or e.status != 200), None)
    if not kitchen.server.alive():
        words = last_words(kitchen.server.log())
        raise LaunchError(
            f"the engine died while it was driven ({first or 'no request failed before'}); its last lines:\n{words}"
        )
    if first is None:
        return
    prompt = next(draw(kitchen.session, cell, "canary").prompts())
    canary = ask_once(kitchen.transport, *kitchen.asked, prompt, kitchen.session.bakeoff.idle_limit_s)
    if canary.error:
        words = last_words(kitchen.server.log())
        raise LaunchError(f"requests failed ({first}) and none is answered any more ({canary.error}):\n{words}")


def _summary(
    kitchen: Kitchen, cell: Cell, driven: Driven, traces: list[Trace], before: Counters, after: Counters
) -> Summary:
    margin = kitchen.session.bakeoff.margin
    verified = kitchen.verified
    capabilities = verified.capabilities
    cache = prefix_cache(verified.ledger, capabilities.spared_blocks)
    return summarize(Measured(cell.workload, cell.level, margin, driven, traces, capabilities, before, after, cache))


def _record(
    kitchen: Kitchen,
    cell: Cell,
    started_at: str,
    before: Counters,
    after: Counters,
    gpu: GpuUse | None,
    phases: Phases,
    summary: Summary,
) -> CellRecord:
    capabilities, files = kitchen.verified.capabilities, kitchen.session.files
    return CellRecord(
        block=cell.block,
        position=kitchen.life.position,
        contender=cell.contender,
        engine_kind=kitchen.contestant.engine.name,
        engine_version=capabilities.engine_version,
        front_end=capabilities.front_end,
        runner=kitchen.contestant.config.runner,
        transport=kitchen.transport.name,
        workload=cell.workload.name,
        level=cell.level.value,
        level_kind=cell.level.kind,
        purpose=cell.purpose,
        started_at=started_at,
        start_up_s=kitchen.server.start_s,
        build_s=kitchen.server.build_s,
        prompts_sha256=fingerprint(list(islice(draw(kitchen.session, cell, "measured").prompts(), FINGERPRINTED))),
        prompt_file_sha256=files[cell.workload.name].sha256 if cell.workload.name in files else None,
        counters_before=before,
        counters_after=after,
        gpu=gpu,
        phases=phases,
        summary=summary,
    )


def _told(summary: Summary) -> str:
    rate = "-" if summary.output_tokens_per_s is None else f"{summary.output_tokens_per_s:.0f} tok/s"
    flags = ", ".join(flag.code for flag in summary.flags)
    return f"    {rate}, {summary.requests_done} of {summary.requests_due} requests done{'; ' + flags if flags else ''}"


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
