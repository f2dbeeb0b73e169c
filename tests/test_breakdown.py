# SPDX-License-Identifier: Apache-2.0
"""Where the time went, by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest

from engines.contract import Answer, Capabilities, Counters, EngineTimes
from engines.registry import ENGINES
from runners.report.breakdown import breakdown, breakdown_lines
from runners.report.decisions import decide_run
from runners.report.decisions_text import decisions_markdown
from runners.report.record import Run, Summary
from tests.test_records import CAPABILITIES, TRACES, run, summary

COUNTED = {
    "before": Counters(timed_requests=2.0, queue_s=1.0, prefill_s=1.0, decode_s=1.0),
    "after": Counters(timed_requests=15.0, queue_s=2.3, prefill_s=3.6, decode_s=14.0),
}


def timed(queue_ms: int = 100, prefill_ms: int = 200, decode_ms: int = 1000, **changes: Any) -> Summary:
    """13 requests that the client saw take 0.5 s to the first token and 2 s in all; the engine's clock runs apart."""
    spans = EngineTimes.of_spans(queue_ms * 10**6, prefill_ms * 10**6, decode_ms * 10**6)
    far = EngineTimes(*(stamp + 10**15 for stamp in spans))
    return summary([replace(t, engine_times=far) for t in TRACES], **changes)


def of_cells(*summaries: Summary) -> Run:
    """A run of contender a, a block for each summary."""
    whole = run({"a": [1.0] * len(summaries), "b": [1.0] * len(summaries)})
    mine = [c for c in whole.cells if c.contender == "a"]
    cells = [c.model_copy(update={"summary": s}) for c, s in zip(mine, summaries, strict=True)]
    return whole.model_copy(update={"cells": tuple(cells)})


def test_a_cell_whose_requests_tell() -> None:
    """Of 2 s, 0.1 queued, 0.2 prefilled, 1.0 decoded: 0.7 are the front end's, 0.2 of them to the first token."""
    found = timed().delays
    assert found is not None
    assert found.of == "requests"
    assert (found.queue_s, found.prefill_s, found.decode_s) == pytest.approx((0.1, 0.2, 1.0))
    assert (found.front_end_s, found.front_first_s, found.front_rest_s) == pytest.approx((0.7, 0.2, 0.5))
    assert found.queue is not None and found.front_end is not None
    assert (found.queue.p50.value, found.front_end.p50.value) == pytest.approx((0.1, 0.7))
    assert found.front_end.p95.reason == "n too small (12 of 72)"


def test_each_requests_own_times_come_before_counters() -> None:
    found = timed(50, 100, 1200, **COUNTED).delays
    assert found is not None
    assert found.of == "requests"
    assert (found.queue_s, found.front_end_s) == pytest.approx((0.05, 0.65))
    some = [replace(t, engine_times=None if t.index == 5 else EngineTimes(0, 1, 2, 3)) for t in TRACES]
    counted = summary(some, **COUNTED).delays
    assert counted is not None
    assert (counted.of, counted.queue) == ("counters", None)
    assert counted.queue_s == pytest.approx(0.1)
    assert summary(some).delays is None


def test_a_stream_that_comes_whole_has_one_front_end() -> None:
    found = timed(capabilities=replace(CAPABILITIES, incremental=False)).delays
    assert found is not None
    assert (found.ttft_s, found.front_first_s, found.front_rest_s) == (None, None, None)
    assert found.front_end_s == pytest.approx(0.7)


def test_blocks_are_averaged_and_layers_add_up() -> None:
    (found,) = breakdown(of_cells(timed(100), timed(300)))
    assert (found.queue.mean_s, found.queue.p50_s) == pytest.approx((0.2, 0.03**0.5))
    assert found.queue.p95_s is None
    layers = (found.queue, found.prefill, found.decode, found.front_end)
    assert sum(layer.mean_s for layer in layers) == pytest.approx(found.e2e_s) == 2.0
    assert (found.to_first_s, found.after_first_s) == pytest.approx((0.1, 0.5))
    assert breakdown(of_cells(timed(), summary(TRACES))) == ()


def test_it_is_printed_with_the_verdicts() -> None:
    run_ = of_cells(timed(), timed())
    line = (
        "| a | w | 1 | 2000.0 | 100.0 (100.0, -) | 200.0 (200.0, -) | 1000.0 (1000.0, -) | 700.0 (700.0, -) | 200.0 | "
        "500.0 | each request's |"
    )
    assert line in breakdown_lines(breakdown(run_))
    assert f"## Where the time went\n\n{breakdown_lines(breakdown(run_))[0]}" in decisions_markdown(decide_run(run_))
    counted = breakdown_lines(breakdown(of_cells(summary(TRACES, **COUNTED), summary(TRACES, **COUNTED))))
    assert "| a | w | 1 | 2000.0 | 100.0 | 200.0 | 1000.0 | 700.0 | 200.0 | 500.0 | counters |" in counted
    assert breakdown_lines(()) == []


WITH_USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    "metrics": {"queue_time_ms": 1.5, "time_to_first_token_ms": 20.0, "generation_time_ms": 300.0},
}


@pytest.mark.parametrize(
    ("engine", "event"),
    [
        ("vllm_openai", WITH_USAGE),
        ("openai_attach", WITH_USAGE),
        ("triton_vllm", {"text_output": "", "engine_spans_ns": [1500000, 20000000, 300000000]}),
    ],
)
def test_vllm_tells_each_requests_times(engine: str, event: dict[str, Any]) -> None:
    answer = Answer()
    capabilities = Capabilities("m", "0.32.0", "f", 512, True, True, True, False)
    ENGINES[engine].fold(answer, json.dumps(event).encode(), capabilities)
    assert answer.engine_times == (0, 1_500_000, 21_500_000, 321_500_000)


def test_vllm_without_a_scheduled_stamp_tells_nothing() -> None:
    answer = Answer()
    event = {"choices": [], "metrics": {"queue_time_ms": None, "time_to_first_token_ms": 20.0}}
    ENGINES["vllm_openai"].fold(answer, json.dumps(event).encode(), CAPABILITIES)
    assert answer.engine_times is None
