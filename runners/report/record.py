# SPDX-License-Identifier: Apache-2.0
"""What is written to results/: one record per cell and per life, each once, whole or not at all."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

from engines.contract import Counters
from engines.launch import Launch
from runners.config_workload import Level, LevelKind
from runners.gpu_meter import GpuUse
from runners.load.proof import ClientProof
from runners.report.gate_record import GateRecord
from runners.report.layout import cell_name, life_name, of_lives
from runners.report.metrics import Quantile
from runners.report.written import SCHEMA_VERSION, Written, read_written, write_once

LOOKS_FILE: Final = "looks.json"


class Percentiles(Written):
    """Seconds, over requests due in the window; each with its interval or the reason it has none."""

    p50: Quantile
    p95: Quantile
    p99: Quantile

    def at(self, percent: Literal[50, 95, 99]) -> Quantile:
        return {50: self.p50, 95: self.p95, 99: self.p99}[percent]


class Delays(Written):
    """Where the time of an average request of the cell went, in seconds. The first three are the engine's own: until
    scheduled, to the first token, to the last; `ttft_s` and `e2e_s` are the client's, the former None where a stream
    comes whole. What they have more is the front end's: HTTP, tokenizing, Triton, the way back.

    `of` says whose times the engine's are: each request's own, over the window, with their percentiles; or its
    counters', over the whole cell.
    """

    queue_s: float
    prefill_s: float
    decode_s: float
    ttft_s: float | None
    e2e_s: float
    of: Literal["requests", "counters"] = "counters"
    queue: Percentiles | None = None
    prefill: Percentiles | None = None
    decode: Percentiles | None = None
    front_end: Percentiles | None = None

    @property
    def front_end_s(self) -> float:
        return self.e2e_s - self.queue_s - self.prefill_s - self.decode_s

    @property
    def front_first_s(self) -> float | None:
        """The front end's part up to the first token."""
        return None if self.ttft_s is None else self.ttft_s - self.queue_s - self.prefill_s

    @property
    def front_rest_s(self) -> float | None:
        """The front end's part after the first token."""
        return None if self.ttft_s is None else self.e2e_s - self.ttft_s - self.decode_s


class AnswerLengths(Written):
    """Tokens of the answers of requests done. `deviation` is the standard one, None of a single answer."""

    mean: float
    deviation: float | None
    p5: int
    p50: int
    p95: int


class Flag(Written):
    """Something a reader of the cell must know. `no_verdict`: no verdict may rest on this cell."""

    code: str
    detail: str
    no_verdict: bool = False


class Summary(Written):
    """What a cell yields. Times in seconds, counts over the whole cell unless said otherwise.

    `goodput` is the share of requests due in the window that met every limit of the workload.
    `completed_tokens_per_s` counts the tokens of requests that ended in the window, when they ended;
    `ttft_engine` and `tpot_engine` are on the engine's own clock. `finish_reasons` are counts of requests done.
    `cache_expected` is the cache hit rate that the workload's construction implies with the engine's block size;
    `tokens_per_step` are those that one step of one request yields, `acceptance_by_position` the share of drafts
    whose first, second ... token was accepted.
    """

    requests_due: int
    requests_done: int
    requests_failed: int
    requests_in_window: int
    token_mismatches: int
    client_uncounted: int
    prompt_tokens: int | None
    input_tokens: int
    output_tokens: int | None
    client_output_tokens: int | None
    finish_reasons: Mapping[str, int] = {}
    answer_lengths: AnswerLengths | None = None
    window_s: float | None
    window_in_e2e: float | None
    requests_in_flight: float | None
    output_tokens_per_s: float | None
    completed_tokens_per_s: float | None
    output_tokens_per_s_whole_run: float | None
    ttft_visible: Percentiles
    ttft_token: Percentiles | None
    tpot: Percentiles
    ttft_engine: Percentiles | None
    tpot_engine: Percentiles | None
    e2e: Percentiles
    goodput: float | None
    delays: Delays | None
    cache_hit_rate: float | None
    cache_expected: float | None = None
    acceptance_rate: float | None
    acceptance_length: float | None
    tokens_per_step: float | None = None
    acceptance_by_position: tuple[float, ...] | None = None
    client: ClientProof
    flags: tuple[Flag, ...]


class Phases(Written):
    """Where a cell's time went, in seconds. `overhead_s` is all but warming up and driving."""

    warm_up_s: float
    drive_s: float
    overhead_s: float


