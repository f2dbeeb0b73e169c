# SPDX-License-Identifier: Apache-2.0
"""The statistics of a verdict: paired log ratios over blocks, Student's t, Holm, the ordered decision.

Arrays have one value a block on their last axis; what is in front of it (levels, simulated runs) is
computed side by side, so `benchmarks/statistics.py` tests the very code that judges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ALPHA: Final = 0.05
FEWEST_FOR_POSITION: Final = 4
POSITION_SHOWS: Final = 0.0005
"""In a balanced plan the term for position does not move the estimate and costs a degree of freedom (at six blocks
a true 5% is then found in 78% instead of 84% of comparisons), so it joins only where it shows. The bar is high since
choosing by the data costs error: at 0.01 a wrong difference would be claimed in 5.5% at four blocks."""
LEANS: Final = 0.25
MODES_SHOW: Final = 0.05
MOST_BLOCKS: Final = 200
PLANNING: Final = 0.1
"""Further blocks are foretold for spreads between the bounds of an 80% interval."""


class Decision(IntEnum):
    UNDECIDED = 0
    EQUAL = 1
    FASTER = 2
    SLOWER = 3


@dataclass(frozen=True)
class Fit:
    """Mean log ratios, their standard errors and degrees of freedom. `position` is what one place later
    in a block adds to the log ratio, NaN where it cannot be told; `with_position` where it is in the model."""

    mean: Floats
    error: Floats
    df: Floats
    position: Floats
    position_p: Floats
    with_position: NDArray[np.bool_]

    def half_width(self, alpha: float = ALPHA) -> Floats:
        from scipy.special import stdtrit

        return np.asarray(stdtrit(self.df, 1 - alpha / 2) * self.error)

    def p(self) -> Floats:
        return _two_sided(self.mean, self.error, self.df)


def fit(logs: Floats, places: Floats, *, with_position: NDArray[np.bool_] | bool | None = None) -> Fit:
    """Mean over the last axis by least squares, on a constant and `places`: how many places later in its
    block than the reference a contender came.

    From four blocks on the term for position is in the model where it differs from 0 at p <= 0.0005, or where the
    places lean to one side (their mean is above a quarter of their root mean square). `with_position` says so
    instead: levels take it from the mean over them, since chance has a try at each. Equal log ratios have no
    spread: their error is 0.
    """
    n = logs.shape[-1]
    if n < 2:
        raise ValueError("one block has no spread")
    centre = places.mean()
    around = places - centre
    square = float(around @ around)
    mean = logs.mean(-1)
    rest = _squares(logs - mean[..., None])
    plain = np.sqrt(rest / (n - 1) / n)
    if n < FEWEST_FOR_POSITION or square == 0:
        unknown = np.full_like(mean, np.nan)
        return Fit(mean, plain, np.full_like(mean, n - 1), unknown, unknown, np.zeros_like(mean, dtype=bool))
    slope = (logs - mean[..., None]) @ around / square
    variance = _squares(logs - mean[..., None] - slope[..., None] * around) / (n - 2)
    slope_p = _two_sided(slope, np.sqrt(variance / square), np.full_like(mean, n - 2))
    chosen = slope_p <= POSITION_SHOWS if with_position is None else np.broadcast_to(with_position, mean.shape)
    if with_position is None and abs(centre) > LEANS * math.sqrt(float(places @ places) / n):
        chosen = np.ones_like(mean, dtype=bool)
    adjusted = np.sqrt(variance * (1 / n + centre**2 / square))
    return Fit(
        mean=mean - np.where(chosen, slope * centre, 0.0),
        error=np.where(chosen, adjusted, plain),
        df=np.where(chosen, n - 2.0, n - 1.0),
        position=slope,
        position_p=slope_p,
        with_position=chosen,
    )


def _squares(values: Floats) -> Floats:
    return np.asarray((values**2).sum(-1))


def _two_sided(value: Floats, error: Floats, df: Floats) -> Floats:
    """p of "the value is 0"; without any error 0, or 1 where the value is 0."""
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(value) / error
    return np.asarray(np.where(np.isnan(t), 1.0, 2 * stdtr(df, -np.nan_to_num(t, posinf=np.inf))))


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjustment (Scandinavian Journal of Statistics 6, 1979) along the last axis.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, -1)
    ranked = np.take_along_axis(p_values, order, -1)
    stepped = np.minimum(1.0, ranked * np.arange(ranked.shape[-1], 0, -1))
    adjusted = np.empty_like(ranked)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(stepped, -1), -1)
    return adjusted


def decide(mean: Floats, half: Floats, p_holm: Floats, margin: float, alpha: float = ALPHA) -> NDArray[np.int64]:
    """`Decision`s, in this order: the interval lies inside +-margin; p is small; undecided."""
    equal = np.abs(mean) + half <= math.log1p(margin)
    shown = np.where(mean > 0, Decision.FASTER, Decision.SLOWER)
    return np.asarray(np.where(equal, Decision.EQUAL, np.where(p_holm <= alpha, shown, Decision.UNDECIDED)))


@dataclass(frozen=True)
class Estimate:
    """A geometric mean with its two-sided interval; None bounds where one value is all there is."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int


