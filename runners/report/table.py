# SPDX-License-Identifier: Apache-2.0
"""All records of a run as one table: a row per contender, workload and level."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from engines.contract import RowKind
from runners.config import Bakeoff
from runners.config_workload import Level
from runners.report import markdown
from runners.report.blocks import exclusions, without_excluded
from runners.report.compare import geometric_of_all
from runners.report.decisions import FEWEST_BLOCKS, without_verdict
from runners.report.equivalence import equivalence_of
from runners.report.equivalence_text import in_table
from runners.report.figures import number, percentage, whole
from runners.report.ledger import ComparedRow, ledger_of
from runners.report.lengths import length_differences, reasons_of, withhold_latency
from runners.report.primary import primary_of
from runners.report.record import CellRecord, Percentiles, Run, Unsupported
from runners.report.verdicts import Comparison, judge, withhold

UNSUPPORTED: Final = "unsupported on this engine"
PERCENTS: Final[tuple[Literal[50, 95, 99], ...]] = (50, 95, 99)

Row = dict[str, Any]


def tabulate(run: Run) -> list[Row]:
    """Rows in the order of the config. Figures are geometric means over blocks, counts are sums."""
    bakeoff = Bakeoff.model_validate(run.config)
    kept = without_excluded(run)
    blocks = bakeoff.blocks if not run.looks else len({c.block for c in run.cells})
    blocks -= len(exclusions(run))
    rows: list[Row] = []
    for workload in bakeoff.workloads:
        of_workload = [c for c in kept.cells if c.workload == workload.name]
        found = [
            _row(_of(of_workload, contender.name, level), blocks)
            for level in workload.levels
            for contender in bakeoff.contenders
            if _of(of_workload, contender.name, level)
        ]
        rows += found
    equivalence, ledger = equivalence_of(run), ledger_of(kept)
    lengths = length_differences(kept)
    comparisons = withhold(judge(kept), without_verdict(equivalence, ledger))
    _judge(rows, withhold_latency(comparisons, lengths), bakeoff.reference_name)
    for row, difference in itertools.product(rows, lengths):
        if difference.concerns(row["workload"], row["engine"], row["level_kind"], row["level"]):
            row["flags"].append(difference.flag)
    _note_unequal(rows, ledger)
    for row, one in itertools.product(rows, equivalence):
        if row["engine"] == one.contender:
            row |= in_table(one)
    return rows + [_unsupported_row(one, rows[0] if rows else ()) for one in run.unsupported]


def _unsupported_row(one: Unsupported, columns: Iterable[str]) -> Row:
    """A contender without figures: unknown in every column that the others have."""
    known: Row = {
        "engine": one.contender,
        "engine_kind": one.engine_kind,
        "verdict": UNSUPPORTED,
        "flags": [one.reason],
    }
    return dict.fromkeys(columns) | known


def _of(cells: Sequence[CellRecord], contender: str, level: Level) -> list[CellRecord]:
    return [c for c in cells if (c.contender, c.level_kind, c.level) == (contender, level.kind, level.value)]


def _level(row: Row) -> Level:
    return Level(row["level_kind"], row["level"])


def _row(cells: Sequence[CellRecord], blocks: int) -> Row:
    first = cells[0]
    summaries = [c.summary for c in cells]
    rate = geometric_of_all([s.output_tokens_per_s for s in summaries])
    return {
        "engine": first.contender,
        "engine_kind": first.engine_kind,
        "engine_version": first.engine_version,
        "front_end": first.front_end,
        "workload": first.workload,
        "level": first.level,
        "level_kind": first.level_kind,
        "blocks": len(cells),
        "requests_due": sum(s.requests_due for s in summaries),
        "requests_done": sum(s.requests_done for s in summaries),
        "requests_failed": sum(s.requests_failed for s in summaries),
        "requests_in_window": sum(s.requests_in_window for s in summaries),
        "token_mismatches": sum(s.token_mismatches for s in summaries),
        "prompt_tokens": _sum([s.prompt_tokens for s in summaries]),
        "output_tokens": _sum([s.output_tokens for s in summaries]),
        "client_output_tokens": _sum([s.client_output_tokens for s in summaries]),
        "answer_tokens_mean": _arithmetic([s.answer_lengths.mean if s.answer_lengths else None for s in summaries]),
        "finish_reasons": reasons_of(cells),
        "window_s": _sum([s.window_s for s in summaries]),
        "requests_in_flight": _arithmetic([s.requests_in_flight for s in summaries]),
        "output_tokens_per_s": rate.value if rate else None,
        "output_tokens_per_s_low": rate.low if rate else None,
        "output_tokens_per_s_high": rate.high if rate else None,
        "output_tokens_per_s_whole_run": _value([s.output_tokens_per_s_whole_run for s in summaries]),
        **_percentile_columns("ttft_visible", [s.ttft_visible for s in summaries]),
        **_percentile_columns("ttft_token", [s.ttft_token for s in summaries]),
        **_percentile_columns("tpot", [s.tpot for s in summaries]),
        **_percentile_columns("ttft_engine", [s.ttft_engine for s in summaries]),
        **_percentile_columns("tpot_engine", [s.tpot_engine for s in summaries]),
        **_percentile_columns("e2e", [s.e2e for s in summaries]),
        "goodput": _arithmetic([s.goodput for s in summaries]),
        "cache_hit_rate": _arithmetic([s.cache_hit_rate for s in summaries]),
        "cache_expected": _arithmetic([s.cache_expected for s in summaries]),
        "acceptance_rate": _arithmetic([s.acceptance_rate for s in summaries]),
        "acceptance_length": _arithmetic([s.acceptance_length for s in summaries]),
        "tokens_per_step": _arithmetic([s.tokens_per_step for s in summaries]),
        "start_up_s": _value([c.start_up_s for c in cells]),
        "build_s": _largest([c.build_s for c in cells]),
        "send_lag_p99_s": _largest([s.client.send_lag_p99_s for s in summaries]),
        "slot_idle_share": _largest([s.client.slot_idle_share for s in summaries]),
        "primary_metric": primary_of(first).name,
        "ratio": None,
        "ratio_low": None,
        "ratio_high": None,
        "p_holm": None,
        "verdict": None,
        "identical_answers": None,
        "same_answers": None,
        "flags": _flags(cells, blocks),
    }


def _percentile_columns(name: str, found: Sequence[Percentiles | None]) -> Row:
    """Geometric means over blocks; None, and a reason, where some block has too few requests."""
    columns: Row = {}
    for percent in PERCENTS:
        quantiles = [None if p is None else p.at(percent) for p in found]
        reasons = [q.reason for q in quantiles if q is not None and q.reason]
        mean = geometric_of_all([q.value if q else None for q in quantiles])
        columns[f"{name}_p{percent}_s"] = mean.value if mean else None
        columns[f"{name}_p{percent}_low_s"] = mean.low if mean else None
        columns[f"{name}_p{percent}_high_s"] = mean.high if mean else None
        columns[f"{name}_p{percent}_reason"] = reasons[0] if reasons else None
    return columns


def _value(values: Sequence[float | None]) -> float | None:
    mean = geometric_of_all(values)
    return mean.value if mean else None


def _arithmetic(values: Sequence[float | None]) -> float | None:
    """Mean of shares, which may be 0; None where some block does not report."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return max(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _flags(cells: Sequence[CellRecord], blocks: int) -> list[str]:
    """Codes with the number of blocks that raised them, and what holds for the whole run of so many blocks."""
    codes: dict[str, int] = {}
    for cell in cells:
        for flag in cell.summary.flags:
            codes[flag.code] = codes.get(flag.code, 0) + 1
    flags = [f"{code} ({count} of {len(cells)} blocks)" for code, count in codes.items()]
    if blocks < FEWEST_BLOCKS:
        flags.append("demo")
    if len(cells) < blocks:
        flags.append(f"{blocks - len(cells)} blocks missing")
    if any(cell.runner == "attach" for cell in cells):
        flags.append("never restarted")
    return flags


