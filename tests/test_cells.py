# SPDX-License-Identifier: Apache-2.0
"""The order in which lives run."""

from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest
import yaml

from runners.bakeoff import missing_blocks
from runners.cells import balanced, block_orders, expand
from runners.config import parse_config
from tests.test_config import GOOD


def test_every_block_holds_every_cell() -> None:
    workloads = [{**GOOD["workloads"][0], "rates": [0.5]}]
    text = yaml.safe_dump({**GOOD, "blocks": 3, "workloads": workloads})
    lives = expand(parse_config(text, "x"))
    assert [(life.block, life.position) for life in lives] == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    for block in (lives[:2], lives[2:4], lives[4:]):
        assert {life.contender.name for life in block} == {"a", "b"}
    assert [cell.name for cell in lives[0].cells] == ["w-c1", "w-c2", "w-r0.5"]
    assert lives[2].name == f"b02-{lives[2].contender.name}"


@pytest.mark.parametrize("contenders", [1, 2, 3, 4, 5, 6])
def test_positions_are_balanced_in_every_square(contenders: int) -> None:
    """So are six blocks of two, three and six contenders."""
    orders = list(islice(block_orders(contenders, 7), 4 * contenders))
    for start in range(0, len(orders), contenders):
        for position in range(contenders):
            taken = {order[position] for order in orders[start : start + contenders]}
            assert taken == set(range(contenders))
    assert balanced(contenders, 4 * contenders)
    assert [k for k in range(2, 7) if balanced(k, 6)] == [2, 3, 6]


@pytest.mark.parametrize(("contenders", "blocks"), [(2, 2), (3, 6), (4, 4), (5, 10), (6, 6)])
def test_each_follows_each_other_equally_often(contenders: int, blocks: int) -> None:
    followed = Counter(pair for order in islice(block_orders(contenders, 3), blocks) for pair in pairwise(order))
    assert len(followed) == contenders * (contenders - 1)
    assert set(followed.values()) == {blocks // contenders}


def test_the_seed_draws_the_order_and_more_blocks_only_add() -> None:
    first = list(islice(block_orders(3, 1), 6))
    assert list(islice(block_orders(3, 1), 10))[:6] == first
    assert any(list(islice(block_orders(3, seed), 6)) != first for seed in range(2, 6))


def test_the_next_blocks_are_the_first_that_are_not_whole(tmp_path: Path) -> None:
    lives = expand(parse_config(yaml.safe_dump({**GOOD, "blocks": 4}), "x"))

    def mark(name: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    for life in (lives[0], lives[1], lives[4]):
        mark(f"lives/{life.name}/life.json")
    assert [life.block for life in missing_blocks(lives, tmp_path, 2)] == [2, 2, 3, 3]
    assert [life.block for life in missing_blocks(lives, tmp_path, None)] == [2, 2, 3, 3, 4, 4]
    mark("unsupported/a.json")
    mark(f"lives/b{2:02d}-b/life.json")
    mark(f"lives/b{3:02d}-b/life.json")
    assert [life.block for life in missing_blocks(lives, tmp_path, 1)] == [4, 4]
