# SPDX-License-Identifier: Apache-2.0
"""Looks are planned ahead, and what stops a run that is not decided."""

from pathlib import Path

import pytest
import yaml

from runners.config import Bakeoff, parse_config
from runners.looks import Caps, cap_reached, check_caps, plan_looks, planned_looks
from runners.report.record import LifeRecord, Run
from runners.report.written import write_model, write_once
from runners.results import ResultsError
from tests.test_config import GOOD, written
from tests.test_records import life, record


@pytest.mark.parametrize(
    ("most", "looks"),
    [(None, (4, 6, 10)), (4, (4,)), (5, (4, 5)), (8, (4, 6, 8)), (10, (4, 6, 10)), (20, (4, 6, 10, 20))],
)
def test_the_cap_is_the_last_look(most: int | None, looks: tuple[int, ...]) -> None:
    assert planned_looks(most) == looks


def test_looks_are_written_down_once(tmp_path: Path) -> None:
    write_once(tmp_path / "config.yaml", yaml.safe_dump(GOOD))
    assert plan_looks(tmp_path, Caps(8), resume=False) == (4, 6, 8)
    assert Run.load(tmp_path).looks == (4, 6, 8)
    assert plan_looks(tmp_path, Caps(), resume=True) == (4, 6, 8)
    with pytest.raises(ResultsError, match=r"planned with looks after \(4, 6, 8\) blocks"):
        plan_looks(tmp_path, Caps(10), resume=True)


def test_a_run_begun_without_looks_gets_none(tmp_path: Path) -> None:
    write_model(tmp_path / "lives" / "b01-a" / "life.json", life(record("a", 1, 1.0)))
    with pytest.raises(ResultsError, match="was begun without looks; resume it without --until-decided"):
        plan_looks(tmp_path, Caps(), resume=True)


def priced() -> Bakeoff:
    """a has two GPUs at 3, b one at 4."""
    contenders = [
        {"name": "a", "engine": "x", "gpus": [0, 1]},
        {"name": "b", "engine": "x", "gpus": [0], "price_per_gpu_hour": 4.0},
    ]
    return parse_config(written(contenders=contenders, price_per_gpu_hour=3.0), "x")


def lives(blocks: int) -> tuple[LifeRecord, ...]:
    """Half an hour each."""
    times = {"started_at": "2026-01-01T10:00:00+00:00", "ended_at": "2026-01-01T10:30:00+00:00"}
    return tuple(
        life(record(name, block, 1.0)).model_copy(update=times) for block in range(1, blocks + 1) for name in "ab"
    )


def test_caps_leave_room_for_one_more_block() -> None:
    """Two blocks took 2 h and cost 2 x (0.5 x 6 + 0.5 x 4) = 10; a third one makes it 3 h and 15."""
    bakeoff = priced()
    assert cap_reached(bakeoff, lives(2), Caps(hours=3.0, cost=15.0)) is None
    assert cap_reached(bakeoff, lives(2), Caps(hours=2.9)) == (
        "2.00 of 2.9 hours are spent, one more block would take more than is left"
    )
    assert cap_reached(bakeoff, lives(2), Caps(cost=14.9)) == (
        "10.00 of 14.9 are spent, one more block would cost more than is left"
    )
    assert cap_reached(bakeoff, (), Caps(hours=0.1)) is None


def test_a_cap_in_money_needs_prices() -> None:
    check_caps(priced(), Caps(cost=1.0))
    with pytest.raises(ResultsError, match="--most-cost: a has no price; set its gpus and price_per_gpu_hour"):
        check_caps(parse_config(yaml.safe_dump(GOOD), "x"), Caps(cost=1.0))
