# SPDX-License-Identifier: Apache-2.0
"""The published table in Markdown and CSV, with the notes without which it must not be quoted."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runners.config_workload import Level
from runners.report import markdown
from runners.report.figures import DASH, interval, number, percentage, significant, whole
from runners.report.published import per_contender
from runners.report.published_notes import Note
from runners.report.table import UNSUPPORTED, Row, as_csv, milliseconds

Text = Callable[[Row], str]


@dataclass(frozen=True)
class Column:
    """A column of the table for people. `title` may end in units; `note` is the key of the note it leans on."""

    title: str
    text: Text
    note: str | None = None
    numeric: Callable[[Row], float | None] | None = None


@dataclass(frozen=True)
class Part:
    """Columns that are read together; `by_contender`: a row for each contender only."""

    title: str
    columns: tuple[Column, ...]
    by_contender: bool = False


def _plain(name: str) -> Text:
    return lambda row: DASH if row.get(name) in (None, "") else str(row[name])


def _value(name: str, scale: float = 1.0) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        found = row.get(name)
        return found * scale if isinstance(found, int | float) else None

    return value


def _figure(title: str, name: str, note: str | None = None, scale: float = 1.0) -> Column:
    """A value with its interval over blocks."""
    return Column(title, lambda row: _of(row, name, "", scale), note, _value(name, scale))


def _of(row: Row, name: str, unit: str, scale: float) -> str:
    return interval(row.get(f"{name}{unit}"), row.get(f"{name}_low{unit}"), row.get(f"{name}_high{unit}"), scale)


def _time(title: str, name: str, note: str | None = None) -> Column:
    """A percentile in milliseconds with its interval over blocks, or the reason why there is none."""

    def text(row: Row) -> str:
        if row.get(f"{name}_s") is None:
            return milliseconds(row, name) if f"{name}_s" in row else DASH
        return _of(row, name, "_s", 1e3)

    return Column(title, text, note, _value(f"{name}_s", 1e3))


def _level(row: Row) -> str:
    return DASH if row.get("level") is None else str(Level(row["level_kind"], row["level"]))


def _gpus(row: Row) -> str:
    return f"{row['gpu'] or 'unknown'} x {row['gpus']}" if row.get("gpus") else "none"


def _parallel(row: Row) -> str:
    parts = [
        f"{short}{row[name]}"
        for short, name in (("TP", "tensor_parallel"), ("PP", "pipeline_parallel"))
        if row.get(name)
    ]
    return " ".join(parts) or DASH


def _weights(row: Row) -> str:
    quantization = row.get("quantization")
    kind = "" if quantization in (None, "None", "none") else f", {quantization}"
    return (row.get("weight_dtype") or DASH) + kind


KEYS: Final = (
    Column("workload", _plain("workload")),
    Column("level", _level, "load", _value("level")),
    Column("contender", _plain("engine")),
)
CONTENDERS: Final = Part(
    "Contenders",
    (
        Column("contender", _plain("engine")),
        Column("engine", _plain("engine_kind")),
        Column("front end", _plain("front_end")),
        Column("version", _plain("engine_version")),
        Column("end of life", _plain("end_of_life"), "age"),
        Column("image digest", _plain("image_digest"), "hardware"),
        Column("runner, transport", lambda r: f"{r['runner'] or DASH}, {r['transport'] or DASH}"),
        Column("GPU x n", _gpus, "hardware"),
        Column("parallelism", _parallel),
        Column("weight dtype", _weights, "unequal"),
        Column("KV dtype", _plain("kv_dtype"), "unequal"),
        Column("KV capacity (tokens)", _plain("kv_capacity_tokens"), "unequal"),
        Column("runs", _plain("blocks"), "order"),
    ),
    by_contender=True,
)
SPEED: Final = Part(
    "Speed",
    (
        *KEYS,
        Column("arrival", _plain("arrivals"), "load"),
        Column("ISL", lambda r: number(r.get("input_tokens_mean"), 0), "load", _value("input_tokens_mean")),
        Column("OSL", lambda r: number(r.get("output_tokens_mean"), 0), "length", _value("output_tokens_mean")),
        Column("requests", lambda r: whole(r.get("requests_due")), None, _value("requests_due")),
        Column("failed", lambda r: whole(r.get("requests_failed")), None, _value("requests_failed")),
        _figure("tok/s per GPU", "output_tokens_per_s_per_gpu", "window"),
        _figure("tok/s of a user", "user_tokens_per_s", "definitions"),
        _time("TTFT p50 ms", "ttft_visible_p50", "definitions"),
        _time("TTFT p95 ms", "ttft_visible_p95", "definitions"),
        _time("TTFT p99 ms", "ttft_visible_p99", "definitions"),
        _time("TPOT p50 ms", "tpot_p50", "definitions"),
        _time("TPOT p95 ms", "tpot_p95", "definitions"),
        _time("TPOT p99 ms", "tpot_p99", "definitions"),
        _time("E2E p50 ms", "e2e_p50", "definitions"),
        _time("engine clock TTFT p50 ms", "ttft_engine_p50", "clock"),
        _time("engine clock TTFT p95 ms", "ttft_engine_p95", "clock"),
        _time("engine clock TTFT p99 ms", "ttft_engine_p99", "clock"),
        _time("engine clock TPOT p50 ms", "tpot_engine_p50", "clock"),
        Column("goodput", lambda r: percentage(r.get("goodput")), "definitions", _value("goodput")),
    ),
)
COST: Final = Part(
    "Cache, speculation, energy and cost",
    (
        *KEYS,
        Column("cache hits", lambda r: percentage(r.get("cache_hit_rate")), "cache", _value("cache_hit_rate")),
        Column("constructed", lambda r: percentage(r.get("cache_expected")), "cache", _value("cache_expected")),
        Column("acceptance", lambda r: percentage(r.get("acceptance_rate")), "speculation", _value("acceptance_rate")),
        Column(
            "acceptance length",
            lambda r: number(r.get("acceptance_length"), 2),
            "speculation",
            _value("acceptance_length"),
        ),
        Column(
            "tokens a step", lambda r: number(r.get("tokens_per_step"), 2), "speculation", _value("tokens_per_step")
        ),
        _figure("W", "power_w", "energy"),
        _figure("J per output token", "joules_per_output_token", "energy"),
        _figure("per 1M output tokens", "cost_per_million_output", "cost"),
        _figure("per 1M input tokens", "cost_per_million_input", "cost"),
        Column("start s", lambda r: number(r.get("start_up_s"), 1), None, _value("start_up_s")),
        Column("build s", lambda r: number(r.get("build_s"), 1), None, _value("build_s")),
    ),
)
VERDICTS: Final = Part(
    "Verdicts",
    (
        *KEYS,
        _figure("ratio", "ratio", "intervals"),
        Column("p Holm", lambda r: number(r.get("p_holm"), 3), "intervals", _value("p_holm")),
        Column("verdict", _plain("verdict"), "intervals"),
        Column("equivalence", _plain("same_answers"), "equivalence"),
        Column("client headroom", lambda r: _headroom(r), "client", _value("client_headroom")),
        Column(
            "send lag p99 ms",
            lambda r: number(r.get("send_lag_p99_s"), 2, 1e3),
            "client",
            _value("send_lag_p99_s", 1e3),
        ),
        Column("flags", lambda r: "; ".join(r["flags"]) or DASH),
    ),
)
PARTS: Final = (VERDICTS, SPEED, COST, CONTENDERS)


def _headroom(row: Row) -> str:
    found = row.get("client_headroom")
    return DASH if found is None else f"{significant(found, 2)} x"


def rows_of(part: Part, rows: Sequence[Row]) -> Sequence[Row]:
    """Those that a part shows: each contender once, or all that were measured."""
    if part.by_contender:
        return per_contender(rows)
    return [row for row in rows if row["verdict"] != UNSUPPORTED or part is VERDICTS]


def published_markdown(title: str, lead: Sequence[str], rows: Sequence[Row], notes: Sequence[Note]) -> str:
    """What was declared ahead in sentences, then verdicts, speed, what it took, and what ran. Numbers in headings are
    those of the notes."""
    number_of = {note.key: index for index, note in enumerate(notes, start=1)}
    lines = [f"# {title}", "", *(f"- {sentence}" for sentence in lead)]
    for part in PARTS:
        headings = [_heading(column, number_of) for column in part.columns]
        cells = [[column.text(row) for column in part.columns] for row in rows_of(part, rows)]
        lines += ["", f"## {part.title}", "", *markdown.table(headings, cells)]
    lines += ["", "## Notes", ""]
    lines += [f"{index}. **{note.title}.** {note.text}" for index, note in enumerate(notes, start=1)]
    return "\n".join(lines) + "\n"


def _heading(column: Column, number_of: Mapping[str, int]) -> str:
    found = number_of.get(column.note or "")
    return f"{column.title} ({found})" if found else column.title


def published_csv(rows: Sequence[Row], notes: Sequence[Note]) -> str:
    """Notes as comment lines, a header, a line for each row: times in seconds, shares of 1, unknowns empty."""
    text = io.StringIO()
    for note in notes:
        text.write(f"# {note.title}: {note.text}\n")
    return text.getvalue() + as_csv(rows)
