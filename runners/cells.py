# SPDX-License-Identifier: Apache-2.0
"""Expands a config into server lives and their cells, in the order in which they run."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from runners.config import Bakeoff, ContenderConfig
from runners.config_workload import Level, WorkloadConfig
from runners.report.layout import cell_name, life_name


@dataclass(frozen=True)
class Cell:
    """Contender x workload x level within one server life. `block` counts from 1; `purpose` as in its record."""

    block: int
    contender: str
    workload: WorkloadConfig
    level: Level
    purpose: Literal["planned", "capacity"] = "planned"

    @property
    def name(self) -> str:
        """File name of the cell within its life."""
        return cell_name(self.workload.name, self.purpose, self.level)


@dataclass(frozen=True)
class Life:
    """One start of one contender: `position` is its place in the block, from 1."""

    block: int
    position: int
    contender: ContenderConfig
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        return life_name(self.block, self.contender.name)


def expand(bakeoff: Bakeoff, looks: Sequence[int] = ()) -> tuple[Life, ...]:
    """Every block starts every contender once, in an order drawn from the seed. With looks there are blocks up to
    the last of them."""
    orders = islice(block_orders(len(bakeoff.contenders), bakeoff.seed), looks[-1] if looks else bakeoff.blocks)
    return tuple(
        _life(bakeoff, block, position, bakeoff.contenders[index])
        for block, order in enumerate(orders, start=1)
        for position, index in enumerate(order, start=1)
    )


def block_orders(contenders: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Endless orders of so many contenders, square after square, each with its rows and names shuffled.

    Within a square every contender takes every position once. The squares are Williams' (Australian
    Journal of Scientific Research A2, 1949): for an even number each contender also follows each other one
    once a square, for an odd number once in two squares.
    """
    chance = random.Random(f"orders {seed}")
    names = list(range(contenders))
    zigzag = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(contenders)]
    while True:
        chance.shuffle(names)
        for mirrored in (False, True) if contenders % 2 else (False,):
            first = zigzag[::-1] if mirrored else zigzag
            rows = [tuple(names[(place + turn) % contenders] for place in first) for turn in range(contenders)]
            chance.shuffle(rows)
            yield from rows


def balanced(contenders: int, blocks: int) -> bool:
    """Every contender takes every position equally often."""
    return blocks % contenders == 0


def _life(bakeoff: Bakeoff, block: int, position: int, contender: ContenderConfig) -> Life:
    cells = tuple(
        Cell(block, contender.name, workload, level) for workload in bakeoff.workloads for level in workload.levels
    )
    return Life(block, position, contender, cells)
