# SPDX-License-Identifier: Apache-2.0
"""The rows of the published table: those of `tabulate`, and beside their figures all that a stranger must know."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engines import ledger_rows
from runners.config import Bakeoff, ContenderConfig
from runners.config_workload import WorkloadConfig
from runners.report.blocks import without_excluded
from runners.report.compare import Estimate, geometric_of_all
from runners.report.costs import Cost, costs, watts
from runners.report.curves import Point, points
from runners.report.ledger import ComparedRow, ledger_of
from runners.report.metrics import share
from runners.report.opened import Results
from runners.report.record import CellRecord, LifeRecord, Run
from runners.report.table import UNSUPPORTED, Row, tabulate

LEDGER_COLUMNS: Final = {
    "weight_dtype": ledger_rows.WEIGHT_DTYPE,
    "quantization": ledger_rows.QUANTIZATION,
    "kv_dtype": ledger_rows.KV_DTYPE,
    "kv_capacity_tokens": ledger_rows.KV_CAPACITY,
    "tensor_parallel": ledger_rows.TENSOR_PARALLEL,
    "pipeline_parallel": ledger_rows.PIPELINE_PARALLEL,
    "stream_interval": ledger_rows.STREAM_INTERVAL,
}
"""Settings as they were read back, by the names that they have in ledgers."""


def published_rows(results: Results) -> list[Row]:
    """One row per workload, level and contender, then contenders that could not run. None is unknown."""
    kept = without_excluded(results.run)
    bakeoff = Bakeoff.model_validate(kept.config)
    ledger = {row.name: row for row in ledger_of(kept)}
    contenders = {c.name: _contender(c, kept, ledger, results.hosts) for c in bakeoff.contenders}
    at_point = {(p.workload, p.contender, p.level_kind, p.level): p for p in points(kept)}
    at_cost = {(c.workload, c.contender, c.level_kind, c.level): c for c in costs(kept)}
    workloads = {w.name: w for w in bakeoff.workloads}
    rows = []
    for row in tabulate(results.run):
        known = contenders.get(row["engine"], {})
        if row["verdict"] != UNSUPPORTED:
            key = (row["workload"], row["engine"], row["level_kind"], row["level"])
            cells = [c for c in kept.cells if (c.workload, c.contender, c.level_kind, c.level) == key]
            known = known | _load(workloads[row["workload"]], cells) | _resources(cells, at_point[key], at_cost[key])
            known = known | _client(row, results)
        rows.append(row | known)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def _contender(
    contender: ContenderConfig, run: Run, ledger: Mapping[str, ComparedRow], hosts: Sequence[Mapping[str, Any]]
) -> Row:
    """What holds for every row of a contender."""
    lives = [life for life in run.lives if life.contender == contender.name]
    first = lives[0] if lives else None
    gpus = {gpu["index"]: gpu["name"] for gpu in (hosts[0].get("gpus", ()) if hosts else ())}
    names = list(dict.fromkeys(gpus[i] for i in contender.gpus if i in gpus))
    in_force = {
        name: ledger[row].values.get(contender.name) if row in ledger else None for name, row in LEDGER_COLUMNS.items()
    }
    return {
        "runner": first.runner if first else contender.runner,
        "transport": first.transport if first else contender.transport,
        "environment": first.environment if first else None,
        "image_digest": first.image_digest if first else None,
        "end_of_life": _end_of_life(lives),
        "gpu": " and ".join(names) or None,
        "gpus": len(contender.gpus),
        **in_force,
    }


def _end_of_life(lives: Sequence[LifeRecord]) -> str | None:
    """What the engine's own notes say of its end."""
    notes = [note for life in lives for note in life.capabilities.get("notes", ()) if note.startswith("end of life")]
    return notes[0] if notes else None


def _load(workload: WorkloadConfig, cells: Sequence[CellRecord]) -> Row:
    """What was asked and answered, and how it arrived."""
    first, summaries = cells[0], [c.summary for c in cells]
    done = sum(s.requests_done for s in summaries)
    prompts = [s.input_tokens if s.prompt_tokens is None else s.prompt_tokens for s in summaries]
    outputs = [s.client_output_tokens if s.output_tokens is None else s.output_tokens for s in summaries]
    return {
        "arrivals": "closed loop" if first.level_kind == "concurrency" else workload.arrivals,
        "input_tokens_mean": share(sum(prompts), done),
        "output_tokens_mean": None if None in outputs else share(sum(o or 0 for o in outputs), done),
    }


def _resources(cells: Sequence[CellRecord], point: Point, cost: Cost) -> Row:
    return {
        **_interval("output_tokens_per_s_per_gpu", point.output_tokens_per_s_per_gpu),
        **_interval("user_tokens_per_s", point.user_tokens_per_s),
        **_interval("power_w", geometric_of_all([watts(c) for c in cells])),
        **_interval("joules_per_output_token", cost.joules_per_output_token),
        **_interval("cost_per_million_output", cost.per_million_output),
        **_interval("cost_per_million_input", cost.per_million_input),
    }


def _interval(name: str, estimate: Estimate | None) -> Row:
    return {
        name: estimate.value if estimate else None,
        f"{name}_low": estimate.low if estimate else None,
        f"{name}_high": estimate.high if estimate else None,
    }


def _client(row: Row, results: Results) -> Row:
    """`client_headroom`: the rate that the client is known to reach / the row's; it was asked for no more."""
    reached = max((check.reached_events_per_s for check in results.checks), default=None)
    return {"client_headroom": share(reached, row["output_tokens_per_s"])}


def per_contender(rows: Sequence[Row]) -> list[Row]:
    """The first row of each contender."""
    return list({row["engine"]: row for row in reversed(rows)}.values())[::-1]
