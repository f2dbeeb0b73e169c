# SPDX-License-Identifier: Apache-2.0
"""The verdict: paired log ratios over blocks, Student's t, Holm over the levels of a workload."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Estimate:
    """A geometric mean with its two-sided 95% interval; None bounds where one value is all there is."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int


def geometric(values: Sequence[float]) -> Estimate | None:
    """Geometric mean of positive values, t interval on the log scale, p of "the mean is 1".

    Equal values have no spread: the interval is the point and p is 0, or 1 where that point is 1.
    """
    logs = [math.log(v) for v in values if v > 0]
    if not logs or len(logs) != len(values):
        return None
    mean, n = fmean(logs), len(logs)
    if n == 1:
        return Estimate(math.exp(mean), None, None, None, n)
    from scipy.stats import t

    error = stdev(logs) / math.sqrt(n)
    half = float(t.ppf(0.975, n - 1)) * error
    p = float(2 * t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), p, n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Scandinavian Journal of Statistics 6, 1979), in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    ranked = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, i in enumerate(ranked):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = worst
    return adjusted


def verdict(ratio: Estimate, p_holm: float | None, margin: float) -> str:
    """In this order: equal within the margin, faster or slower, undecided."""
    if ratio.low is None or ratio.high is None or p_holm is None:
        return "undecided: one block has no spread"
    if -math.log1p(margin) <= math.log(ratio.low) and math.log(ratio.high) <= math.log1p(margin):
        return f"equal within {margin:.0%}"
    if p_holm <= 0.05:
        change = ratio.value - 1.0
        return f"{'faster' if change > 0 else 'slower'} by {abs(change):.1%}"
    return "undecided"
