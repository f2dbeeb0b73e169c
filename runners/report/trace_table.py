# SPDX-License-Identifier: Apache-2.0
"""A cell's traces in Parquet, and one trace as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from engines.contract import EngineTimes
from runners.load.trace import Timeline, Trace
from runners.report.columns import batches, list_column, write_table

SCALARS: Final = tuple(name for name in Trace.__dataclass_fields__ if name not in ("timeline", "engine_times", "text"))
"""What a trace has besides times in lists and tuples, and its text."""


def trace_fields(trace: Trace) -> dict[str, Any]:
    """A trace as JSON has it."""
    fields = {name: getattr(trace, name) for name in Trace.__dataclass_fields__}
    return fields | {"timeline": {name: getattr(trace.timeline, name).tolist() for name in Timeline.__slots__}}


def write_traces(path: Path, traces: Sequence[Trace]) -> None:
    """All traces of a cell in Parquet: one row a request, its timeline as three lists, its engine's times apart."""
    names = [*SCALARS, *(f"engine_{name}" for name in EngineTimes._fields)]
    ticks = {"tick_at_s": "double[]", "tick_user_s": "double[]", "tick_tokens": "int64[]"}
    write_table(path, {name: _column_type(name) for name in names} | ticks, map(_columns, batches(traces)))


def _column_type(name: str) -> str:
    if name in ("request_id", "finish_reason", "error"):
        return "string"
    return "double" if name.endswith("_s") else "int64"


def _columns(traces: Sequence[Trace]) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [getattr(trace, name) for trace in traces] for name in SCALARS}
    for number, name in enumerate(EngineTimes._fields):
        columns[f"engine_{name}"] = [t.engine_times[number] if t.engine_times else None for t in traces]
    columns["tick_at_s"] = list_column(t.timeline.at_s for t in traces)
    columns["tick_user_s"] = list_column(t.timeline.user_s for t in traces)
    columns["tick_tokens"] = list_column(t.timeline.tokens for t in traces)
    return columns
