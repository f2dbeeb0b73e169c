# SPDX-License-Identifier: Apache-2.0
"""Intervals and verdicts, by hand."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, t

from runners.report.compare import (
    Estimate,
    estimate,
    fit,
    further_blocks,
    geometric,
    holm,
    split_shares,
    two_groups,
    verdict,
)


def test_geometric_mean_with_its_interval() -> None:
    """Logs -d, 0, d: mean 0, deviation d, error d / sqrt(3), t(0.975, 2) = 4.302653."""
    d = 0.1
    estimate = geometric([math.exp(-d), 1.0, math.exp(d)])
    assert estimate is not None
    half = 4.302652729911275 * d / math.sqrt(3)
    assert estimate.value == pytest.approx(1.0)
    assert estimate.low == pytest.approx(math.exp(-half))
    assert estimate.high == pytest.approx(math.exp(half))
    assert estimate.p == pytest.approx(1.0)
    assert estimate.n == 3


def test_p_value_of_two_blocks() -> None:
    """With one degree of freedom t is Cauchy: p = 1 - 2 atan(t) / pi. Logs 0.1 and 0.3: t = 2."""
    estimate = geometric([math.exp(0.1), math.exp(0.3)])
    assert estimate is not None
    assert estimate.p == pytest.approx(1 - 2 * math.atan(2.0) / math.pi)


def test_one_value_has_no_interval() -> None:
    assert geometric([1.0]) == Estimate(1.0, None, None, None, 1)
    assert geometric([]) is None
    assert geometric([1.0, 0.0]) is None


def test_equal_values_have_no_spread() -> None:
    assert geometric([1.0, 1.0]) == Estimate(1.0, 1.0, 1.0, 1.0, 2)
    doubled = geometric([2.0, 2.0])
    assert doubled is not None
    assert doubled.p == 0.0


def test_position_that_shows_joins_the_model() -> None:
    """Logs 0.1 + 0.2 x + r, with r orthogonal to both: squares of r 1e-4 over 2 degrees, error
    sqrt(5e-5 / 4). For two degrees of freedom p = 1 - t / sqrt(t^2 + 2); t of the slope is 0.2 / sqrt(5e-5 / 4)."""
    x = np.array([1.0, -1.0, 1.0, -1.0])
    found = fit(0.1 + 0.2 * x + np.array([0.005, 0.005, -0.005, -0.005]), x)
    ratio = 0.2 / math.sqrt(1.25e-5)
    assert found.with_position
    assert float(found.mean) == pytest.approx(0.1)
    assert float(found.error) == pytest.approx(math.sqrt(1.25e-5))
    assert float(found.df) == 2
    assert float(found.position) == pytest.approx(0.2)
    assert float(found.position_p) == pytest.approx(1 - ratio / math.sqrt(ratio * ratio + 2))


def test_position_that_does_not_show_costs_nothing_where_the_plan_is_balanced() -> None:
    """Squares of 0.03, 0.01, -0.01, -0.03 are 2e-3; over 3 degrees and 4 blocks."""
    logs, x = np.array([0.03, 0.01, -0.01, -0.03]), np.array([1.0, -1.0, 1.0, -1.0])
    found = fit(logs, x)
    assert not found.with_position
    assert float(found.error) == pytest.approx(math.sqrt(2e-3 / 3 / 4))
    assert float(found.df) == 3
    assert fit(logs, x, with_position=True).df == 2


def test_position_mends_a_plan_that_leans() -> None:
    """Three places later, one earlier: the plain mean would be 0.1 + 0.01 / 2."""
    x = np.array([1.0, -1.0, 1.0, 1.0])
    found = fit(0.1 + 0.01 * x + np.array([0.01, 0.0, -0.01, 0.0]), x)
    assert found.with_position
    assert float(found.mean) == pytest.approx(0.1)


def test_under_four_blocks_position_cannot_be_told() -> None:
    found = fit(np.array([0.3, 0.1, 0.3]), np.array([1.0, -1.0, 1.0]))
    assert np.isnan(found.position)
    assert float(found.df) == 2


def test_levels_are_fitted_side_by_side() -> None:
    x = np.array([1.0, -1.0, 1.0, -1.0])
    rows = np.array([[0.1, 0.2, 0.3, 0.2], [0.5, -0.4, 0.5, -0.4]])
    both = fit(rows, x)
    for i, row in enumerate(rows):
        alone = fit(row, x)
        assert both.mean[i] == alone.mean
        assert both.error[i] == alone.error
        assert both.with_position[i] == alone.with_position


def test_holm() -> None:
    """0.01 x 3; 0.03 x 2; 0.04 x 1, which may not fall below the one before."""
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.5, 0.9])).tolist() == [1.0, 1.0]
    assert holm(np.array([])).tolist() == []
    assert holm(np.array([[0.01, 0.02], [0.4, 0.01]])).tolist() == [[0.02, 0.02], [0.4, 0.02]]


@pytest.mark.parametrize(
    ("low", "value", "high", "p", "expected"),
    [
        (0.96, 1.0, 1.04, 0.9, "equal within 5%"),
        (1.01, 1.02, 1.03, 0.001, "equal within 5%"),
        (1.06, 1.10, 1.14, 0.01, "faster by 10.0%"),
        (0.80, 0.85, 0.90, 0.01, "slower by 15.0%"),
        (1.01, 1.10, 1.20, 0.06, "undecided"),
        (0.90, 1.02, 1.20, 0.50, "undecided"),
    ],
)
def test_verdicts_in_order(low: float, value: float, high: float, p: float, expected: str) -> None:
    assert verdict(Estimate(value, low, high, p, 6), p, 0.05) == expected


def test_one_block_decides_nothing() -> None:
    assert verdict(Estimate(1.5, None, None, None, 1), None, 0.05) == "no verdict: one block has no spread"


def test_a_look_asks_for_more() -> None:
    """p of 0.03 is below 0.05 and above its third."""
    ratio = Estimate(1.10, 1.06, 1.14, 0.03, 6)
    assert verdict(ratio, 0.03, 0.05) == "faster by 10.0%"
    assert verdict(ratio, 0.03, 0.05, 0.05 / 3) == "undecided"


def test_further_blocks_by_their_definition() -> None:
    """An estimate of 3%, which is inside the margin: equal, once t s / sqrt(n) <= log 1.05 - log 1.03; or
    faster, once it is below log 1.03, for the spreads at both ends of an 80% interval."""
    logs = [0.03 + d for d in (-0.05, 0.05, -0.05, 0.05)]
    ratio = estimate(logs, [0.0] * 4)
    assert ratio is not None
    squares, effect = 4 * 0.05**2, 0.03

    def needed(tail: float) -> int:
        spread = math.sqrt(squares / chi2.ppf(tail, 3))
        n = 5
        while True:
            half = t.ppf(0.975, n - 1) * spread / math.sqrt(n)
            if half <= max(effect, math.log(1.05) - effect):
                return n - 4
            n += 1

    found = further_blocks(ratio, ratio.p, 0.05)
    assert found is not None
    assert (found.least, found.most) == (needed(0.9), needed(0.1))
    assert found.least < 10 < (found.most or 0)


def test_further_blocks_beyond_reason() -> None:
    ratio = estimate([-1.0, 1.0, -1.0, 1.001], [0.0] * 4)
    assert ratio is not None
    assert further_blocks(ratio, ratio.p, 0.05) is None
    assert further_blocks(Estimate(1.1, None, None, None, 1), None, 0.05) is None


def test_the_best_split_by_hand() -> None:
    """0, 0, 3: the mean is 1, all squares 6; split after two, 2 x 1 + 1 x 4 = 6 are between."""
    share, lower = split_shares(np.array([0.0, 0.0, 3.0]))
    assert float(share) == pytest.approx(1.0)
    assert int(lower) == 2
    share, lower = split_shares(np.array([0.0, 1.0, 2.0, 5.0]))
    assert float(share) == pytest.approx((3 * 1.0 + 9.0) / 14)
    assert int(lower) == 3


def test_start_up_modes_are_found_and_named() -> None:
    found = two_groups([0.0, -0.1, 0.001, -0.101, 0.002, -0.001])
    assert found is not None
    assert found.apart == (1, 3)
    assert found.ratio == pytest.approx(math.exp(-0.1005 - 0.0005))
    assert found.modes
    lone = two_groups([0.0, -0.001, 0.3, 0.001, 0.0, 0.002])
    assert lone is not None
    assert lone.apart == (2,)
    assert not lone.modes
    assert two_groups([0.0, 0.01, 0.02, 0.03, 0.04, 0.05]) is None
    assert two_groups([0.0, 0.0, 9.0]) is None
