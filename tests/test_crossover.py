# SPDX-License-Identifier: Apache-2.0
"""Crossovers, by hand."""

import math

import numpy as np
import pytest

from runners.report.crossover import crossover

PLACES = np.array([1.0, -1.0, 1.0, -1.0])
T3 = 3.182446305284263
"""t(0.975) with 3 degrees of freedom."""


def shifted(means: list[float], d: float = 0.01) -> np.ndarray:
    """Four blocks that lie d, -d, -d, d off each mean: error at every load sqrt(4 d^2 / 3 / 4)."""
    return np.array(means)[:, None] + d * np.array([1.0, -1.0, -1.0, 1.0])


def test_one_crossover_with_both_bounds() -> None:
    """From 0.1 at 1 to -0.1 at 16, straight in the logarithm: 0 at 4; 0.0184 off it at either side."""
    found = crossover([1, 16], shifted([0.1, -0.1]), PLACES, with_position=False)
    assert found is not None
    half = T3 * 0.01 / math.sqrt(3)
    way = half / 0.2 * math.log(16)
    assert found.estimates == pytest.approx((4.0,))
    ((low, high),) = found.intervals
    assert low == pytest.approx(4 * math.exp(-way))
    assert high == pytest.approx(4 * math.exp(way))
    assert (found.better_below, found.better_above) == (1, -1)
    assert found.text() == f"4 [{low:.3g}, {high:.3g}]"


def test_a_bound_that_was_not_measured_is_open() -> None:
    found = crossover([1, 4, 16], shifted([0.1, 0.05, -0.001]), PLACES, with_position=False)
    assert found is not None
    ((low, high),) = found.intervals
    half = T3 * 0.01 / math.sqrt(3)
    assert high == 16
    assert low == pytest.approx(4 * 4 ** ((0.05 - half) / 0.051))
    assert found.text().endswith(f"[{low:.3g}, above)")
    assert found.better_above == 0


def test_none_and_anywhere() -> None:
    never = crossover([1, 16], shifted([0.1, 0.2]), PLACES, with_position=False)
    assert never is not None
    assert (never.intervals, never.estimates, never.text()) == ((), (), "none between 1 and 16")
    noise = crossover([1, 16], shifted([0.01, -0.01], 0.5), PLACES, with_position=False)
    assert noise is not None
    assert noise.intervals == ((1.0, 16.0),)
    assert noise.text() == "anywhere between 1 and 16, or nowhere"


def test_one_that_was_not_seen_may_still_be_there() -> None:
    found = crossover([1, 16], shifted([0.1, 0.001]), PLACES, with_position=False)
    assert found is not None
    ((low, _),) = found.intervals
    assert found.text() == f"none seen between 1 and 16, [{low:.3g}, above) is not ruled out"


def test_two_crossovers() -> None:
    found = crossover([1, 4, 16], shifted([0.1, -0.1, 0.1], 0.001), PLACES, with_position=False)
    assert found is not None
    assert found.estimates == pytest.approx((2.0, 8.0))
    assert len(found.intervals) == 2
    assert " or " in found.text()


def test_position_is_taken_out() -> None:
    """Position adds 0.3 to the log ratio; without the term all would be noise."""
    logs = shifted([0.1, -0.1]) + 0.3 * PLACES
    found = crossover([1, 16], logs, PLACES, with_position=True)
    assert found is not None
    t2 = 4.302652729911275
    way = t2 * math.sqrt(4 * 0.01**2 / 2 / 4) / 0.2 * math.log(16)
    ((low, high),) = found.intervals
    assert (low, high) == pytest.approx((4 * math.exp(-way), 4 * math.exp(way)))
    assert crossover([1, 16], logs[:, :2], PLACES[:2], with_position=True) is None
    assert crossover([4], logs[:1], PLACES, with_position=False) is None


def test_without_any_spread_the_interval_is_the_point() -> None:
    found = crossover([1, 4, 16], shifted([0.1, -0.1, -0.2], 0.0), PLACES, with_position=False)
    assert found is not None
    assert found.intervals[0] == pytest.approx((2.0, 2.0))