class CellRecord(Written):
    """One cell: contender x workload x level in one server life. `purpose` tells the levels of the config from
    the probes of a search for capacity. `prompt_file_sha256` is that of the workload's own file of prompts."""

    schema_version: int = SCHEMA_VERSION
    block: int
    position: int
    contender: str
    engine_kind: str
    engine_version: str | None
    front_end: str
    runner: str
    transport: str
    workload: str
    level: int | float
    level_kind: LevelKind
    purpose: Literal["planned", "capacity"] = "planned"
    started_at: str
    start_up_s: float | None
    build_s: float | None
    prompts_sha256: str
    prompt_file_sha256: str | None = None
    counters_before: Counters
    counters_after: Counters
    gpu: GpuUse | None
    phases: Phases
    summary: Summary

    @property
    def name(self) -> str:
        """As its files are named."""
        return cell_name(self.workload, self.purpose, Level(self.level_kind, self.level))


class Probe(Written):
    """One level tried, the limit that it missed, or None, and its rate."""

    level: int | float
    missed: str | None
    output_tokens_per_s: float | None


class Capacity(Written):
    """What the search in one life found: the highest level that met the limits and the lowest that did not."""

    workload: str
    level_kind: LevelKind
    met: int | float | None
    missed: int | float | None
    probes: tuple[Probe, ...]


class LedgerEntry(Written):
    name: str
    value: str | None
    source: str
    kind: str


class LifeRecord(Written):
    """One server life. Written when it has ended; a life without it is unfinished and redone whole.

    Times are ISO 8601 in UTC; `gpus` are the UUIDs of those it was given. `build_s` is what had to be made
    before the start took (an engine build, converted weights), None where nothing had to.
    """

    schema_version: int = SCHEMA_VERSION
    block: int
    position: int
    contender: str
    engine_kind: str
    engine_version: str | None
    front_end: str
    runner: str
    transport: str
    environment: str | None
    started_at: str
    ended_at: str
    gpus: tuple[str, ...]
    image_digest: str | None = None
    start_up_s: float | None
    build_s: float | None
    capabilities: dict[str, Any]
    ledger: tuple[LedgerEntry, ...]
    canary: dict[str, Any]
    cells: tuple[str, ...]
    capacities: tuple[Capacity, ...] = ()
    gate: GateRecord | None = None

    @property
    def name(self) -> str:
        """As its folder is named."""
        return life_name(self.block, self.contender)


class Unsupported(Written):
    """A contender whose engine cannot run the checkpoint; it has a row and no cells."""

    contender: str
    engine_kind: str
    reason: str


def write_launch(path: Path, launch: Launch) -> None:
    """The exact commands of a life, before any of them runs."""
    write_once(path, json.dumps(asdict(launch), indent=2) + "\n")


class Looks(Written):
    """Looks planned ahead: after which blocks verdicts are taken, each at its share of the error."""

    after_blocks: tuple[int, ...]


class Run(Written):
    """All finished lives of a results folder, its config and its looks; no `looks`: one, at the end. `accepted` are
    rows of the ledger that may be unequal though the config does not declare them."""

    config: dict[str, Any]
    lives: tuple[LifeRecord, ...]
    cells: tuple[CellRecord, ...]
    unsupported: tuple[Unsupported, ...] = ()
    looks: tuple[int, ...] = ()
    accepted: tuple[str, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> "Run":
        """Read what is on disk, throughput by one measure for all. Raises RecordError, or FileNotFoundError where it is
        no results folder."""
        import yaml

        from runners.report.clocks import on_one_measure

        config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
        lives, cells = [], []
        for path in of_lives(folder, "life.json"):
            lives.append(read_life(path.parent))
            cells += [read_written(path.parent / f"{name}.json", CellRecord) for name in lives[-1].cells]
        unsupported = tuple(read_written(path, Unsupported) for path in sorted(folder.glob("unsupported/*.json")))
        run = cls(
            config=config,
            lives=tuple(lives),
            cells=tuple(cells),
            unsupported=unsupported,
            looks=read_looks(folder),
        )
        return on_one_measure(run)


def read_looks(folder: Path) -> tuple[int, ...]:
    """The looks that were planned for a results folder, none where it has none."""
    path = folder / LOOKS_FILE
    return read_written(path, Looks).after_blocks if path.exists() else ()


def read_life(folder: Path) -> LifeRecord:
    """The record of a finished life. Raises FileNotFoundError where it is unfinished."""
    return read_written(folder / "life.json", LifeRecord)
