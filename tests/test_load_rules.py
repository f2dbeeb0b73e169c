# SPDX-License-Identifier: Apache-2.0
"""The rules of load and window, on engines whose true steady rate is known."""

from collections.abc import Callable

import pytest

from engines.contract import Capabilities, Counters, Prompt, Sampling
from engines.dialects import DIALECTS
from runners.cell import WINDOW_E2E
from runners.config_workload import Level, Span, WorkloadConfig
from runners.load.drive import drive
from runners.load.fold import Folding, fold_all
from runners.load.load import Arrivals, Driven, Load
from runners.load.pacing import constant
from runners.load.trace import Trace
from runners.report.record import Summary
from runners.report.summary import Measured, summarize
from tests.simulated_engine import call, lengths, simulated_time, transport_to

CAPABILITIES = Capabilities("m", "1", "f", 4096, False, False, False, False)


def driven(load: Load, step_s: Callable[[int], float], low: int, high: int, seed: int) -> tuple[Driven, list[Trace]]:
    prompts = (Prompt("p", 1, tokens, False, Sampling()) for tokens in lengths(low, high, seed))
    with simulated_time():
        raw = drive(load, prompts, call, transport_to(step_s))
    return raw, fold_all(raw, Folding(DIALECTS["triton-ensemble"].fold, needs_reason=False))


def summary(level: Level, raw: Driven, traces: list[Trace], low: int, high: int) -> Summary:
    levels = {"concurrency": (int(level.value),)} if level.kind == "concurrency" else {"rates": (level.value,)}
    workload = WorkloadConfig.model_validate(
        {"name": "w", "input_tokens": 1, "output_tokens": Span(low=low, high=high), **levels}
    )
    return summarize(Measured(workload, level, 0.05, raw, traces, CAPABILITIES, Counters(), Counters()))


def flat(requests: int) -> float:
    """A step takes 10 ms whatever is in it."""
    return 0.01


def loaded(requests: int) -> float:
    """A step takes longer the more is in it, so a half-empty batch shows another rate."""
    return 0.004 + 0.0005 * requests


@pytest.mark.parametrize("step_s", [flat, loaded])
@pytest.mark.parametrize(("slots", "low", "high"), [(1, 20, 60), (8, 10, 200), (64, 64, 192), (64, 100, 100)])
@pytest.mark.parametrize("first_guess", [0.5, 2.0])
def test_the_window_sees_the_steady_rate(
    step_s: Callable[[int], float], slots: int, low: int, high: int, first_guess: float
) -> None:
    """With every slot busy, each step gives one token a slot: slots / step. The expected request time,
    over which slots start, may be wrong by half or by twice."""
    true_rate = slots / step_s(slots)
    request_s = (low + high) / 2 * step_s(slots)
    load = Load(slots, first_guess * request_s, 1.0, WINDOW_E2E, 1e9, 1e9)
    raw, traces = driven(load, step_s, low, high, seed=slots)
    found = summary(Level("concurrency", slots), raw, traces, low, high)
    assert not [flag for flag in found.flags if flag.no_verdict]
    assert found.output_tokens_per_s == pytest.approx(true_rate, rel=0.02)
    assert found.requests_in_flight == pytest.approx(slots, rel=0.02)
    assert [flag.code for flag in found.flags] == (["lockstep"] if low == high and slots > 1 else [])


def test_ramp_and_drain_would_have_shown_another_rate() -> None:
    """64 slots that start over three request times: the whole run is far below the window."""
    request_s = 128 * loaded(64)
    raw, traces = driven(Load(64, 3 * request_s, 1.0, WINDOW_E2E, 1e9, 1e9), loaded, 64, 192, seed=1)
    found = summary(Level("concurrency", 64), raw, traces, 64, 192)
    assert found.output_tokens_per_s == pytest.approx(64 / loaded(64), rel=0.02)
    assert found.output_tokens_per_s_whole_run is not None
    assert found.output_tokens_per_s_whole_run < 0.97 * 64 / loaded(64)


def test_a_window_of_few_request_times_is_flagged() -> None:
    raw, traces = driven(Load(64, 1.28, 2.0, 0.0, 1e9, 1e9), flat, 64, 192, seed=2)
    found = summary(Level("concurrency", 64), raw, traces, 64, 192)
    assert [flag.code for flag in found.flags] == ["window too short"]


def test_open_loop_sees_the_arrivals_and_not_the_ramp() -> None:
    """4 requests a second of 50 tokens, of 10 ms each, the first after the step under way: 200 tokens/s."""
    arrivals = Arrivals(constant(4.0), expected=100, warm=4, ramp_s=5.0)
    raw, traces = driven(Load(64, 0.0, 20.0, WINDOW_E2E, 1e9, 1e9, arrivals=arrivals), flat, 50, 50, seed=3)
    found = summary(Level("rate", 4.0), raw, traces, 50, 50)
    assert raw.steady_s == pytest.approx(5.0)
    assert raw.last_send_s == pytest.approx(25.0)
    assert len(traces) == 101
    assert found.flags == ()
    assert found.output_tokens_per_s == pytest.approx(200.0, rel=0.02)
    assert found.requests_in_flight == pytest.approx(4.0 * 0.51, rel=0.001)


def test_a_saturated_engine_is_told_and_ends() -> None:
    """Steps that take 20 ms a request: 50 tokens/s at most, and 100 are due; 32 may be in flight."""
    arrivals = Arrivals(constant(2.0), expected=100, ramp_s=5.0)
    raw, traces = driven(Load(32, 0.0, 20.0, WINDOW_E2E, 1e9, 1e9, arrivals=arrivals), lambda n: 0.02 * n, 50, 50, 4)
    found = summary(Level("rate", 2.0), raw, traces, 50, 50)
    assert [flag.code for flag in found.flags if flag.no_verdict] == ["window too short", "saturated"]
    assert "in-flight cap" in [flag.code for flag in found.flags]
    assert found.output_tokens_per_s == pytest.approx(50.0, rel=0.02)
    waited = [t.sent_s - t.due_s for t in traces if t.sent_s is not None]
    assert max(waited) == pytest.approx(20.0, abs=1.0)
    never = [t for t in traces if t.error == "never sent: 32 requests were in flight for 20 s"]
    assert len(never) == sum(t.sent_s is None for t in traces) > 0
    assert len(traces) == 2 * (5 + 4 * 20) + 1
