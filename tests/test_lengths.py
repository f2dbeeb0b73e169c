# SPDX-License-Identifier: Apache-2.0
"""Answers of different lengths, by hand."""

from dataclasses import replace
from typing import Any

import pytest

from runners.report.decisions import decide_run
from runners.report.lengths import length_differences
from runners.report.percentiles import lengths_of
from runners.report.record import AnswerLengths, Run
from runners.report.table import tabulate
from tests.test_config import workload
from tests.test_metrics import timeline
from tests.test_records import TRACES, run, summary


def test_lengths_of_a_cell_by_hand() -> None:
    """1 to 13 tokens: mean 7, deviation sqrt(182 / 12), and the 1st, 7th and 13th of 13."""
    of = [replace(t, timeline=timeline((1.0, 1.0, t.index + 1))) for t in TRACES]
    found = lengths_of(of)
    assert found is not None
    assert found.mean == 7.0
    assert found.deviation == pytest.approx((182 / 12) ** 0.5)
    assert (found.p5, found.p50, found.p95) == (1, 7, 13)
    assert lengths_of([]) is None
    assert summary(TRACES).answer_lengths == AnswerLengths(mean=4.0, deviation=0.0, p5=4, p50=4, p95=4)
    assert summary(TRACES).finish_reasons == {"length": 13}


def answering(mine: float, theirs: float, deviation: float = 1.0, **changes: Any) -> Run:
    """Two blocks of 13 answers a cell; b is the contender."""
    plan = {"workloads": workload(concurrency=[1]), "output_length": "natural", **changes}
    whole = run({"a": [100.0, 100.0], "b": [100.0, 100.0]}, **plan)
    cells = []
    for cell in whole.cells:
        mean = mine if cell.contender == "b" else theirs
        lengths = AnswerLengths(mean=mean, deviation=deviation, p5=1, p50=2, p95=3)
        reasons = {"stop": 13} if cell.contender == "b" else {"length": 12, "stop": 1}
        changed = {"answer_lengths": lengths, "finish_reasons": reasons}
        cells.append(cell.model_copy(update={"summary": cell.summary.model_copy(update=changed)}))
    return whole.model_copy(update={"cells": tuple(cells)})


def test_shorter_answers_are_named() -> None:
    """8 against 10 tokens with a deviation of 1: the log is -0.22, its deviation sqrt((1/64 + 1/100) / 26) = 0.031."""
    found = answering(8.0, 10.0)
    (difference,) = length_differences(found)
    assert difference.ratio == pytest.approx(0.8)
    assert difference.flag == "shorter answers (-20%)"
    assert "shorter answers (-20%)" in tabulate(found)[1]["flags"]
    remark = (
        "b gives shorter answers (-20%) than a in w at 1, which makes it look faster by E2E, goodput and, at a rate, "
        "TTFT; finish reasons: stop 100% against length 92%, stop 8%"
    )
    assert remark in decide_run(found).remarks
    assert {c.verdict for c in decide_run(found).comparisons} == {"equal within 5%"}


def test_chance_and_the_margin_are_no_difference() -> None:
    """With a deviation of 4 of 10 tokens the log's own is 0.126, of which 2.58 are more than 0.22; 9.6 is within 5%."""
    assert length_differences(answering(8.0, 10.0, deviation=4.0)) == ()
    assert length_differences(answering(9.6, 10.0, deviation=0.01)) == ()
    assert length_differences(answering(10.0, 8.0))[0].flag == "longer answers (+25%)"
    assert length_differences(answering(8.0, 10.0, output_length="forced")) == ()


def test_a_latency_of_other_work_has_no_verdict() -> None:
    whole = answering(8.0, 10.0, workloads=workload(concurrency=[], rates=[2.0]))
    cells = [c.model_copy(update={"level": 2.0, "level_kind": "rate"}) for c in whole.cells]
    at_a_rate = whole.model_copy(update={"cells": tuple(cells)})
    comparisons = decide_run(at_a_rate).comparisons
    assert {c.metric for c in comparisons} == {"ttft_visible_p95_s"}
    assert {c.verdict for c in comparisons} == {"no verdict: shorter answers (-20%)"}
