# SPDX-License-Identifier: Apache-2.0
"""Looks a published table through (CSV): columns and notes that it lacks, figures that contradict each other."""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from runners.report.check_records import Finding
from runners.report.table import UNSUPPORTED

COLUMNS: Final = (
    *("engine", "engine_kind", "engine_version", "front_end", "runner", "transport", "image_digest", "end_of_life"),
    *("gpu", "gpus", "tensor_parallel", "weight_dtype", "kv_dtype", "workload", "arrivals", "level", "level_kind"),
    *("input_tokens_mean", "output_tokens_mean", "blocks", "requests_due", "requests_done", "requests_failed"),
    *("output_tokens_per_s_per_gpu", "output_tokens_per_s_per_gpu_low", "output_tokens_per_s_per_gpu_high"),
    *("ttft_visible_p50_s", "ttft_visible_p95_s", "ttft_visible_p99_s", "tpot_p50_s", "tpot_p95_s", "tpot_p99_s"),
    *("ttft_engine_p50_s", "tpot_engine_p50_s", "user_tokens_per_s", "goodput", "cache_hit_rate", "acceptance_length"),
    *("power_w", "joules_per_output_token", "cost_per_million_output", "primary_metric", "ratio", "ratio_low"),
    *("ratio_high", "p_holm", "verdict", "client_headroom", "send_lag_p99_s", "flags"),
)
"""Without these, readers cannot compare."""
KNOWN: Final = (
    *("engine", "engine_kind", "workload", "level", "level_kind", "blocks", "requests_due", "requests_done", "verdict"),
)
"""Columns in which each row that was measured has something."""
NOTES: Final = (
    *("Definitions", "Load", "Window and warm-up", "Cache state", "Stream interval", "Length of answers"),
    *("Order and restarts", "Intervals and verdicts", "Settings", "Hardware", "Client", "Who and when", "Stale"),
)
VERDICT: Final = re.compile(
    r"reference|equal within \d+%|(?:faster|slower) by [\d.]+%|undecided|no verdict: .+|" + re.escape(UNSUPPORTED)
)
MOST_BYTES: Final = 64 * 2**20
Row = Mapping[str, str]


def check_table(path: Path) -> tuple[Finding, ...]:
    """All findings, what is wrong first."""
    if path.stat().st_size > MOST_BYTES:
        return (Finding("wrong", f"{path.stat().st_size} bytes, no table is that long"),)
    try:
        lines = path.read_text("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return (Finding("wrong", "no text in UTF-8"),)
    notes = [line[2:] for line in lines if line.startswith("# ")]
    reader = csv.DictReader((line for line in lines if not line.startswith("#")), strict=True)
    try:
        rows, columns = list(reader), list(reader.fieldnames or ())
    except csv.Error as error:
        return (Finding("wrong", f"line {reader.line_num}: no CSV: {error}"),)
    if not rows:
        return (Finding("wrong", "no row"),)
    wrong = [f"row {number}: {text}" for number, row in enumerate(rows, start=1) for text in _row(row)]
    lacks = [f"column {name}" for name in COLUMNS if name not in columns]
    lacks += [f"note {title!r}" for title in NOTES if not any(note.startswith(f"{title}:") for note in notes)]
    return (*(Finding("wrong", text) for text in (*wrong, *_rows(rows))), *(Finding("lacks", text) for text in lacks))


def _row(row: Row) -> Iterator[str]:
    """What a row says against itself."""
    if None in row or None in row.values():
        yield "has more or fewer cells than the header"
        return
    verdict = row.get("verdict", "")
    if "verdict" in row and not VERDICT.fullmatch(verdict):
        yield f"verdict {verdict!r} is none"
    if verdict == UNSUPPORTED:
        return
    yield from (f"{name} is empty" for name in KNOWN if row.get(name) == "")
    due, done, failed = (_number(row, f"requests_{name}") for name in ("due", "done", "failed"))
    if due is not None and done is not None and failed is not None and done + failed != due:
        yield f"{done:g} done and {failed:g} failed of {due:g} due"
    for name in row:
        yield from _interval(row, name)


def _interval(row: Row, name: str) -> Iterator[str]:
    """`x_low` and `x_low_s` are bounds of `x` and `x_s`."""
    found = re.fullmatch(r"(.+)_low(_s)?", name)
    if not found:
        return
    stem, unit = found[1], found[2] or ""
    try:
        low, value, high = (_number(row, f"{stem}{end}{unit}") for end in ("_low", "", "_high"))
    except ValueError as error:
        yield f"{stem}: {error}"
        return
    bounds = [v for v in (low, value, high) if v is not None]
    if bounds != sorted(bounds):
        yield f"{stem}{unit} {value:g} lies outside its interval" if value is not None else f"{stem}: interval reversed"


def _number(row: Row, name: str) -> float | None:
    """None where the cell is empty or not there. Raises ValueError for what is no number."""
    text = row.get(name) or ""
    if not text:
        return None
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no figure")
    return value


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    """What rows say against each other."""
    keys = [tuple(row.get(name, "") for name in ("workload", "level_kind", "level", "engine")) for row in rows]
    for key in dict.fromkeys(key for key in keys if keys.count(key) > 1):
        yield f"{' '.join(key)}: more than one row"
    for place in dict.fromkeys(key[:3] for key in keys if key[0]):
        here = [row for row, key in zip(rows, keys, strict=True) if key[:3] == place]
        if "verdict" in here[0] and not any(row["verdict"] == "reference" for row in here):
            yield f"{' '.join(place)}: no row is the reference"
