# SPDX-License-Identifier: Apache-2.0
"""The simulated servers that the verdicts are checked on, and what counts as a figure kept."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.statistics import Check, World, judged, modes, simulate, wrong
from runners.report.compare import Decision

QUIET = World("", spread=0.0, noise=0.0)


def test_a_world_without_chance_is_its_truth() -> None:
    """Coming second adds 0.1: the contender is first in odd blocks, so the ratio loses it there and gains it else."""
    seen = simulate(replace(QUIET, effect=0.3, place=0.1), 4, 1, np.random.default_rng(0))
    assert seen.places.tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert (seen.contender - seen.reference)[0, 0] == pytest.approx([0.2, 0.4, 0.2, 0.4])


def test_drift_goes_on_from_life_to_life() -> None:
    """Lives 1 to 4 at 0, 1, 2, 3; the contender has the first and the last."""
    seen = simulate(replace(QUIET, drift=1.0), 2, 1, np.random.default_rng(0))
    assert seen.contender[0, 0] == pytest.approx([0.0, 3.0])
    assert seen.reference[0, 0] == pytest.approx([1.0, 2.0])


def test_modes_have_mean_0() -> None:
    values = modes(0.25, 0.1)(np.random.default_rng(0), (100_000,), 0.0)
    assert set(np.round(values, 9).tolist()) == {0.025, -0.075}
    assert values.mean() == pytest.approx(0.0, abs=0.001)


def test_wrong_claims_are_counted_by_grid() -> None:
    """Without spread a true 10% is found everywhere; of no difference nothing is claimed."""
    chance = np.random.default_rng(0)
    found = judged(simulate(replace(QUIET, effect=0.1, levels=3), 6, 5, chance))
    assert (found.declared == Decision.FASTER).all()
    assert wrong(found) == (1.0, 1.0, 1.0)
    assert wrong(judged(simulate(replace(QUIET, levels=3), 6, 5, chance))) == (0.0, 0.0, 0.0)


def test_a_figure_is_missed_beyond_the_error_of_the_simulation() -> None:
    """Of 10,000 runs a share of 5% has a deviation of 0.22%."""
    assert Check("x", 0.056, high=0.05, runs=10_000).kept
    assert not Check("x", 0.058, high=0.05, runs=10_000).kept
    assert not Check("x", 0.78, low=0.80, runs=10_000).kept
    assert Check("x", 0.0).kept