def estimate(
    logs: Sequence[float], places: Sequence[float], alpha: float = ALPHA, *, with_position: bool | None = None
) -> Estimate | None:
    """What the log ratios of one comparison say; None of none."""
    if not logs:
        return None
    if len(logs) == 1:
        return Estimate(math.exp(logs[0]), None, None, None, 1)
    found = fit(np.asarray(logs, dtype=float), np.asarray(places, dtype=float), with_position=with_position)
    mean, half = float(found.mean), float(found.half_width(alpha))
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), float(found.p()), len(logs))


def geometric(values: Sequence[float]) -> Estimate | None:
    """Geometric mean of positive values, t interval on the log scale, p of "the mean is 1"."""
    if not values or min(values) <= 0:
        return None
    return estimate([math.log(v) for v in values], [0.0] * len(values))


def geometric_of_all(values: Sequence[float | None]) -> Estimate | None:
    """`geometric`, or None where any value is unknown."""
    known = [v for v in values if v is not None]
    return geometric(known) if len(known) == len(values) else None


def verdict(ratio: Estimate, p_holm: float | None, margin: float, alpha: float = ALPHA) -> str:
    """In this order: equal within the margin, faster or slower, undecided."""
    if ratio.low is None or ratio.high is None or p_holm is None:
        return "no verdict: one block has no spread"
    half = np.asarray(math.log(ratio.high / ratio.low) / 2)
    decision = int(decide(np.asarray(math.log(ratio.value)), half, np.asarray(p_holm), margin, alpha))
    if decision == Decision.EQUAL:
        return f"equal within {margin:.0%}"
    if decision == Decision.UNDECIDED:
        return "undecided"
    change = ratio.value - 1.0
    return f"{'faster' if change > 0 else 'slower'} by {abs(change):.1%}"


@dataclass(frozen=True)
class Further:
    """Blocks that a decision may still take; `most` is None beyond MOST_BLOCKS."""

    least: int
    most: int | None


def further_blocks(ratio: Estimate, p_holm: float | None, margin: float, alpha: float = ALPHA) -> Further | None:
    """The range of further blocks until a decision, were the ratio what it looks like.

    The spread over blocks is known badly from few of them, so the range spans its 80% interval (chi
    square). None where one block has no spread.
    """
    if ratio.low is None or ratio.high is None or not ratio.p or p_holm is None:
        return None
    from scipy.special import chdtri, stdtrit

    df = ratio.n - 1
    half = math.log(ratio.high / ratio.low) / 2
    spread = half / float(stdtrit(df, 1 - alpha / 2)) * math.sqrt(ratio.n)
    least, most = (
        _blocks_needed(ratio, spread * math.sqrt(df / float(chdtri(df, tail))), p_holm / ratio.p, margin, alpha)
        for tail in (PLANNING, 1 - PLANNING)
    )
    return None if least is None else Further(least, most)


def _blocks_needed(ratio: Estimate, spread: float, holm_factor: float, margin: float, alpha: float) -> int | None:
    from scipy.special import stdtrit

    blocks = np.arange(ratio.n + 1, MOST_BLOCKS + 1)
    effect = abs(math.log(ratio.value))
    error = spread / np.sqrt(blocks)
    equal = effect + stdtrit(blocks - 1, 1 - alpha / 2) * error <= math.log1p(margin)
    shown = stdtrit(blocks - 1, 1 - alpha / max(holm_factor, 1.0) / 2) * error <= effect
    decided = np.flatnonzero(equal | shown)
    return int(blocks[decided[0]]) - ratio.n if decided.size else None


@dataclass(frozen=True)
class Groups:
    """Lives that fall in two: indices of the smaller group (of the lower one of two equals), its
    geometric mean over that of the others, and how often normal values look as divided as this."""

    apart: tuple[int, ...]
    ratio: float
    p: float

    @property
    def modes(self) -> bool:
        """Two of a kind on either side; else one life is an outlier."""
        return len(self.apart) > 1


def two_groups(logs: Sequence[float]) -> Groups | None:
    """The split of log values that explains most of their squares, where that is rare among normal ones.

    Engelman and Hartigan, Percentage Points of a Test for Clusters, JASA 64 (1969).
    """
    if len(logs) < FEWEST_FOR_POSITION:
        return None
    values = np.asarray(logs, dtype=float)
    order = np.argsort(values)
    shared, cut = split_shares(values[order])
    p = float((normal_shares(len(logs)) >= shared).mean())
    if p > MODES_SHOW:
        return None
    low, high = order[: int(cut)], order[int(cut) :]
    apart, others = (low, high) if len(low) <= len(high) else (high, low)
    return Groups(tuple(sorted(apart.tolist())), math.exp(float(values[apart].mean() - values[others].mean())), p)


def split_shares(ordered: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Share of all squares that the best split of sorted values explains, and the size of its lower part."""
    n = ordered.shape[-1]
    sizes = np.arange(1, n)
    centred = ordered - ordered.mean(-1, keepdims=True)
    below = np.cumsum(centred, -1)[..., :-1]
    between = below**2 * n / (sizes * (n - sizes))
    whole = np.maximum(_squares(centred), np.finfo(float).tiny)
    return np.asarray(between.max(-1) / whole), np.asarray(between.argmax(-1) + 1)


@cache
def normal_shares(n: int) -> Floats:
    """`split_shares` of normal samples of n, drawn once from a fixed seed."""
    return split_shares(np.sort(np.random.default_rng(n).standard_normal((20_000, n)), -1))[0]
