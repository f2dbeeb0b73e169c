# SPDX-License-Identifier: Apache-2.0
"""Looks a results folder through, whoever made it: what is wrong with it, and what it lacks to be believed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runners.cells import expand
from runners.config import Bakeoff, ConfigError, read_config
from runners.errors import MendableError
from runners.report.blocks import NoResultsError, check_one_plan
from runners.report.decisions import FEWEST_BLOCKS
from runners.report.layout import SUPERSEDED, life_folder, of_lives
from runners.report.ledger import ledger_of
from runners.report.metrics import Quantile
from runners.report.record import CellRecord, LifeRecord, Run, Summary
from runners.report.schemas import KINDS, kind_of
from runners.report.written import read_written
from runners.self_check import SelfCheck


@dataclass(frozen=True)
class Finding:
    """`wrong`: it must not be believed. `lacks`: it could say more."""

    state: Literal["wrong", "lacks"]
    text: str


def check_records(folder: Path) -> tuple[Finding, ...]:
    """All findings, what is wrong first. Raises NoResultsError for a folder without a config."""
    if not (folder / "config.yaml").is_file():
        raise NoResultsError(f"{folder} is no results folder: config.yaml is missing")
    wrong = [*_unreadable(folder)]
    if not wrong:
        run = Run.load(folder)
        wrong += [*_plan(run), *_lives(folder), *(text for cell in run.cells for text in _cell(cell))]
        lacks = _lacks(folder, run)
    else:
        lacks = []
    return (*(Finding("wrong", text) for text in wrong), *(Finding("lacks", text) for text in lacks))


def _unreadable(folder: Path) -> Iterator[str]:
    """Records that are not what their kind is, each with file and key."""
    for path in sorted(folder.rglob("*")):
        kind = kind_of(path.relative_to(folder).as_posix())
        if kind is None or not path.is_file() or SUPERSEDED in str(path):
            continue
        try:
            if kind == "config":
                read_config(path)
            else:
                read_written(path, KINDS[kind])
        except (MendableError, UnicodeDecodeError) as error:
            yield str(error).replace(f"{folder}/", "")


def _plan(run: Run) -> Iterator[str]:
    try:
        check_one_plan(run)
    except (MendableError, ConfigError) as error:
        yield str(error)


def _lives(folder: Path) -> Iterator[str]:
    """What a life's record promises lies beside it, and is about that life."""
    for path in of_lives(folder, "life.json"):
        life = read_written(path, LifeRecord)
        here = path.parent.relative_to(folder).as_posix()
        for name in life.cells:
            cell = read_written(path.parent / f"{name}.json", CellRecord)
            if (cell.contender, cell.block, cell.position) != (life.contender, life.block, life.position):
                yield f"{here}/{name}.json: is of block {cell.block}, {cell.contender}, which is not its life's"
            traces = path.parent / f"{name}.parquet"
            if traces.is_file():
                yield from (f"{here}/{name}.json: {text}" for text in _against_traces(cell.summary, traces))