def _judge(rows: Sequence[Row], comparisons: Sequence[Comparison], reference: str) -> None:
    """Each row's ratio to the reference at its level, with its verdict."""
    found = {(c.workload, c.contender, c.level_kind, c.level): c for c in comparisons}
    for row in rows:
        if row["engine"] == reference:
            row["verdict"] = "reference"
            continue
        comparison = found[row["workload"], row["engine"], row["level_kind"], row["level"]]
        row["verdict"], row["p_holm"] = comparison.verdict, comparison.p_holm
        if comparison.ratio is not None:
            ratio = comparison.ratio
            row["ratio"], row["ratio_low"], row["ratio_high"] = ratio.value, ratio.low, ratio.high


def _note_unequal(rows: Sequence[Row], ledger: Sequence[ComparedRow]) -> None:
    """Footnotes of the ledger: in what a contender is not as the reference."""
    for row in rows:
        unequal = [one for one in ledger if one.kind == RowKind.MUST_MATCH and row["engine"] in one.unequal_to]
        row["flags"] += [f"{one.state}: {one.name}" for one in unequal]


def as_csv(rows: Sequence[Row]) -> str:
    """CSV with a header; flags joined by semicolons, unknowns empty."""
    import pandas as pd

    frame = pd.DataFrame([{**row, "flags": "; ".join(row["flags"])} for row in rows])
    return str(frame.to_csv(index=False, lineterminator="\n"))


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps(rows, indent=2, allow_nan=False) + "\n"


