# SPDX-License-Identifier: Apache-2.0
"""Money, energy and break-even, by hand."""

import pytest

from runners.gpu_meter import GpuUse
from runners.report.costs import Cost, caught_up_s, costs
from runners.report.record import Capacity, Probe, Run
from tests.test_records import life, record
from tests.test_verdicts import run


def priced(**changes: object) -> Run:
    """a and b have two GPUs at 1.80 an hour each: 0.001 a second. A cell has 130 prompt and 52 output tokens."""
    contenders = [{"name": name, "engine": "x", "gpus": [0, 1]} for name in "ab"]
    whole = run({"a": {1: [100.0] * 2}, "b": {1: [200.0] * 2}})
    lives = tuple(
        life(record(name, block, 1.0)).model_copy(update={"build_s": 60.0 if (name, block) == ("b", 1) else None})
        for block in (1, 2)
        for name in "ab"
    )
    config = {**whole.config, "contenders": contenders, "price_per_gpu_hour": 1.8, **changes}
    return whole.model_copy(update={"config": config, "lives": lives})


def by_name(run_: Run) -> dict[str, Cost]:
    return {cost.contender: cost for cost in costs(run_) if cost.level == 1}


def test_money_per_million_tokens() -> None:
    """0.001 a second / 100 tokens a second is 10 per million; 2.5 prompt tokens come with each."""
    found = by_name(priced())
    a, b = found["a"], found["b"]
    assert a.per_million_output is not None and a.per_million_input is not None and b.per_million_output is not None
    assert a.per_million_output.value == pytest.approx(10.0)
    assert a.per_million_input.value == pytest.approx(4.0)
    assert b.per_million_output.value == pytest.approx(5.0)
    assert a.per_million_output.low == pytest.approx(10.0)


def test_bounds_of_a_price_are_those_of_the_rate_the_other_way_round() -> None:
    whole = run({"a": {1: [90.0, 110.0]}, "b": {1: [1.0, 1.0]}})
    contenders = [{"name": name, "engine": "x", "gpus": [0]} for name in "ab"]
    priced_run = whole.model_copy(
        update={"config": {**whole.config, "contenders": contenders, "price_per_gpu_hour": 3.6}}
    )
    found = by_name(priced_run)["a"].per_million_output
    assert found is not None and found.low is not None and found.high is not None
    assert found.low < found.value < found.high
    assert found.low * found.high == pytest.approx(found.value**2)


def test_without_a_price_or_gpus_there_is_none() -> None:
    assert by_name(priced(price_per_gpu_hour=None))["a"].per_million_output is None
    assert by_name(run({"a": {1: [100.0] * 2}}, price_per_gpu_hour=1.0))["a"].per_million_output is None


def test_energy_per_output_token() -> None:
    """104 J for 52 tokens."""
    whole = priced()
    metered = tuple(c.model_copy(update={"gpu": GpuUse(2, 26.0, 104.0, {})}) for c in whole.cells)
    found = by_name(whole.model_copy(update={"cells": metered}))["a"].joules_per_output_token
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert by_name(whole)["a"].joules_per_output_token is None


def test_a_built_engine_catches_up() -> None:
    """b makes 200 a second from 60 s on, a 100 from the start: even after 120 s."""
    assert caught_up_s(60.0, 200.0, 100.0) == pytest.approx(120.0)
    assert caught_up_s(60.0, 100.0, 100.0) is None
    found = by_name(priced())
    assert found["b"].build_s == 60.0
    assert found["b"].caught_up_s == pytest.approx(120.0)
    assert found["a"].build_s is None
    assert found["a"].caught_up_s is None
    assert found["a"].start_up_s == pytest.approx(2.0)


def test_at_capacity() -> None:
    """1,000 tokens a second at capacity: 1 per million, 0.4 per million prompt tokens."""
    whole = priced()
    probes = (Probe(level=32, missed=None, output_tokens_per_s=1000.0),)
    searched = Capacity(workload="w", level_kind="concurrency", met=32, missed=33, probes=probes)
    lives = tuple(x.model_copy(update={"capacities": (searched,) if x.contender == "a" else ()}) for x in whole.lives)
    (found,) = [cost for cost in costs(whole.model_copy(update={"lives": lives})) if cost.level is None]
    assert found.per_million_output is not None and found.per_million_input is not None
    assert found.per_million_output.value == pytest.approx(1.0)
    assert found.per_million_input.value == pytest.approx(0.4)
