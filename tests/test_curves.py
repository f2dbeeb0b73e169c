# SPDX-License-Identifier: Apache-2.0
"""Fronts, by hand."""

import pytest

from runners.report.curves import on_front, points
from runners.report.metrics import Quantile
from runners.report.record import CellRecord, Percentiles, Run
from tests.test_verdicts import run


def test_dominated_points_are_off_the_front() -> None:
    cloud = [(1.0, 9.0), (2.0, 5.0), (2.0, 4.0), (3.0, 5.0), (4.0, 1.0)]
    assert [on_front(point, cloud) for point in cloud] == [True, False, False, True, True]
    assert on_front((1.0, 1.0), [(1.0, 1.0), (1.0, 1.0)])


def timed(cell: CellRecord, tpot_s: float, ttft_s: float | None) -> CellRecord:
    def all_of(value: float | None) -> Percentiles:
        one = Quantile(value, value, value)
        return Percentiles(p50=one, p95=one, p99=one)

    update = {"tpot": all_of(tpot_s), "ttft_visible": all_of(ttft_s)}
    return cell.model_copy(update={"summary": cell.summary.model_copy(update=update)})


def curve(ttft_s: float | None = 0.1) -> Run:
    """Rates 100, 200, 400 and 390; users' speeds 100, 50, 25 and 20, but at 2 in block 2 only 20."""
    whole = run({"a": {1: [100.0] * 2, 2: [200.0] * 2, 4: [400.0] * 2, 8: [390.0] * 2}})
    speeds = {1: 100.0, 2: 50.0, 4: 25.0, 8: 20.0}
    cells = tuple(
        timed(c, 1 / (20.0 if (c.level, c.block) == (2, 2) else speeds[int(c.level)]), ttft_s) for c in whole.cells
    )
    contenders = [{"name": "a", "engine": "x", "gpus": [0, 1]}]
    return whole.model_copy(update={"cells": cells, "config": {**whole.config, "contenders": contenders}})


def test_the_front_of_a_contender_and_how_sure_it_is() -> None:
    found = points(curve())
    assert [p.level for p in found] == [1, 2, 4, 8]
    at = {p.level: p for p in found}
    assert at[1].output_tokens_per_s_per_gpu is not None
    assert at[1].output_tokens_per_s_per_gpu.value == pytest.approx(50.0)
    assert at[2].user_tokens_per_s is not None
    assert at[2].user_tokens_per_s.value == pytest.approx((50.0 * 20.0) ** 0.5)
    fronts = {level: p.by_user_speed for level, p in at.items()}
    assert {level: (f.on, f.in_blocks, f.blocks) for level, f in fronts.items() if f} == {
        1: (True, 2, 2),
        2: (True, 1, 2),
        4: (True, 2, 2),
        8: (False, 0, 2),
    }
    by_ttft = {level: p.by_ttft for level, p in at.items()}
    assert {level: f.on for level, f in by_ttft.items() if f} == {1: False, 2: False, 4: True, 8: False}


def test_no_front_where_a_figure_is_unknown() -> None:
    found = points(curve(ttft_s=None))
    assert all(p.by_ttft is None and p.ttft_visible_p50_s is None for p in found)
    assert all(p.by_user_speed is not None for p in found)
