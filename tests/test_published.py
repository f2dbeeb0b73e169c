# SPDX-License-Identifier: Apache-2.0
"""The published table: every column and note that a stranger needs, with the records' figures."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from engines.contract import RowKind
from runners.gpu_meter import Clocks, GpuUse
from runners.load.proof import ClientProof
from runners.report.gpu_notes import energy_note
from runners.report.metrics import Quantile
from runners.report.opened import Results
from runners.report.published import published_rows
from runners.report.published_notes import notes
from runners.report.published_text import PARTS, published_csv, published_markdown
from runners.report.record import LedgerEntry, LifeRecord, Percentiles
from runners.self_check import SelfCheck
from tests.test_records import life, record, run

GPU = {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "memory_bytes": 150754820096}
HOST: dict[str, Any] = {
    "bakeoff": "0.1.0",
    "kernel": "6.1",
    "cpu": "A processor",
    "cpu_cores": 16,
    "memory_gib": 125.9,
    "gpus": [GPU],
    "checkpoint": {"sha256": "4a99" * 16, "revision": None},
    "environments": {"e": {"vllm": "0.20.2"}},
}
PROOF = ClientProof(
    send_lag_p50_s=0.0,
    send_lag_p99_s=0.0,
    lateness_p99_s=None,
    slot_idle_share=0.0,
    coalesced_share=0.0,
    kernel_stamps_share=1.0,
    cpu_s=0.1,
    waited_for_cpu_share=0.0,
    realtime=True,
    connects=1,
    over_cap=0,
    clock_drift_s=0.0,
)
CHECK = SelfCheck(streams=1, asked_events_per_s=450.0, reached_events_per_s=450.0, held=True, client=PROOF)


def dressed(one: LifeRecord, weight: str) -> LifeRecord:
    entries = {"weight dtype": weight, "KV dtype": "fp8", "tensor parallel": "1", "stream interval": "1"}
    return one.model_copy(
        update={
            "ledger": tuple(
                LedgerEntry(name=name, value=value, source="log", kind=RowKind.MUST_MATCH)
                for name, value in entries.items()
            ),
            "image_digest": "sha256:abc",
            "capabilities": {"notes": ["end of life: the path is gone after 1.2.1"]},
        }
    )


@pytest.fixture
def results() -> Results:
    """`a` at 100 and 200 tokens/s, `b` 1.5 times that, each on one GPU of 1.80 an hour that takes 300 W."""
    contenders = [{"name": name, "engine": "llamacpp_openai", "gpus": [0]} for name in "ab"]
    found = run(
        {"a": [100.0, 200.0], "b": [150.0, 300.0]},
        contenders=contenders,
        price_per_gpu_hour=1.8,
        declared={"weight dtype": "FP8 is the question"},
    )
    use = GpuUse(gpus=1, seconds=26.0, energy_j=7800.0, slowed_s={"power brake": 0.0}, power_capped_s=2.0)
    use = replace(use, clocks=Clocks(1800.0, 1755.0, 1980.0))
    cells = tuple(c.model_copy(update={"gpu": use}) for c in found.cells)
    lives = tuple(dressed(life(c), "bf16" if c.contender == "a" else "fp8") for c in cells)
    return Results(found.model_copy(update={"cells": cells, "lives": lives}), (HOST,), (CHECK,), {})


def test_a_row_by_hand(results: Results) -> None:
    """ISL and OSL are those of TRACES; one token takes 0.5 s; 7800 J for 52 tokens."""
    b = published_rows(results)[1]
    expected = {
        "engine": "b",
        "arrivals": "closed loop",
        "input_tokens_mean": 10.0,
        "output_tokens_mean": 4.0,
        "gpu": "NVIDIA H200",
        "gpus": 1,
        "weight_dtype": "fp8",
        "kv_dtype": "fp8",
        "tensor_parallel": "1",
        "image_digest": "sha256:abc",
        "end_of_life": "end of life: the path is gone after 1.2.1",
        "output_tokens_per_s_per_gpu": pytest.approx(150 * 2**0.5),
        "user_tokens_per_s": pytest.approx(2.0),
        "ttft_visible_p50_low_s": pytest.approx(0.5),
        "power_w": pytest.approx(300.0),
        "joules_per_output_token": pytest.approx(150.0),
        "cost_per_million_output": pytest.approx(1.8 / 3600 / (150 * 2**0.5) * 1e6),
        "client_headroom": pytest.approx(450 / (150 * 2**0.5)),
        "ratio": pytest.approx(1.5),
        "verdict": "faster by 50.0%",
    }
    assert {name: b[name] for name in expected} == expected


def test_markdown_has_each_part_and_numbers_its_notes(results: Results) -> None:
    told = notes(results, "The lab")
    text = published_markdown("a run", ["b is faster."], published_rows(results), told)
    assert text.startswith("# a run\n\n- b is faster.\n\n## Verdicts\n")
    for part in PARTS:
        assert f"## {part.title}" in text
    assert "| w | 1 | b | 1.50 [1.50, 1.50] | 0.000 | faster by 50.0% | - | 2.1 x | 0.00 | demo; " in text
    number = 1 + [note.key for note in told].index("hardware")
    assert f"| GPU x n ({number}) |" in text
    assert f"\n{number}. **Hardware.** A processor, 16 cores" in text
    assert "n too small" in text
    assert "NVIDIA H200 x 1" in text


def test_the_notes_say_what_must_be_known(results: Results) -> None:
    told = {note.key: note.text for note in notes(results, "The lab")}
    assert "Unequal to a: b: weight dtype: fp8 against bfloat16 (FP8 is the question)." in told["unequal"]
    assert "a 1, b 1" in told["stream"]
    assert told["who"] == "Run by The lab on 2026-01-01 with bakeoff 0.1.0."
    assert told["age"].startswith("After 2026-06-30, ")
    assert "450 of 450 events/s at 1 streams, held" in told["client"]
    assert "Price of an hour: a 1.8, b 1.8." in told["cost"]
    assert "forced" in told["length"]
    assert "2 blocks; each starts every contender once, in an order drawn from seed 0, balanced" in told["order"]
    assert "clock" not in told


def test_an_engine_clock_is_marked(results: Results) -> None:
    told = Percentiles(p50=Quantile(0.25, 0.25, 0.25), p95=Quantile(None, None, None), p99=Quantile(None, None, None))
    cells = tuple(
        c.model_copy(update={"summary": c.summary.model_copy(update={"ttft_engine": told})}) for c in results.run.cells
    )
    timed = replace(results, run=results.run.model_copy(update={"cells": cells}))
    found = notes(timed)
    number = 1 + [note.key for note in found].index("clock")
    assert f"engine clock TTFT p50 ms ({number})" in published_markdown("t", [], published_rows(timed), found)


def test_csv_reads_back(results: Results) -> None:
    text = published_csv(published_rows(results), notes(results))
    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    assert comments[0].startswith("# Definitions: TTFT runs from")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[len(comments) :]))))
    assert [row["engine"] for row in rows] == ["a", "b"]
    assert float(rows[1]["power_w_low"]) == pytest.approx(300.0)
    assert rows[1]["ttft_visible_p99_s"] == ""
    assert rows[1]["ttft_visible_p99_reason"] == "n too small (12 of 368)"


def test_records_without_machine_or_lives_have_dashes() -> None:
    bare = Results(run({"a": [100.0, 200.0], "b": [150.0, 300.0]}), (), (), {})
    row = published_rows(bare)[0]
    assert (row["gpu"], row["power_w"], row["client_headroom"], row["image_digest"]) == (None, None, None, None)
    told = {note.key: note.text for note in notes(bare)}
    assert told["hardware"] == "Not recorded. Clocks and power cap were not recorded."
    assert "age" not in told
    assert record("a", 1, 1.0).gpu is None


def test_clocks_are_told(results: Results) -> None:
    """Four cells of 2 s at the cap."""
    told = energy_note(results.run)
    assert "held down by heat or power brake for 0.0 s in all, 8.0 s were at the power cap." in told
    assert told.endswith("Multiprocessor clocks while driving, MHz: a 1800 (lowest 1755), b 1800 (lowest 1755).")
