# SPDX-License-Identifier: Apache-2.0
"""A difference split in three, by hand."""

import math
from typing import Any

import pytest

from runners.report.attribution import Part, attribution
from runners.report.record import Run
from tests.test_config import refusal, written
from tests.test_verdicts import run

SQUARE = {"first_runtime": ["a", "b"], "second_runtime": ["c", "d"]}


def square(logs: dict[str, float], square_: dict[str, Any], levels: tuple[int, ...] = (1,)) -> Run:
    rates = {name: {level: [100.0 * math.exp(log)] * 3 for level in levels} for name, log in logs.items()}
    return run(rates, square=square_)


def logs_of(parts: tuple[Part, ...]) -> dict[str, float]:
    return {f"{p.name} {p.of}": round(math.log(p.ratio.value), 9) for p in parts if p.level is None}


def test_runtime_front_end_and_interaction() -> None:
    """Runtime gives 0.3, the front end takes 0.1, and 0.04 more from the second runtime. Runtime and front end
    add up to the corners' difference, 0.16."""
    parts = attribution(square({"a": 0.0, "b": -0.1, "c": 0.3, "d": 0.16}, SQUARE))
    assert logs_of(parts) == {"runtime all four": 0.28, "front end all four": -0.12, "interaction all four": -0.04}
    assert parts[0].ratio.low == pytest.approx(parts[0].ratio.value)
    assert parts[0].ratio.n == 3


def test_two_sides() -> None:
    one = {"first_runtime": ["a", "b"], "second_runtime": [None, None]}
    assert logs_of(attribution(square({"a": 0.0, "b": -0.1}, one))) == {"front end of the first runtime": -0.1}
    corner = {"first_runtime": ["a", "b"], "second_runtime": ["c", None]}
    assert logs_of(attribution(square({"a": 0.0, "b": -0.1, "c": 0.2}, corner))) == {
        "runtime direct": 0.2,
        "front end of the first runtime": -0.1,
    }


def test_each_level_and_only_blocks_with_all_corners() -> None:
    whole = square({"a": 0.0, "b": -0.1}, {"first_runtime": ["a", "b"], "second_runtime": [None, None]}, (1, 2))
    cut = whole.model_copy(
        update={"cells": tuple(c for c in whole.cells if (c.contender, c.block, c.level) != ("b", 1, 2))}
    )
    assert [(p.level, p.ratio.n) for p in attribution(cut)] == [(None, 2), (1, 3), (2, 2)]


def test_nothing_without_a_square() -> None:
    assert attribution(run({"a": {1: [1.0] * 3}, "b": {1: [1.0] * 3}})) == ()


def test_a_square_of_strangers_is_refused() -> None:
    assert "square: no contender is named 'c'; name one of them" in refusal(written(square=SQUARE))
