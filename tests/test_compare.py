# SPDX-License-Identifier: Apache-2.0
"""Intervals and verdicts, by hand."""

import math

import pytest

from runners.report.compare import Estimate, geometric, holm, verdict


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


def test_holm() -> None:
    """0.01 x 3; 0.03 x 2; 0.04 x 1, which may not fall below the one before."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


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
    assert verdict(Estimate(1.5, None, None, None, 1), None, 0.05) == "undecided: one block has no spread"
