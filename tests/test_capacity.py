# SPDX-License-Identifier: Apache-2.0
"""The search for capacity, and what searches come to."""

import math

import pytest

from runners.capacity import probe_requests, search
from runners.config_judging import CapacityConfig, LimitConfig
from runners.report.capacities import capacities
from runners.report.record import Capacity, Probe, Run
from tests.test_config import workload as workloads
from tests.test_config import written
from tests.test_records import WORKLOAD, life, record
from tests.test_verdicts import run


def searched(truth: float, plan: CapacityConfig) -> tuple[Capacity, list[float]]:
    """Levels up to `truth` meet the limits."""
    asked: list[float] = []

    def probe(level: float) -> Probe:
        asked.append(level)
        return Probe(level=level, missed=None if level <= truth else "late", output_tokens_per_s=10.0 * level)

    return search("w", plan, probe), asked


PLAN = CapacityConfig(start=8, most=64, resolution=0.05)


@pytest.mark.parametrize(
    ("truth", "asked", "met", "missed"),
    [
        (20, [8, 16, 32, 23, 19, 21, 20], 20, 21),
        (8, [8, 16, 11, 9], 8, 9),
        (3, [8, 4, 2, 3], 3, 4),
        (0, [8, 4, 2, 1], None, 1),
        (99, [8, 16, 32, 64], 64, None),
    ],
)
def test_bracketing_then_bisection(truth: int, asked: list[int], met: int | None, missed: int | None) -> None:
    """sqrt(16 x 32) = 22.6; sqrt(16 x 23) = 19.2; sqrt(19 x 23) = 20.9; 21 is 5% above 20."""
    found, tried = searched(truth, PLAN)
    assert tried == asked
    assert (found.met, found.missed) == (met, missed)


def test_the_bracket_is_as_narrow_as_asked() -> None:
    found, _ = searched(300, CapacityConfig(start=8, most=1024, resolution=0.1))
    assert found.met is not None and found.missed is not None
    assert found.met <= 300 < found.missed <= 1.1 * found.met


def test_a_search_for_a_rate() -> None:
    """Halved until 2.5 holds, then sqrt(2.5 x 5) = 3.54, sqrt(2.5 x 3.54) = 2.97, sqrt(2.97 x 3.54) = 3.24."""
    plan = CapacityConfig(of="rate", start=10, most=40, resolution=0.1)
    found, tried = searched(3.0, plan)
    assert tried == pytest.approx([10, 5, 2.5, 3.5355, 2.9730, 3.2421], abs=1e-3)
    assert found.level_kind == "rate"
    assert found.met == pytest.approx(2.973, abs=1e-3)
    assert found.missed == pytest.approx(3.2421, abs=1e-3)
    nothing, tried = searched(0.0, plan)
    assert nothing.met is None
    assert tried[-1] == pytest.approx(10 / 64)


def test_a_probe_is_long_enough_for_its_percentile() -> None:
    """368 requests for p99 and room; limits at one level do not count."""
    p99 = LimitConfig(metric="e2e", percentile=99, at_most_s=1.0)
    p50 = LimitConfig(metric="e2e", percentile=50, at_most_s=1.0)
    assert probe_requests(WORKLOAD.model_copy(update={"limits": (p50, p99)})) == math.ceil(1.3 * 368)
    at_one = p99.model_copy(update={"concurrency": 1})
    assert probe_requests(WORKLOAD.model_copy(update={"limits": (p50, at_one)})) == math.ceil(1.3 * 6)


def with_searches(*found: tuple[int | None, int | None]) -> Run:
    lives = tuple(
        life(record("a", block, 1.0)).model_copy(
            update={
                "capacities": (
                    Capacity(
                        workload="w",
                        level_kind="concurrency",
                        met=met,
                        missed=missed,
                        probes=(Probe(level=met or 1, missed=None, output_tokens_per_s=100.0),),
                    ),
                )
            }
        )
        for block, (met, missed) in enumerate(found, start=1)
    )
    return run({"a": {1: [1.0]}, "b": {1: [1.0]}}).model_copy(update={"lives": lives})


def test_the_interval_is_on_the_logarithm_over_blocks() -> None:
    """10, 20, 40: mean log 20, deviation log 2, t(0.975, 2) = 4.302653."""
    (found,) = capacities(with_searches((10, 11), (20, 21), (40, 41)))
    factor = math.exp(4.302652729911275 * math.log(2) / math.sqrt(3))
    assert found.value == pytest.approx(20.0)
    assert (found.low, found.high) == pytest.approx((20.0 / factor, 20.0 * factor))
    assert found.output_tokens_per_s is not None
    assert found.output_tokens_per_s.value == pytest.approx(100.0)
    assert found.text() == f"20 [{20 / factor:.3g}, {20 * factor:.3g}]"


def test_an_open_bracket_widens_the_interval() -> None:
    """Up to 10, 20 and 40 for sure, perhaps up to twice as much."""
    (found,) = capacities(with_searches((10, 21), (20, 41), (40, 81)))
    factor = math.exp(4.302652729911275 * math.log(2) / math.sqrt(3))
    assert found.value == pytest.approx(20.0)
    assert (found.low, found.high) == pytest.approx((20.0 / factor, 40.0 * factor))


def test_searches_without_an_end() -> None:
    (above,) = capacities(with_searches((64, None), (60, 62)))
    assert above.at_least
    assert above.text().startswith("at least 62 [")
    assert above.text().endswith(", above)")
    (below,) = capacities(with_searches((None, 1), (2, 3)))
    assert below.text() == "none: level 1 misses a limit in block 1"
    (once,) = capacities(with_searches((8, 9)))
    assert once.text() == "8 one block has no spread"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": {}}, "workloads.w.capacity: needs a limit without a level; say what has to be met"),
        ({"goodput_at_least": 0.9}, "workloads.w.goodput_at_least: needs limits; say what a good request is"),
        (
            {"limits": [{"metric": "e2e", "percentile": 95, "at_most_s": 5, "concurrency": 24}]},
            "workloads.w.limits: p95 e2e <= 5 s: its level is none of the workload's",
        ),
        ({"limits": [{"metric": "e2e", "percentile": 90, "at_most_s": 5}]}, "percentile: 90"),
        ({"limits": [{"metric": "e2e", "percentile": 95, "at_most_s": 0}]}, "at_most_s: 0"),
        ({"capacity": {"start": 8, "most": 4}}, "start 8 is above most 4; exchange them"),
        ({"capacity": {"start": 8.5}}, "start and most are requests in flight: whole numbers; or set of: rate"),
        (
            {"limits": [{"metric": "e2e", "percentile": 95, "at_most_s": 5, "concurrency": 1, "rate": 2}]},
            "concurrency and rate: a limit holds at one of them; write two limits",
        ),
    ],
)
def test_configs_that_are_refused(changes: dict[str, object], message: str) -> None:
    from tests.test_config import refusal

    assert message in refusal(written(workloads=workloads(**changes)))
