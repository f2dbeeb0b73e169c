# SPDX-License-Identifier: Apache-2.0
"""The verdicts against known truth: simulated servers, judged by the code that judges real ones.

    python benchmarks/statistics.py

A simulated life has a rate of its own (start-to-start spread, drift, its place in the block, skew, a slow
mode), each of its cells some noise more. Prints how often intervals hold the truth, how often a difference
is claimed where there is none, and what a number of blocks can show. Exits with 1 where a figure is missed.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

# Run as a script, this folder would come first, and this file would be Python's own module `statistics`.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

from runners.report.compare import (
    ALPHA,
    MODES_SHOW,
    MOST_BLOCKS,
    Decision,
    Floats,
    decide,
    estimate,
    fit,
    further_blocks,
    holm,
    normal_shares,
    split_shares,
)
from runners.report.crossover import crossover

RUNS = 100_000
MARGIN = 0.05
LOOKS = (4, 6, 10)
LEVELS = 8
Chance = np.random.Generator


def gaussian(chance: Chance, shape: tuple[int, ...], deviation: float) -> Floats:
    return np.asarray(chance.normal(0.0, deviation, shape))


def steady(_chance: Chance, shape: tuple[int, ...], _deviation: float) -> Floats:
    return np.zeros(shape)


def outliers(chance: Chance, shape: tuple[int, ...], deviation: float) -> Floats:
    """One life of ten lies 10% off, to either side."""
    off = chance.random(shape) < 0.1
    return gaussian(chance, shape, deviation) + off * np.where(chance.random(shape) < 0.5, -0.1, 0.1)


def skewed(chance: Chance, shape: tuple[int, ...], deviation: float) -> Floats:
    """Exponential, slow side only, mean 0."""
    return deviation - chance.exponential(deviation, shape)


def modes(share: float, gap: float) -> Callable[[Chance, tuple[int, ...], float], Floats]:
    """A share of the lives is slower by a gap; mean 0."""

    def draw(chance: Chance, shape: tuple[int, ...], deviation: float) -> Floats:
        slow = chance.random(shape) < share
        return gaussian(chance, shape, deviation) + gap * (share - slow)

    return draw


@dataclass(frozen=True)
class World:
    """What is true. Deviations are of logs: `spread` from start to start, `noise` from cell to cell. `place` is
    what coming second adds, `drift` what each life later adds, `wander` the deviation of a random walk from life
    to life. The lives of the contender are drawn by `lives`, those of the reference by `others`."""

    name: str
    effect: float = 0.0
    spread: float = 0.02
    noise: float = 0.01
    place: float = 0.0
    drift: float = 0.0
    wander: float = 0.0
    levels: int = 1
    lives: Callable[[Chance, tuple[int, ...], float], Floats] = gaussian
    others: Callable[[Chance, tuple[int, ...], float], Floats] = gaussian


@dataclass(frozen=True)
class Seen:
    """Log rates: runs x levels x blocks, and how many places later the contender came in each block."""

    contender: Floats
    reference: Floats
    places: Floats


def simulate(world: World, blocks: int, runs: int, chance: Chance) -> Seen:
    """Two contenders take turns at being first, in pairs of blocks."""
    first = np.resize([0, 1], blocks)
    slots = np.arange(blocks) * 2
    walk = world.drift * np.arange(2 * blocks) + np.cumsum(gaussian(chance, (runs, 1, 2 * blocks), world.wander), -1)
    sides = []
    for place, draw, effect in ((first, world.lives, world.effect), (1 - first, world.others, 0.0)):
        life = draw(chance, (runs, 1, blocks), world.spread) + world.place * place + walk[..., slots + place]
        sides.append(effect + life + gaussian(chance, (runs, world.levels, blocks), world.noise))
    return Seen(sides[0], sides[1], (first - (1 - first)).astype(float))


def coverage(world: World, blocks: int, chance: Chance) -> tuple[float, float]:
    """How often the 95% interval holds the truth, and how often it does or the scatter is flagged."""
    seen = simulate(world, blocks, RUNS, chance)
    found = fit(seen.contender[:, 0] - seen.reference[:, 0], seen.places)
    held = np.abs(found.mean - world.effect) <= found.half_width()
    flagged = np.zeros(RUNS, dtype=bool)
    for side in (seen.contender, seen.reference):
        shares, _ = split_shares(np.sort(side[:, 0], -1))
        flagged |= shares > np.quantile(normal_shares(blocks), 1 - MODES_SHOW)
    return float(held.mean()), float((held | flagged).mean())


@dataclass(frozen=True)
class Judged:
    """`Decision`s: of the declared comparison by run, of the levels by run and level."""

    declared: np.ndarray
    levels: np.ndarray


def judged(seen: Seen, margin: float = MARGIN, alpha: float = ALPHA) -> Judged:
    """As `runners.report.verdicts` does: the mean over levels, and the levels under Holm."""
    logs = seen.contender - seen.reference
    whole = fit(logs.mean(1), seen.places)
    levels = fit(logs, seen.places, with_position=whole.with_position[:, None])
    return Judged(
        decide(whole.mean, whole.half_width(alpha), whole.p(), margin, alpha),
        decide(levels.mean, levels.half_width(alpha), holm(levels.p()), margin, alpha),
    )


def wrong(found: Judged) -> tuple[float, float, float]:
    """Shares of grids without any difference that claim one: declared, at some level, either."""
    declared = found.declared >= Decision.FASTER
    levels = (found.levels >= Decision.FASTER).any(-1)
    return float(declared.mean()), float(levels.mean()), float((declared | levels).mean())


def until_decided(world: World, chance: Chance) -> tuple[Judged, float]:
    """Looks until the declared comparison is decided; the verdicts then, and the mean number of blocks."""
    seen = simulate(world, LOOKS[-1], RUNS, chance)
    declared, levels = np.zeros(RUNS, dtype=int), np.zeros((RUNS, world.levels), dtype=int)
    blocks, open_still = np.zeros(RUNS), np.ones(RUNS, dtype=bool)
    for look in LOOKS:
        part = Seen(seen.contender[..., :look], seen.reference[..., :look], seen.places[:look])
        found = judged(part, alpha=ALPHA / len(LOOKS))
        declared, levels = (
            np.where(open_still, found.declared, declared),
            np.where(open_still[:, None], found.levels, levels),
        )
        blocks += np.where(open_still, look - blocks, 0)
        open_still &= declared == Decision.UNDECIDED
    return Judged(declared, levels), float(blocks.mean())


def crossing(chance: Chance, runs: int) -> float:
    """How often the interval of a crossover at load 6 holds it: log ratios of 0.1 at 1 fall to -0.1 at 36."""
    levels = [1.0, 6.0, 36.0]
    seen = simulate(World("", levels=3), 6, runs, chance)
    logs = seen.contender - seen.reference + np.array([0.1, 0.0, -0.1])[:, None]
    found = [crossover(levels, of_run, seen.places, with_position=False) for of_run in logs]
    held = [any(low <= 6.0 <= high for low, high in f.intervals) for f in found if f is not None]
    return sum(held) / runs


def foretold(chance: Chance, runs: int) -> tuple[float, float]:
    """Of runs that are undecided at six blocks, a true 4% apart: how many are decided once the most blocks of the
    range foretold were added, and how many already before its least."""
    seen = simulate(World("", effect=0.04), 6 + MOST_BLOCKS, runs, chance)
    logs = (seen.contender - seen.reference)[:, 0]
    by_then, early, undecided = 0, 0, 0
    for of_run in logs:
        ratio = estimate(of_run[:6].tolist(), seen.places[:6].tolist())
        further = further_blocks(ratio, ratio.p, MARGIN) if ratio and decided(of_run, seen.places, 6) is False else None
        if further is None:
            continue
        undecided += 1
        by_then += further.most is None or decided(of_run, seen.places, 6 + further.most)
        early += further.least > 1 and decided(of_run, seen.places, 6 + further.least - 1)
    return by_then / undecided, early / undecided


def decided(logs: Floats, places: Floats, blocks: int) -> bool:
    found = fit(logs[:blocks], places[:blocks])
    return bool(decide(found.mean, found.half_width(), found.p(), MARGIN) != Decision.UNDECIDED)


@dataclass(frozen=True)
class Check:
    """A figure and the bounds that it has to keep; without bounds it is only told."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    runs: int = RUNS

    @property
    def kept(self) -> bool:
        """Within the bounds, or out of them by no more than the simulation's own error (3 deviations)."""
        room = 3 * math.sqrt(max(self.value * (1 - self.value), 1e-9) / self.runs)
        return (self.low is None or self.value >= self.low - room) and (
            self.high is None or self.value <= self.high + room
        )

    def line(self) -> str:
        bounds = ("" if self.low is None else f">= {self.low:.0%} ") + (
            "" if self.high is None else f"<= {self.high:.0%}"
        )
        outcome = "" if self.low is None and self.high is None else "kept" if self.kept else "MISSED"
        return f"| {self.name} | {self.value:.1%} | {bounds.strip() or '-'} | {outcome or '-'} |"