def _against_traces(summary: Summary, path: Path) -> Iterator[str]:
    """A record whose counts are not those of its traces was changed afterwards."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["error", "server_tokens", "prompt_tokens"])
    except (pa.ArrowException, OSError) as error:
        yield f"its traces cannot be read: {error}"
        return
    done = table.filter(pc.is_null(table["error"]))
    counted = {
        "requests_due": table.num_rows,
        "requests_done": done.num_rows,
        "requests_failed": table.num_rows - done.num_rows,
        "output_tokens": _total(done["server_tokens"]),
        "prompt_tokens": _total(done["prompt_tokens"]),
    }
    for name, count in counted.items():
        said = getattr(summary, name)
        if said != count:
            yield f"{name} is {said}, its traces have {count}"


def _total(column: Any) -> int | None:
    import pyarrow.compute as pc

    return None if column.null_count or not len(column) else int(pc.sum(column).as_py())


def _cell(cell: CellRecord) -> Iterator[str]:
    """Figures that contradict each other."""
    where, summary = f"block {cell.block}, {cell.contender}, {cell.workload} at {cell.level:g}", cell.summary
    if summary.requests_done + summary.requests_failed != summary.requests_due:
        done, failed = summary.requests_done, summary.requests_failed
        yield f"{where}: {done} done and {failed} failed of {summary.requests_due} due"
    shares = {
        "cache_hit_rate": summary.cache_hit_rate,
        "cache_expected": summary.cache_expected,
        "acceptance_rate": summary.acceptance_rate,
    }
    for name, share in {**shares, "goodput": summary.goodput}.items():
        if share is not None and not 0 <= share <= 1:
            yield f"{where}: {name} is {share}, a share lies between 0 and 1"
    kinds = (
        summary.ttft_visible,
        summary.ttft_token,
        summary.tpot,
        summary.ttft_engine,
        summary.tpot_engine,
        summary.e2e,
    )
    for kind in kinds:
        for quantile in () if kind is None else (kind.p50, kind.p95, kind.p99):
            if not _ordered(quantile):
                yield f"{where}: a percentile {quantile.value} lies outside its interval"


def _ordered(quantile: Quantile) -> bool:
    bounds = [v for v in (quantile.low, quantile.value, quantile.high) if v is not None]
    return bounds == sorted(bounds)


def _lacks(folder: Path, run: Run) -> list[str]:
    """What a reader would ask for."""
    bakeoff = Bakeoff.model_validate(run.config)
    checks = [read_written(path, SelfCheck) for path in sorted(folder.glob("client-check*.json"))]
    found = []
    if not any(folder.glob("environment*.json")):
        found.append("environment.json: on which machine it ran")
    if not checks:
        found.append("client-check.json: whether the client was the limit")
    found += ["client-check.json: the client did not hold the rate" for check in checks if not check.held]
    found += _lacking_lives(folder, run, bakeoff)
    found += _lacking_answers(run, bakeoff)
    silent = [row.name for row in ledger_of(run) if row.state == "not read back" and row.kind == "must match"]
    if silent:
        found.append(f"settings read back of every contender: {', '.join(silent)}")
    return found


def _lacking_lives(folder: Path, run: Run, bakeoff: Bakeoff) -> list[str]:
    found = []
    blocks = {life.block for life in run.lives}
    if len(blocks) < FEWEST_BLOCKS:
        found.append(f"blocks: {len(blocks)}, of fewer than {FEWEST_BLOCKS} nothing usual is decided")
    planned = {
        life.name for life in expand(bakeoff) if life.contender.name not in {u.contender for u in run.unsupported}
    }
    there = {path.parent.name for path in folder.glob("lives/*/life.json")}
    if not run.looks and planned - there:
        found.append(f"finished lives that were planned: {', '.join(sorted(planned - there))}")
    for life in sorted(there):
        here = life_folder(folder, life)
        wanted = ["launch.json", "engine/server.log"] + [p.with_suffix(".parquet").name for p in _cells(here)]
        missing = [name for name in wanted if not (here / name).exists()]
        if missing and SUPERSEDED not in life:
            found.append(f"lives/{life}: {', '.join(missing)}")
    return found


def _cells(life: Path) -> list[Path]:
    return [path for path in sorted(life.glob("*.json")) if path.name not in ("life.json", "launch.json")]


def _lacking_answers(run: Run, bakeoff: Bakeoff) -> list[str]:
    found = []
    if not any(life.gate for life in run.lives):
        found.append("greedy answers: whether contenders say the same")
    if any(c.gpus for c in bakeoff.contenders) and not any(cell.gpu and cell.gpu.energy_j for cell in run.cells):
        found.append("energy of the GPUs")
    unnamed = dict.fromkeys(x.contender for x in run.lives if x.runner == "compose" and x.image_digest is None)
    return found + [f"digest of the image of {name}" for name in unnamed]


def told(findings: Sequence[Finding]) -> Mapping[str, list[str]]:
    """Texts by state."""
    return {state: [f.text for f in findings if f.state == state] for state in ("wrong", "lacks")}
