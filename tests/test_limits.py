# SPDX-License-Identifier: Apache-2.0
"""Requirements, by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engines.contract import Counters
from runners.config_judging import LimitConfig
from runners.config_workload import Level, WorkloadConfig
from runners.report.limits import Requirement, misses, overall, requirements
from runners.report.metrics import Quantile
from runners.report.record import Delays, Percentiles, Run
from tests.test_config import workload
from tests.test_records import TRACES, WORKLOAD, summary
from tests.test_verdicts import run

TTFT = {"metric": "ttft_visible", "percentile": 95, "at_most_s": 0.9}
ONE = Level("concurrency", 1)
FAILED = Quantile(None, None, None, "failed requests reach this percentile")


def percentiles(p95: Quantile, p50_s: float | None = 0.5) -> Percentiles:
    p50 = Quantile(p50_s, p50_s, p50_s)
    return Percentiles(p50=p50, p95=p95, p99=p95)


def measured(ttft: Sequence[float | Quantile], limits: Sequence[dict[str, Any]] = (TTFT,), **fields: Any) -> Run:
    """One contender at one level; TTFT p95 by block, its median 0.5 s, the median answer 2 s."""
    whole = run({"a": {1: [100.0] * len(ttft)}}, workloads=workload(limits=list(limits), **fields))
    cells = []
    for cell, value in zip(whole.cells, ttft, strict=True):
        quantile = value if isinstance(value, Quantile) else Quantile(value, value, value)
        update = {
            "ttft_visible": percentiles(quantile),
            "e2e": percentiles(Quantile(4.0, 4.0, 4.0), 2.0),
            "goodput": 0.98,
        }
        cells.append(cell.model_copy(update={"summary": cell.summary.model_copy(update=update)}))
    return whole.model_copy(update={"cells": tuple(cells)})


def outcome(ttft: Sequence[float | Quantile]) -> Requirement:
    (found,) = requirements(measured(ttft))
    return found


def test_pass_fail_and_undecided_by_the_interval() -> None:
    """Logs -d and d around log 0.8: half is t(0.975, 3) x sqrt(4 d^2 / 3 / 4) = 1.837 d; log(0.9 / 0.8) = 0.118."""
    d = 0.05
    wide = outcome([0.8 * math.exp(s * d) for s in (-1, 1, 1, -1)])
    assert wide.value == pytest.approx(0.8)
    assert wide.high == pytest.approx(0.8 * math.exp(3.182446305284263 * d / math.sqrt(3)))
    assert wide.outcome == "pass"
    assert outcome([0.8 * math.exp(s * 0.07) for s in (-1, 1, 1, -1)]).outcome == "undecided"
    assert outcome([1.0] * 4).outcome == "fail"
    assert wide.delay == "decode 75%, before the first token 25%"


def test_what_cannot_be_told_is_no_pass() -> None:
    assert outcome([FAILED] * 3).outcome == "fail"
    assert outcome([FAILED] * 3).reason == "failed requests reach this percentile, in every block"
    some = outcome([0.1, FAILED, 0.1])
    assert (some.outcome, some.reason) == ("undecided", "failed requests reach this percentile, in 1 of 3 blocks")
    few = outcome([0.1, Quantile(None, None, None, "n too small (12 of 72)"), 0.1])
    assert (few.outcome, few.reason) == ("undecided", "n too small (12 of 72), in 1 of 3 blocks")
    assert (outcome([0.1]).outcome, outcome([0.1]).reason) == ("undecided", "one block has no spread")


def test_each_limit_is_judged_by_itself_and_one_miss_is_no_pass() -> None:
    answer = {"metric": "e2e", "percentile": 95, "at_most_s": 3.0, "concurrency": 1}
    found = requirements(measured([0.8] * 4, limits=(TTFT, answer)))
    assert [(r.limit, r.outcome) for r in found] == [
        ("p95 ttft_visible <= 0.9 s", "pass"),
        ("p95 e2e <= 3 s", "fail"),
    ]
    assert overall(found) == "fail"
    assert overall(found[:1]) == "pass"
    assert overall([found[0], replace(found[0], outcome="undecided")]) == "undecided"


def test_goodput_is_a_requirement_too() -> None:
    found = requirements(measured([0.8] * 4, goodput_at_least=0.95))
    assert [(r.limit, r.outcome) for r in found[1:]] == [("goodput >= 95.0%", "pass")]
    assert found[1].value == pytest.approx(0.98)
    assert requirements(measured([0.8] * 4, goodput_at_least=0.99))[1].outcome == "fail"


def test_the_layer_that_owns_the_delay_by_the_engines_own_times() -> None:
    """0.1 s in the queue, 0.3 prefilling, 1.4 decoding; the client saw 0.5 to the first token and 2.0 in all."""
    delays = Delays(queue_s=0.1, prefill_s=0.3, decode_s=1.4, ttft_s=0.5, e2e_s=2.0)
    limits = [{"metric": m, "percentile": 95, "at_most_s": 9.0} for m in ("ttft_visible", "tpot", "e2e")]
    whole = measured([0.8] * 4, limits=limits)
    cells = [c.model_copy(update={"summary": c.summary.model_copy(update={"delays": delays})}) for c in whole.cells]
    assert [r.delay for r in requirements(whole.model_copy(update={"cells": tuple(cells)}))] == [
        "prefill 60%, engine queue 20%, front end 20%",
        "decode 93%, front end 7%",
        "decode 70%, prefill 15%, front end 10%, engine queue 5%",
    ]


def test_delays_of_a_cell_by_hand() -> None:
    """13 requests: 1.3 s of queue, 2.6 s of prefill, 13 s of decode; the client saw 0.5 s and 2 s."""
    before = Counters(timed_requests=2.0, queue_s=1.0, prefill_s=1.0, decode_s=1.0)
    after = Counters(timed_requests=15.0, queue_s=2.3, prefill_s=3.6, decode_s=14.0)
    found = summary(TRACES, before=before, after=after).delays
    assert found is not None
    times = (found.queue_s, found.prefill_s, found.decode_s, found.ttft_s, found.e2e_s)
    assert times == pytest.approx((0.1, 0.2, 1.0, 0.5, 2.0))
    assert summary(TRACES).delays is None


def limited(**limit: Any) -> WorkloadConfig:
    return WORKLOAD.model_copy(update={"limits": (LimitConfig(**limit),)})


def test_goodput_of_a_cell_by_hand() -> None:
    """12 requests are due in the window; two of them have their first text after 0.75 s, one failed."""
    late = [replace(t, visible_s=t.due_s + 0.75) if t.index in (3, 4) else t for t in TRACES]
    late[5] = replace(late[5], error="boom")
    asked = limited(metric="ttft_visible", percentile=95, at_most_s=0.6)
    assert summary(late, workload=asked).goodput == pytest.approx(9 / 12)
    assert summary(TRACES).goodput is None


def test_what_one_cell_misses() -> None:
    asked = limited(metric="e2e", percentile=50, at_most_s=1.5)
    assert misses(summary(TRACES, workload=asked), asked, ONE) == ["p50 e2e <= 1.5 s: 2 s"]
    far = limited(metric="e2e", percentile=99, at_most_s=1.5)
    assert misses(summary(TRACES, workload=far), far, ONE) == ["p99 e2e <= 1.5 s: n too small (12 of 368)"]
    eased = limited(metric="e2e", percentile=50, at_most_s=2.0)
    assert misses(summary(TRACES, workload=eased), eased, ONE) == []
    strict = eased.model_copy(update={"goodput_at_least": 1.0})
    one_failed = [*TRACES[:5], replace(TRACES[5], error="boom"), *TRACES[6:]]
    assert misses(summary(one_failed, workload=strict), strict, ONE) == ["goodput >= 100.0%: 91.7%"]
