# SPDX-License-Identifier: Apache-2.0
"""The load at which the better contender changes, with its interval by inversion of the paired test.

Within each block the log ratio is drawn straight between levels, in the logarithm of the load. A load is in
the interval where the paired test does not refuse that the mean log ratio there is 0 (Fieller's way), so the
interval may be open to a side, or be everything. A bootstrap over blocks would cover 72 to 89% at 3 to 8 blocks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from runners.report.compare import ALPHA, Floats


@dataclass(frozen=True)
class Crossover:
    """Loads in requests in flight or requests per second. `estimates` are where the mean log ratio is 0, from
    below to above; `intervals` together hold the crossover at the confidence asked for. A bound at `lowest` or
    `highest`, the ends of what was measured, is open."""

    estimates: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    lowest: float
    highest: float
    better_below: int
    better_above: int

    def text(self) -> str:
        """In words. `better_*`: 1 where the contender is better at that end, -1 the reference, 0 undecided."""
        measured = f"between {self.lowest:g} and {self.highest:g}"
        if not self.intervals:
            return f"none {measured}"
        if self.intervals == ((self.lowest, self.highest),):
            return f"anywhere {measured}, or nowhere"
        bounds = " or ".join(self._interval(low, high) for low, high in self.intervals)
        if not self.estimates:
            return f"none seen {measured}, {bounds} is not ruled out"
        return f"{', '.join(f'{load:.3g}' for load in self.estimates)} {bounds}"

    def _interval(self, low: float, high: float) -> str:
        left = "(below" if low == self.lowest else f"[{low:.3g}"
        right = "above)" if high == self.highest else f"{high:.3g}]"
        return f"{left}, {right}"


def crossover(levels: Sequence[float], logs: Floats, places: Floats, *, with_position: bool) -> Crossover | None:
    """`logs` are levels x blocks, levels ascending. None under two levels or without degrees of freedom."""
    blocks = logs.shape[-1]
    model = np.column_stack([np.ones(blocks), places]) if with_position else np.ones((blocks, 1))
    df = blocks - model.shape[1]
    if len(levels) < 2 or df < 1:
        return None
    from scipy.special import stdtrit

    inverse = np.linalg.inv(model.T @ model)
    coefficients = inverse @ model.T @ logs.T
    rest = logs.T - model @ coefficients
    mean, covariance = coefficients[0], rest.T @ rest / df * inverse[0, 0]
    t = float(stdtrit(df, 1 - ALPHA / 2))
    x = np.log(np.asarray(levels, dtype=float))
    kept: list[tuple[float, float]] = []
    zeros: list[float] = []
    for i in range(len(levels) - 1):
        width = x[i + 1] - x[i]
        pair = covariance[np.ix_([i, i + 1], [i, i + 1])]
        kept += [(x[i] + u * width, x[i] + v * width) for u, v in _not_refused(mean[i], mean[i + 1], pair, t)]
        if mean[i] == 0 or mean[i] * mean[i + 1] < 0:
            zeros.append(float(x[i] + width * mean[i] / (mean[i] - mean[i + 1])) if mean[i] else float(x[i]))
            if not any(low <= zeros[-1] <= high for low, high in kept):
                kept.append((zeros[-1], zeros[-1]))
    ends = [_better(mean[i], math.sqrt(covariance[i, i]), t) for i in (0, -1)]
    return Crossover(
        estimates=tuple(math.exp(zero) for zero in zeros),
        intervals=tuple((_load(low, levels), _load(high, levels)) for low, high in _joined(kept)),
        lowest=float(levels[0]),
        highest=float(levels[-1]),
        better_below=ends[0],
        better_above=ends[1],
    )


def _not_refused(left: float, right: float, covariance: Floats, t: float) -> list[tuple[float, float]]:
    """Parts of [0, 1], from the left level to the right one, on which |mean| <= t x its error.

    Both sides squared are polynomials of second degree in the way u: a u^2 + b u + c <= 0.
    """
    step = right - left
    (v_left, v_both), (_, v_right) = covariance
    c = left**2 - t**2 * v_left
    b = 2 * left * step - 2 * t**2 * (v_both - v_left)
    a = step**2 - t**2 * (v_left - 2 * v_both + v_right)
    roots = np.roots([a, b, c]) if a or b else np.array([])
    cuts = [0.0, *sorted(float(r.real) for r in roots if abs(r.imag) < 1e-12 and 0 < r.real < 1), 1.0]

    def below_zero(u: float, v: float) -> bool:
        """Looks where the polynomial is farthest from 0, since it may touch 0 between two cuts."""
        return bool(max(((a * w + b) * w + c for w in (u, (u + v) / 2, v)), key=abs) <= 0)

    return [(u, v) for u, v in pairwise(cuts) if below_zero(u, v)]


def _better(mean: float, error: float, t: float) -> int:
    return int(np.sign(mean)) if abs(mean) > t * error else 0


def _joined(parts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Parts that touch become one."""
    joined: list[tuple[float, float]] = []
    for low, high in parts:
        if joined and low - joined[-1][1] < 1e-9:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _load(x: float, levels: Sequence[float]) -> float:
    """Back from the logarithm; the ends exactly as they were given."""
    return next((float(level) for level in (levels[0], levels[-1]) if abs(math.log(level) - x) < 1e-9), math.exp(x))