GAUSSIAN = World("2% spread, 1% noise", effect=0.03)
ONE_SIDED = World("one-sided skew: only the contender's lives differ, exponentially", effect=0.03, lives=skewed)


def coverage_checks(chance: Chance) -> Iterator[Check]:
    for blocks in (4, 5, 6, 8, 10):
        yield Check(f"{GAUSSIAN.name}, {blocks} blocks", coverage(GAUSSIAN, blocks, chance)[0], 0.94, 0.96)
    for place in (0.02, 0.05, 0.2):
        held, _ = coverage(replace(GAUSSIAN, place=place), 6, chance)
        yield Check(f"coming second costs {place:.0%}, 6 blocks", held, 0.94)
    for place in (0.01, 0.05):
        held, _ = coverage(replace(GAUSSIAN, place=place), 5, chance)
        yield Check(f"coming second costs {place:.0%}, 5 blocks (not balanced)", held, 0.94)
    held, _ = coverage(replace(GAUSSIAN, drift=0.01), 6, chance)
    yield Check("drift of 1% a life, 6 blocks", held, 0.93)
    held, _ = coverage(replace(GAUSSIAN, wander=0.02), 6, chance)
    yield Check("random walk of 2% a life, 6 blocks", held, 0.93)
    held, _ = coverage(replace(GAUSSIAN, lives=outliers, others=outliers), 6, chance)
    yield Check("one life of ten 10% off to either side, 6 blocks", held, 0.93)
    quiet = replace(ONE_SIDED, others=steady)
    held, flagged = coverage(quiet, 6, chance)
    yield Check(f"{ONE_SIDED.name}, 6 blocks: held or flagged", flagged, 0.90)
    yield Check("  the same, held", held)
    for share in (1 / 2, 1 / 3, 1 / 6):
        slow = World("", effect=0.03, lives=modes(share, 0.1))
        held, flagged = coverage(slow, 6, chance)
        yield Check(f"{share:.0%} of the contender's lives 10% slower, 6 blocks: held or flagged", flagged, 0.90)
        yield Check("  the same, held", held)
    held, flagged = coverage(World("", effect=0.03, spread=0.005, noise=0.005, lives=modes(1 / 3, 0.1)), 6, chance)
    yield Check("33% of lives 10% slower, 0.5% spread: held or flagged", flagged, 0.90)
    yield Check("  the same, held", held)
    yield Check("crossover, 6 blocks", crossing(chance, RUNS // 25), 0.94, 0.96, RUNS // 25)


def error_checks(chance: Chance) -> Iterator[Check]:
    for spread, noise in ((0.02, 0.01), (0.1, 0.01), (0.02, 0.1)):
        world = World("", spread=spread, noise=noise, levels=LEVELS)
        declared, levels, either = wrong(judged(simulate(world, 6, RUNS, chance)))
        name = f"{spread:.0%} spread, {noise:.0%} noise, {LEVELS} levels, 6 blocks"
        yield Check(f"{name}: declared comparison", declared, high=0.05)
        yield Check(f"{name}: some level", levels, high=0.05)
        yield Check(f"{name}: either", either)
        found, _ = until_decided(world, chance)
        declared, levels, either = wrong(found)
        name = f"{spread:.0%} spread, {noise:.0%} noise, {LEVELS} levels, looks after {LOOKS}"
        yield Check(f"{name}: declared comparison", declared, high=0.05)
        yield Check(f"{name}: some level", levels, high=0.05)
        yield Check(f"{name}: either", either)


def power_table(chance: Chance) -> tuple[list[str], list[Check]]:
    """What a number of blocks can show at 2% spread: a true 5%, and no difference."""
    lines = [
        "| blocks | 5% found, one comparison | 5% found, a cell of 8 under Holm | equal within 5% | equal within 2% |",
        "|--:|--:|--:|--:|--:|",
    ]
    checks = []
    true = World("", effect=math.log(1.05))
    equal_alike = {5: 0.67, 6: 0.84, 8: 0.97}
    for blocks in (4, 5, 6, 8, 10, 12):
        one = float((judged(simulate(true, blocks, RUNS, chance)).declared == Decision.FASTER).mean())
        grid = judged(simulate(replace(true, levels=LEVELS), blocks, RUNS // 4, chance))
        cells = float((grid.levels == Decision.FASTER).mean())
        alike = simulate(World("", noise=0.0), blocks, RUNS, chance)
        five, two = (float((judged(alike, m).declared == Decision.EQUAL).mean()) for m in (0.05, 0.02))
        lines.append(f"| {blocks} | {one:.0%} | {cells:.0%} | {five:.0%} | {two:.0%} |")
        if blocks == 6:
            checks.append(Check("a true 5% found with six blocks in one comparison", one, low=0.80))
        if blocks == 8:
            checks.append(Check("a true 5% found with eight blocks under Holm over 8 cells", cells, low=0.80))
        if blocks in equal_alike:
            told = equal_alike[blocks]
            checks.append(Check(f"equal within 5% at no difference, {blocks} blocks", five, told - 0.01, told + 0.01))
    by_then, early = foretold(chance, RUNS // 100)
    checks.append(Check("undecided at six blocks, decided after the most further blocks foretold", by_then))
    checks.append(Check("  the same, decided before the least", early))
    found, blocks_taken = until_decided(true, chance)
    share = float((found.declared == Decision.FASTER).mean())
    lines.append(f"| looks {LOOKS}, {blocks_taken:.1f} on average | {share:.0%} | - | - | - |")
    return lines, checks


def main() -> int:
    began = time.monotonic()
    chance = np.random.default_rng(2026)
    checks: list[Check] = []
    parts = {"How often 95% intervals hold the truth": coverage_checks, "A difference claimed in A/A": error_checks}
    for title, of in parts.items():
        print(f"{title}\n\n| case | share | bound | |\n|---|--:|---|---|")
        for check in of(chance):
            print(check.line(), flush=True)
            checks.append(check)
        print()
    lines, powers = power_table(chance)
    print("What blocks can show, at 2% spread (1% noise within runs; none for `equal`)\n")
    print("\n".join(lines))
    print("\n| figure | share | bound | |\n|---|--:|---|---|")
    print("\n".join(check.line() for check in powers))
    missed = [check.name for check in (*checks, *powers) if not check.kept]
    print(f"\n{RUNS} simulated runs a figure, {time.monotonic() - began:.0f} s; missed: {'; '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
