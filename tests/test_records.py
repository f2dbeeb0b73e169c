# SPDX-License-Identifier: Apache-2.0
"""Records, summaries and the table, on cells made by hand."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
import yaml

from engines.contract import Capabilities, Counters
from runners.config_workload import Level, Span, WorkloadConfig
from runners.load.load import Driven
from runners.load.trace import Trace
from runners.report.record import CellRecord, LifeRecord, Phases, Run, Summary
from runners.report.schemas import schema_texts
from runners.report.summary import Measured, summarize
from runners.report.table import as_csv, as_json, as_markdown, tabulate
from runners.report.trace_table import write_traces
from runners.report.written import AlreadyWrittenError, write_model, write_once
from tests.test_config import GOOD
from tests.test_metrics import TRACE, timeline

WORKLOAD = WorkloadConfig(
    name="w", input_tokens=Span(low=10, high=10), output_tokens=Span(low=4, high=4), concurrency=(1,)
)
CAPABILITIES = Capabilities("m", "1.2", "front", 512, True, True, True, False)


def trace(index: int, due_s: float) -> Trace:
    """Half a second to the first token, then three more, half a second apart: 2 s in all."""
    times = [due_s + 0.5 * k for k in (1, 2, 3, 4)]
    return replace(
        TRACE,
        index=index,
        due_s=due_s,
        sent_s=due_s,
        end_s=due_s + 2.0,
        timeline=timeline(*zip(times, times, (1, 2, 3, 4), strict=True)),
        visible_s=due_s + 0.5,
        max_tokens=4,
        server_tokens=4,
        client_tokens=4,
        cached_tokens=5,
    )


def summary(traces: Sequence[Trace], **changes: Any) -> Summary:
    fields: dict[str, Any] = {
        "workload": WORKLOAD,
        "level": Level("concurrency", 1),
        "margin": 0.05,
        "driven": Driven(steady_s=2.0, last_send_s=24.0, end_s=26.0),
        "traces": traces,
        "capabilities": CAPABILITIES,
        "before": Counters(requests=1.0),
        "after": Counters(requests=14.0),
    }
    return summarize(Measured(**{**fields, **changes}))


TRACES = [trace(i, 2.0 * i) for i in range(13)]
"""One slot without a pause: 13 requests of 2 s; the window from 2 to 24 s holds 12 of them."""


def test_a_cell_by_hand() -> None:
    found = summary(TRACES)
    assert (found.requests_due, found.requests_done, found.requests_failed) == (13, 13, 0)
    assert found.requests_in_window == 12
    assert (found.prompt_tokens, found.output_tokens, found.client_output_tokens) == (130, 52, 52)
    assert (found.window_s, found.window_in_e2e) == (22.0, 11.0)
    assert found.output_tokens_per_s == 2.0
    assert found.output_tokens_per_s_whole_run == 2.0
    assert found.ttft_visible.p50.value == 0.5
    assert found.tpot.p50.value == 0.5
    assert found.e2e.p50.value == 2.0
    assert found.ttft_visible.p95.reason == "n too small (12 of 72)"
    assert found.cache_hit_rate == 0.5
    assert found.acceptance_rate is None
    assert found.client.send_lag_p99_s == 0.0
    assert found.flags == ()


def test_tokens_in_a_window_that_cuts_requests() -> None:
    """At 2.0 s the fourth token of the first request comes, at 24.0 s the last of the twelfth is out."""
    driven = Driven(steady_s=2.25, last_send_s=24.25, end_s=26.0)
    assert summary(TRACES, driven=driven).output_tokens_per_s == 2.0


def test_speculation_by_counters() -> None:
    before = Counters(drafts=10.0, drafted_tokens=30.0, accepted_tokens=15.0)
    after = Counters(drafts=20.0, drafted_tokens=70.0, accepted_tokens=25.0)
    found = summary(TRACES, before=before, after=after)
    assert found.acceptance_rate == 0.25
    assert found.acceptance_length == 2.0


def test_cache_by_counters_where_requests_do_not_say() -> None:
    silent = [replace(t, cached_tokens=None) for t in TRACES]
    before, after = Counters(cached_tokens=0.0, prompt_tokens=100.0), Counters(cached_tokens=30.0, prompt_tokens=220.0)
    assert summary(silent, before=before, after=after).cache_hit_rate == 0.25
    assert summary(silent).cache_hit_rate is None


def codes(found: Summary) -> list[str]:
    return [flag.code for flag in found.flags]


def test_flags() -> None:
    failed = [replace(TRACES[0], error="boom"), *TRACES[1:]]
    found = summary(failed)
    assert codes(found) == ["failed requests", "foreign traffic"]
    assert found.flags[0].detail == "1; the first: boom"
    assert found.flags[1].detail == "the engine finished 13 requests, 12 were ours"
    assert codes(summary([replace(t, client_tokens=3) for t in TRACES])) == ["token mismatch"]
    assert codes(summary(TRACES, level=Level("concurrency", 2))) == ["lockstep"]
    assert codes(summary(TRACES, driven=Driven(steady_s=2.0, last_send_s=20.0, end_s=26.0))) == ["window too short"]
    assert codes(summary(TRACES, driven=Driven(steady_s=None, end_s=26.0))) == ["window too short"]
    idle = Driven(steady_s=2.0, last_send_s=24.0, end_s=26.0, idle_slot_s=0.5)
    assert codes(summary(TRACES, driven=idle)) == ["client-bound throughput"]
    late = [replace(t, sent_s=t.due_s + 0.026) for t in TRACES]
    assert codes(summary(late)) == ["client-bound latency"]
    drafting = replace(CAPABILITIES, speculates=True)
    assert codes(summary(TRACES, capabilities=drafting)) == ["speculation not reported"]


def record(contender: str, block: int, rate: float, level: int = 1) -> CellRecord:
    found = summary(TRACES).model_copy(update={"output_tokens_per_s": rate})
    return CellRecord(
        block=block,
        position=1,
        contender=contender,
        engine_kind="llamacpp_openai",
        engine_version="1.2",
        front_end="front",
        runner="process",
        transport="http",
        workload="w",
        level=level,
        level_kind="concurrency",
        started_at="2026-01-01T00:00:00+00:00",
        build_s=None,
        start_up_s=2.0,
        prompts_sha256="0",
        counters_before=Counters(),
        counters_after=Counters(),
        gpu=None,
        phases=Phases(warm_up_s=1.0, drive_s=26.0, overhead_s=0.1),
        summary=found,
    )


def life(cell: CellRecord) -> LifeRecord:
    return LifeRecord(
        block=cell.block,
        position=1,
        contender=cell.contender,
        engine_kind=cell.engine_kind,
        engine_version="1.2",
        front_end="front",
        runner="process",
        transport="http",
        environment="e",
        started_at="2026-01-01T00:00:00+00:00",
        ended_at="2026-01-01T00:10:00+00:00",
        gpus=(),
        start_up_s=2.0,
        build_s=None,
        capabilities={},
        ledger=(),
        canary={},
        cells=("w-c1",),
    )


def run(rates: dict[str, list[float]], **changes: Any) -> Run:
    config = {**GOOD, "blocks": len(rates["a"]), **changes}
    cells = [record(name, block, rate) for name, of in rates.items() for block, rate in enumerate(of, start=1)]
    return Run(config=yaml.safe_load(yaml.safe_dump(config)), lives=(), cells=tuple(cells))


def test_ratio_is_paired_within_blocks() -> None:
    """The blocks differ twofold, the ratio is 1.5 in each: no spread, so the interval is the point."""
    rows = tabulate(run({"a": [100.0, 200.0], "b": [150.0, 300.0]}))
    assert [(row["engine"], row["verdict"]) for row in rows] == [("a", "reference"), ("b", "faster by 50.0%")]
    b = rows[1]
    assert b["ratio"] == pytest.approx(1.5)
    assert b["ratio_low"] == pytest.approx(1.5)
    assert b["ratio_high"] == pytest.approx(1.5)
    assert b["p_holm"] < 1e-6
    assert rows[0]["output_tokens_per_s"] == pytest.approx(100.0 * 2**0.5)
    assert b["blocks"] == 2
    assert b["requests_due"] == 26
    assert b["flags"] == ["demo"]


def test_a_missing_block_is_said_and_not_paired() -> None:
    whole = run({"a": [100.0, 100.0, 100.0], "b": [110.0, 110.0, 110.0]})
    cut = whole.model_copy(update={"cells": whole.cells[:-1]})
    b = tabulate(cut)[1]
    assert b["blocks"] == 2
    assert "1 blocks missing" in b["flags"]
    assert b["ratio"] == pytest.approx(1.1)


def test_no_verdict_rests_on_a_short_window() -> None:
    whole = run({"a": [100.0, 100.0], "b": [150.0, 150.0]})
    short = summary(TRACES, driven=Driven(steady_s=2.0, last_send_s=20.0, end_s=26.0))
    cells = (*whole.cells[:-1], whole.cells[-1].model_copy(update={"summary": short}))
    b = tabulate(whole.model_copy(update={"cells": cells}))[1]
    assert b["verdict"] == "no verdict: window too short (b, block 2)"
    assert b["ratio"] is not None


PROMISED = (
    *("engine", "engine_kind", "engine_version", "front_end", "workload", "level", "level_kind", "blocks"),
    *("requests_due", "requests_done", "requests_failed", "token_mismatches", "prompt_tokens", "output_tokens"),
    *("output_tokens_per_s", "ttft_visible_p50_s", "ttft_visible_p95_s", "tpot_p50_s", "cache_hit_rate"),
    *("acceptance_rate", "acceptance_length", "primary_metric", "ratio", "ratio_low", "ratio_high", "p_holm"),
    *("verdict", "flags"),
)


def test_the_three_forms() -> None:
    rows = tabulate(run({"a": [100.0, 104.0], "b": [150.0, 300.0]}))
    columns = next(csv.reader(io.StringIO(as_csv(rows))))
    for name in PROMISED:
        assert name in columns
    assert json.loads(as_json(rows))[1]["engine"] == "b"
    table = as_markdown(rows)
    assert "n too small" in table
    assert "| a | 1.2 | w | 1 | 2 | 26 / 26 | 0 | 260 / 104 | 0 | 102 |" in table
    assert "50.0%" in table


def test_results_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    write_once(path, "first")
    with pytest.raises(AlreadyWrittenError, match="never overwritten"):
        write_once(path, "second")
    assert path.read_text() == "first"
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_a_run_is_read_back_without_superseded_and_unfinished_lives(tmp_path: Path) -> None:
    write_once(tmp_path / "config.yaml", yaml.safe_dump(GOOD))
    for folder, finished in (("b01-a", True), ("b01-b", False), ("b01-b.superseded-1", True)):
        cell = record(folder[4], 1, 1.0)
        write_model(tmp_path / "lives" / folder / "w-c1.json", cell)
        if finished:
            write_model(tmp_path / "lives" / folder / "life.json", life(cell))
    found = Run.load(tmp_path)
    assert [cell.contender for cell in found.cells] == ["a"]
    assert found.cells[0] == record("a", 1, 1.0)


def test_records_obey_the_schema_that_is_shipped() -> None:
    shipped = (Path(__file__).parent.parent / "results" / "schemas" / "cell.schema.json").read_text()
    assert shipped == schema_texts()["cell.schema.json"]
    jsonschema.validate(json.loads(record("a", 1, 1.0).model_dump_json()), json.loads(shipped))


def test_traces_in_parquet(tmp_path: Path) -> None:
    write_traces(tmp_path / "t.parquet", TRACES[:2])
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert list(frame["due_s"]) == [0.0, 2.0]
    assert list(frame["tick_tokens"][1]) == [1, 2, 3, 4]
    assert list(frame["tick_at_s"][1]) == [2.5, 3.0, 3.5, 4.0]
    assert frame["error"].isna().all()