MARKDOWN_COLUMNS: Final = (
    *(
        "engine",
        "version",
        "workload",
        "level",
        "blocks",
        "done / due",
        "failed",
        "tokens in / out",
        "mismatches",
        "tok/s",
    ),
    *("tok/s whole run", "TTFT p50 ms", "p95", "p99", "TPOT p50 ms", "engine clock TTFT p50 ms", "TPOT p50 ms"),
    *("E2E p50 ms", "cache hits", "acceptance", "length", "same answers", "ratio [95%]", "p Holm", "verdict"),
    *("build s", "start s", "send lag p99 ms", "flags"),
)


def as_markdown(rows: Sequence[Row]) -> str:
    """The table for people. TTFT is that of the first visible text; a dash is unknown, never 0."""
    return "\n".join(markdown.table(MARKDOWN_COLUMNS, [_cells(row) for row in rows])) + "\n"


def _cells(row: Row) -> list[str]:
    if row["verdict"] == UNSUPPORTED:
        told = {"engine": row["engine"], "verdict": UNSUPPORTED, "flags": "; ".join(row["flags"])}
        return [told.get(column, "-") for column in MARKDOWN_COLUMNS]
    return [
        row["engine"],
        row["engine_version"] or "-",
        row["workload"],
        str(_level(row)),
        str(row["blocks"]),
        f"{row['requests_done']} / {row['requests_due']}",
        str(row["requests_failed"]),
        f"{whole(row['prompt_tokens'])} / {whole(row['output_tokens'])}",
        str(row["token_mismatches"]),
        number(row["output_tokens_per_s"], 0),
        number(row["output_tokens_per_s_whole_run"], 0),
        *(milliseconds(row, f"ttft_visible_{p}") for p in ("p50", "p95", "p99")),
        milliseconds(row, "tpot_p50"),
        milliseconds(row, "ttft_engine_p50"),
        milliseconds(row, "tpot_engine_p50"),
        milliseconds(row, "e2e_p50"),
        percentage(row["cache_hit_rate"]),
        percentage(row["acceptance_rate"]),
        number(row["acceptance_length"], 2),
        row["same_answers"] or "-",
        _ratio(row),
        number(row["p_holm"], 3),
        row["verdict"] or "-",
        number(row["build_s"], 1),
        number(row["start_up_s"], 1),
        number(row["send_lag_p99_s"], 2, 1e3),
        "; ".join(row["flags"]) or "-",
    ]


def milliseconds(row: Row, name: str) -> str:
    """A percentile, or the reason why there is none."""
    reason = row[f"{name}_reason"]
    if row[f"{name}_s"] is None and reason:
        return next((known for known in ("n too small", "one event") if reason.startswith(known)), "failed")
    return number(row[f"{name}_s"], 1, 1e3)


def _ratio(row: Row) -> str:
    if row["ratio"] is None:
        return "-"
    if row["ratio_low"] is None:
        return f"{row['ratio']:.3f}"
    return f"{row['ratio']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]"
