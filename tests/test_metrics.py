# SPDX-License-Identifier: Apache-2.0
"""Formulas, by hand."""

import math
from dataclasses import replace

import pytest

from runners.load.trace import Timeline, Trace
from runners.report import metrics
from runners.report.metrics import Quantile, quantile


def timeline(*events: tuple[float, float, int]) -> Timeline:
    """From time by the kernel, time by the client, tokens so far."""
    made = Timeline()
    for event in events:
        made.add(*event)
    return made


TRACE = Trace(
    index=0,
    slot=0,
    request_id="r",
    due_s=1.0,
    sent_s=1.25,
    end_s=4.0,
    input_tokens=10,
    max_tokens=7,
    timeline=timeline((2.0, 2.5, 1), (2.5, 2.75, 3), (3.5, 3.5, 7)),
    visible_s=2.5,
    prompt_tokens=10,
    cached_tokens=4,
    server_tokens=7,
    client_tokens=7,
    finish_reason="length",
    status=200,
    error=None,
    events=3,
    coalesced=0,
    received_bytes=300,
    reads=3,
    stamped_reads=3,
)


def test_times_run_from_the_due_time_and_use_kernel_stamps() -> None:
    assert metrics.ttft_token_s(TRACE) == 1.0
    assert metrics.ttft_visible_s(TRACE) == 1.5
    assert metrics.e2e_s(TRACE) == 2.5


def test_tpot_leaves_out_the_tokens_of_the_first_event() -> None:
    """(3.5 - 2.0) s for 7 - 1 tokens."""
    assert metrics.tpot_s(TRACE) == 0.25
    assert metrics.tpot_s(replace(TRACE, timeline=timeline((2.0, 2.0, 7)))) is None


def test_a_failed_request_counts_as_infinite() -> None:
    failed = replace(TRACE, error="stalled")
    assert metrics.ttft_token_s(failed) == metrics.ttft_visible_s(failed) == metrics.e2e_s(failed) == math.inf
    assert metrics.tpot_s(failed) == math.inf


def test_tokens_between_counts_by_time_and_skips_failures() -> None:
    assert metrics.tokens_between([TRACE], 2.0, 3.0) == 3
    assert metrics.tokens_between([TRACE], 2.5, 3.5) == 2
    assert metrics.tokens_between([TRACE, replace(TRACE, error="x")], 0.0, 9.0) == 7


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_smallest_n(q: float, n: int) -> None:
    """q^n <= 0.025 for the first time."""
    assert q**n <= 0.025 < q ** (n - 1)
    assert quantile([1.0] * (n - 1), q) == Quantile(None, None, None, f"n too small ({n - 1} of {n})")
    assert quantile([1.0] * n, q) == Quantile(1.0, 1.0, 1.0)


def test_median_of_ten() -> None:
    """Ranks 2 and 9: P(Bin(10, 1/2) <= 1) = 11/1024 <= 0.025 < P(<= 2) = 56/1024."""
    values = [float(v) for v in (3, 1, 4, 10, 5, 9, 2, 6, 8, 7)]
    assert quantile(values, 0.5) == Quantile(5.0, 2.0, 9.0)


def test_failures_push_percentiles_up() -> None:
    values = [1.0] * 60 + [math.inf] * 12
    assert quantile(values, 0.5) == Quantile(1.0, 1.0, 1.0)
    assert quantile(values, 0.95).reason == "failed requests reach this percentile"


def test_share_of_nothing_is_unknown() -> None:
    assert metrics.share(1.0, 0.0) is None
    assert metrics.share(None, 1.0) is None
    assert metrics.share(0.0, 2.0) == 0.0
    assert metrics.difference(5.0, 3.0) == 2.0
    assert metrics.difference(None, 3.0) is None


def test_counts_that_disagree_are_a_mismatch() -> None:
    assert not TRACE.mismatch
    assert not replace(TRACE, client_tokens=None).mismatch
    assert replace(TRACE, client_tokens=6).mismatch
    assert replace(TRACE, server_tokens=8).mismatch
    assert not replace(TRACE, server_tokens=8, error="x").mismatch
