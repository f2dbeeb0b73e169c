# SPDX-License-Identifier: Apache-2.0
"""Verdicts of whole runs, on records made by hand."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
import yaml

from runners.gpu_meter import GpuUse
from runners.report.blocks import MixedPlanError, check_one_plan, exclusions, torn
from runners.report.compare import holm
from runners.report.decisions import decide_run, decisions_json
from runners.report.decisions_text import decisions_markdown
from runners.report.metrics import Quantile
from runners.report.record import Capacity, CellRecord, Flag, LifeRecord, Percentiles, Probe, Run
from runners.report.scatter import scatter
from runners.report.summary import LATENCY_BOUND
from runners.report.table import tabulate
from runners.report.verdicts import Comparison, judge
from tests.test_config import GOOD, workload
from tests.test_records import life, record

Rates = Mapping[str, Mapping[int, Sequence[float] | Sequence[float | None]]]
"""By contender and level, one a block."""


def run(rates: Rates, looks: tuple[int, ...] = (), **changes: Any) -> Run:
    """Two contenders take turns at being first."""
    names = list(rates)
    cells = [
        record(name, block, 1.0, level).model_copy(
            update={
                "position": (names.index(name) + block - 1) % len(names) + 1,
                "summary": record(name, block, 1.0).summary.model_copy(update={"output_tokens_per_s": rate}),
            }
        )
        for name, levels in rates.items()
        for level, of_level in levels.items()
        for block, rate in enumerate(of_level, start=1)
    ]
    contenders = [{"name": name, "engine": "llamacpp_openai"} for name in names]
    blocks = max(len(of_level) for levels in rates.values() for of_level in levels.values())
    config = {**GOOD, "contenders": contenders, "blocks": blocks, **changes}
    return Run(config=yaml.safe_load(yaml.safe_dump(config)), lives=(), cells=tuple(cells), looks=looks)


def only(comparisons: Sequence[Comparison], level: int | None, contender: str = "b") -> Comparison:
    (found,) = [c for c in comparisons if c.level == level and c.contender == contender]
    return found


STEADY = {1: [100.0] * 4, 2: [200.0] * 4}


def scaled(*logs: float, of: float = 100.0) -> list[float]:
    return [of * math.exp(log) for log in logs]


def test_the_declared_comparison_is_the_mean_over_levels() -> None:
    """Level 1 at logs 0.10 +- 0.01, level 2 at 0.20 -+ 0.01: in the mean nothing scatters."""
    b = {1: scaled(0.11, 0.09, 0.09, 0.11), 2: scaled(0.19, 0.21, 0.21, 0.19, of=200.0)}
    found = judge(run({"a": STEADY, "b": b}))
    declared = only(found, None)
    assert declared.ratio is not None
    assert declared.ratio.value == pytest.approx(math.exp(0.15))
    assert declared.ratio.low == pytest.approx(math.exp(0.15))
    assert declared.verdict == "faster by 16.2%"
    at_one, at_two = only(found, 1), only(found, 2)
    assert at_one.ratio is not None and at_one.ratio.p is not None
    assert at_two.ratio is not None and at_two.ratio.p is not None
    half = 3.182446305284263 * math.sqrt(4 * 0.01**2 / 3 / 4)
    assert at_one.ratio.low == pytest.approx(math.exp(0.10 - half))
    assert at_one.p_holm == pytest.approx(max(2 * at_two.ratio.p, at_one.ratio.p))
    assert at_two.p_holm == pytest.approx(2 * at_two.ratio.p)


def test_holm_spans_the_contenders_of_a_workload() -> None:
    rates = {
        "a": {1: [100.0] * 4},
        "b": {1: scaled(0.10, 0.12, 0.10, 0.12)},
        "c": {1: scaled(0.02, -0.02, 0.03, 0.01)},
    }
    found = judge(run(rates))
    b, c = only(found, None, "b"), only(found, None, "c")
    assert b.ratio is not None and b.ratio.p is not None
    assert c.ratio is not None and c.ratio.p is not None
    assert [b.p_holm, c.p_holm] == pytest.approx(holm_of(b.ratio.p, c.ratio.p))
    assert [x.contender for x in found] == ["b", "b", "c", "c"]


def holm_of(*p: float) -> list[float]:
    import numpy as np

    return list(holm(np.array(p)))


def test_one_block_gives_figures_and_no_verdict() -> None:
    declared = only(judge(run({"a": {1: [100.0]}, "b": {1: [150.0]}})), None)
    assert declared.ratio is not None
    assert declared.ratio.value == pytest.approx(1.5)
    assert declared.verdict == "no verdict: one block has no spread"
    assert not declared.decided


def test_only_paired_blocks_count_and_that_is_said() -> None:
    whole = run({"a": {1: [100.0, 100.0, 50.0, 100.0]}, "b": {1: [110.0, 110.0, 500.0, 110.0]}})
    cut = whole.model_copy(update={"cells": tuple(c for c in whole.cells if (c.contender, c.block) != ("a", 3))})
    decisions = decide_run(cut)
    declared = only(decisions.comparisons, None)
    assert declared.ratio is not None
    assert declared.ratio.n == 3
    assert declared.ratio.value == pytest.approx(1.1)
    assert "a has no finished life in block 3: paired blocks only" in decisions.remarks


def test_a_block_without_one_level_is_not_in_the_mean() -> None:
    found = judge(run({"a": STEADY, "b": {1: [100.0] * 4, 2: [200.0, None, 200.0, 200.0]}}))
    counts = {level: comparison.ratio.n for level in (None, 1, 2) if (comparison := only(found, level)).ratio}
    assert counts == {None: 3, 1: 4, 2: 3}


def slowed(cell: CellRecord, seconds: float) -> CellRecord:
    use = GpuUse(2, 50.0, 1e4, {"hardware thermal slowdown": seconds, "power brake": None})
    return cell.model_copy(update={"gpu": use})


def test_a_slowed_gpu_excludes_the_block_for_all() -> None:
    """1% of 2 GPUs for 50 s is 1 s: that much is let pass."""
    whole = run({"a": {1: [100.0] * 5}, "b": {1: [110.0, 110.0, 50.0, 110.0, 110.0]}})
    cells = tuple(slowed(c, 20.0) if (c.contender, c.block) == ("b", 3) else slowed(c, 1.0) for c in whole.cells)
    hot = whole.model_copy(update={"cells": cells})
    reason = "hardware thermal slowdown for 20% of w at 1, b"
    assert exclusions(hot) == {3: reason}
    decisions = decide_run(hot)
    assert f"block 3 is excluded, for all contenders: {reason}" in decisions.remarks
    declared = only(decisions.comparisons, None)
    assert declared.ratio is not None
    assert declared.ratio.n == 4
    assert declared.ratio.value == pytest.approx(1.1)
    assert [row["blocks"] for row in tabulate(hot)] == [4, 4]


def test_failures_never_exclude() -> None:
    whole = run({"a": {1: [100.0] * 4}, "b": {1: [110.0] * 4}})
    failing = whole.cells[-1].summary.model_copy(update={"requests_failed": 13, "requests_done": 0})
    cells = (*whole.cells[:-1], whole.cells[-1].model_copy(update={"summary": failing}))
    assert exclusions(whole.model_copy(update={"cells": cells})) == {}


def test_planned_looks_share_the_error() -> None:
    """Mean 0.15, deviations -+0.08: error sqrt(4 x 0.08^2 / 3 / 4), t = 3.248, p = 0.048."""
    steadier = {"a": {1: [100.0] * 4}, "b": {1: scaled(0.07, 0.23, 0.23, 0.07)}}
    alone, look = only(judge(run(steadier)), None), only(judge(run(steadier, looks=(4, 6, 10))), None)
    assert alone.ratio is not None and alone.ratio.p is not None
    assert 0.05 / 3 < alone.ratio.p < 0.05
    assert alone.verdict == "faster by 16.2%"
    assert look.verdict == "undecided"
    assert look.confidence == pytest.approx(1 - 0.05 / 3)
    assert look.further is not None


def test_in_open_loop_a_shorter_ttft_is_better() -> None:
    def late(cell: CellRecord, p95_s: float) -> CellRecord:
        value = Quantile(p95_s, p95_s, p95_s)
        ttft = Percentiles(p50=value, p95=value, p99=value)
        return cell.model_copy(
            update={"level_kind": "rate", "summary": cell.summary.model_copy(update={"ttft_visible": ttft})}
        )

    whole = run({"a": {1: [1.0] * 4}, "b": {1: [1.0] * 4}})
    cells = tuple(late(c, 0.2 if c.contender == "a" else 0.1) for c in whole.cells)
    declared = only(judge(whole.model_copy(update={"cells": cells})), None)
    assert declared.metric == "ttft_visible_p95_s"
    assert declared.verdict == "faster by 100.0%"


def test_position_is_told() -> None:
    """`b` comes second in odd blocks: 0.1 + 0.2 there, 0.1 - 0.2 else."""
    declared = only(judge(run({"a": {1: [100.0] * 4}, "b": {1: scaled(0.3, -0.1, 0.3, -0.1)}})), None)
    assert declared.position == pytest.approx(0.2)
    assert declared.ratio is not None
    assert declared.ratio.value == pytest.approx(math.exp(0.1))
    assert declared.verdict == "faster by 10.5%"


def test_drift_and_modes_are_named() -> None:
    logs = [0.0, -0.1, 0.001, -0.101, 0.002, -0.001]
    whole = run({"a": {1: [100.0 * math.exp(0.05 * b) for b in range(6)]}, "b": {1: scaled(*logs)}})
    a, b = scatter(whole)
    assert a.drift == pytest.approx(0.05)
    assert a.drift_p == pytest.approx(0.0, abs=1e-9)
    assert b.apart == (2, 4)
    assert b.remark is not None
    assert b.remark.startswith("start-up modes: b in w, blocks 2, 4 at 0.904 of the others")
    assert b.remark in decide_run(whole).remarks
    small = run({"a": {1: [100.0] * 6}, "b": {1: scaled(*(log / 10 for log in logs))}})
    assert scatter(small)[1].groups is None


def test_different_plans_in_one_folder_are_refused() -> None:
    whole = run({"a": {1: [100.0] * 2}, "b": {1: [110.0] * 2}})
    check_one_plan(whole)
    other = whole.cells[-1].model_copy(update={"prompts_sha256": "1"})
    with pytest.raises(MixedPlanError, match="block 2, w at 1: a and b were asked different prompts"):
        check_one_plan(whole.model_copy(update={"cells": (*whole.cells[:-1], other)}))
    stray = whole.cells[-1].model_copy(update={"level": 64})
    with pytest.raises(MixedPlanError, match=r"block 2 of b has w at 64, which config.yaml does not plan"):
        check_one_plan(whole.model_copy(update={"cells": (*whole.cells[:-1], stray)}))


def started(contender: str, start: str, end: str, gpu: str = "GPU-1") -> LifeRecord:
    day = "2026-01-01T{}:00+00:00"
    return life(record(contender, 1, 1.0)).model_copy(
        update={"started_at": day.format(start), "ended_at": day.format(end), "gpus": (gpu,)}
    )


def test_lives_of_one_block_belong_together() -> None:
    first, second = started("a", "10:00", "10:30"), started("b", "11:00", "11:30")
    assert torn([first, second], 1800.0) is None
    assert torn([second, first], 1799.0) == "its lives lie 0.5 h apart, block_gap_s allows 0.5 h"
    now = datetime.fromisoformat("2026-01-01T13:30:00+00:00")
    assert torn([first, second], 3600.0, now) == "its lives lie 2.0 h apart, block_gap_s allows 1.0 h"
    gpus = {"a": ("GPU-1",), "b": ("GPU-1",)}
    assert torn([first], 1e6, now, gpus) is None
    assert torn([first], 1e6, now, {**gpus, "a": ("GPU-2",)}) == "a ran on another GPU"
    assert torn([], 1.0, now) is None


def test_both_forms() -> None:
    decisions = decide_run(run({"a": STEADY, "b": {1: scaled(0.1, 0.2, -0.05, 0.1), 2: scaled(0.1, 0.1, 0.1, 0.1)}}))
    text = decisions_markdown(decisions)
    assert text.startswith("## Verdicts\n\n| contender | workload | level | blocks | ratio |")
    assert "| b | w | all | 4 |" in text
    assert "| a | w | 4 | 0.0% | +0.0% (p 1.00) |" in text
    value = json.loads(decisions_json(decisions))
    assert [c["level"] for c in value["comparisons"]] == [None, 1, 2]
    assert value["comparisons"][1]["verdict"] == "undecided"
    assert value["comparisons"][1]["further"]["least"] > 0


def test_crossovers_are_told() -> None:
    """0.1 better at 1, 0.1 worse at 2, without spread: equal at the square root of 2."""
    decisions = decide_run(run({"a": STEADY, "b": {1: scaled(*[0.1] * 4), 2: scaled(*[-0.1] * 4, of=200.0)}}))
    (crossing,) = decisions.crossovers
    assert crossing.crossover.estimates == pytest.approx([math.sqrt(2)])
    assert "Crossover of b with a in w, in flight: 1.41 [1.41, 1.41]" in decisions_markdown(decisions)


def test_every_section_has_its_table() -> None:
    """Two GPUs at 1.80 an hour are 10 per million tokens at 100 a second."""
    limits = [{"metric": "ttft_visible", "percentile": 50, "at_most_s": 1.0}] * 2
    whole = run(
        {"a": STEADY, "b": {1: scaled(*[0.1] * 4), 2: scaled(*[-0.1] * 4, of=200.0)}},
        workloads=workload(limits=limits),
        square={"first_runtime": ["a", "b"], "second_runtime": [None, None]},
        price_per_gpu_hour=1.8,
    )
    config = {**whole.config, "contenders": [{"name": name, "engine": "x", "gpus": [0, 1]} for name in "ab"]}
    searched = Capacity(
        workload="w",
        level_kind="concurrency",
        met=8,
        missed=9,
        probes=(Probe(level=8, missed=None, output_tokens_per_s=1.0),),
    )
    lives = tuple(life(record("a", block, 1.0)).model_copy(update={"capacities": (searched,)}) for block in range(1, 5))
    text = decisions_markdown(decide_run(whole.model_copy(update={"config": config, "lives": lives})))
    for line in (
        "## Requirements",
        "| a | w | 1 | p50 ttft_visible <= 1 s | 0.5 | [0.5, 0.5] | pass | decode 75%, before the first token 25% |",
        "| a | w | 1 | all of them | - | - | pass | - |",
        "## Capacity under the limits",
        "| a | w | 4 | 8 [8, 8] | 1 [1, 1] |",
        "## Attribution",
        "| front end | of the first runtime | w | 1 | 4 | 1.105 [1.105, 1.105] |",
        "## Curves",
        "| a | w | 2 | 100 [100, 100] | 2.0 [2.0, 2.0] | 500.0 [500.0, 500.0] | yes (4 of 4 blocks) |",
        "## Cost",
        "| a | w | 1 | 10.000 [10.000, 10.000] | 4.000 [4.000, 4.000] | - | 2.0 | - | - |",
        "## Lives",
    ):
        assert line in text


def test_a_server_that_was_never_restarted_is_named() -> None:
    whole = run({"a": {1: [100.0] * 4}, "b": {1: [110.0] * 4}})
    attached = tuple(c.model_copy(update={"runner": "attach"}) if c.contender == "b" else c for c in whole.cells)
    assert decide_run(whole.model_copy(update={"cells": attached})).remarks == (
        "b was never restarted: its blocks are parts of one server life and show nothing of starts",
    )


def test_levels_of_two_kinds_have_a_declared_comparison_each() -> None:
    """Requests in flight are judged by throughput, rates by TTFT p95, which is 0.5 s for all in these records."""
    closed = run({"a": {1: [100.0] * 4}, "b": {1: [110.0] * 4}}, workloads=workload(concurrency=[1], rates=[1]))
    prompt = Percentiles(**{p: Quantile(0.5, 0.5, 0.5) for p in ("p50", "p95", "p99")})
    opened = [
        c.model_copy(update={"level_kind": "rate", "summary": c.summary.model_copy(update={"ttft_visible": prompt})})
        for c in closed.cells
    ]
    whole = closed.model_copy(update={"cells": (*closed.cells, *opened)})
    check_one_plan(whole)
    found = [(c.level_kind, c.level, c.metric, c.verdict) for c in judge(whole)]
    assert found == [
        ("concurrency", None, "output_tokens_per_s", "faster by 10.0%"),
        ("concurrency", 1, "output_tokens_per_s", "faster by 10.0%"),
        ("rate", None, "ttft_visible_p95_s", "equal within 5%"),
        ("rate", 1, "ttft_visible_p95_s", "equal within 5%"),
    ]
    assert [(r["level_kind"], r["verdict"]) for r in tabulate(whole) if r["engine"] == "b"] == [
        ("concurrency", "faster by 10.0%"),
        ("rate", "equal within 5%"),
    ]
    assert "| b | w | 1/s |" in decisions_markdown(decide_run(whole))


def bound(cell: CellRecord, transport: str) -> CellRecord:
    """The cell with a client that was late for its TTFT."""
    flag = Flag(code=LATENCY_BOUND, detail="p99 send lag 9.00 ms")
    summary = cell.summary.model_copy(update={"flags": (*cell.summary.flags, flag)})
    return cell.model_copy(update={"summary": summary, "transport": transport})


@pytest.mark.parametrize(
    ("transport", "said"), [("http", "equal within 5%"), ("grpc", f"no verdict: {LATENCY_BOUND} (b, block 1)")]
)
def test_transports_are_compared_only_where_the_client_was_no_limit(transport: str, said: str) -> None:
    plain = run({"a": STEADY, "b": STEADY})
    cells = tuple(bound(c, transport) if c.contender == "b" else c for c in plain.cells)
    assert only(judge(plain.model_copy(update={"cells": cells})), None).verdict == said
