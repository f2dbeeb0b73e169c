# SPDX-License-Identifier: Apache-2.0
"""Expands a config into server lives and their cells, in the order in which they run."""

from dataclasses import dataclass

from runners.config import Bakeoff, ContenderConfig, Level, WorkloadConfig


@dataclass(frozen=True)
class Cell:
    """Contender x workload x level within one server life. `block` counts from 1."""

    block: int
    contender: str
    workload: WorkloadConfig
    level: Level

    @property
    def name(self) -> str:
        """File name of the cell within its life."""
        return f"{self.workload.name}-{self.level.name}"


@dataclass(frozen=True)
class Life:
    """One start of one contender: `position` is its place in the block, from 1."""

    block: int
    position: int
    contender: ContenderConfig
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        return f"b{self.block:02d}-{self.contender.name}"


def expand(bakeoff: Bakeoff) -> tuple[Life, ...]:
    """Every block starts every contender once, one place later than in the block before.

    So each contender takes each position equally often where `blocks` is a multiple of their number.
    """
    return tuple(
        _life(bakeoff, block, position, contender)
        for block in range(1, bakeoff.blocks + 1)
        for position, contender in enumerate(_rotated(bakeoff.contenders, block - 1), start=1)
    )


def _rotated(contenders: tuple[ContenderConfig, ...], by: int) -> tuple[ContenderConfig, ...]:
    turn = by % len(contenders)
    return contenders[turn:] + contenders[:turn]


def _life(bakeoff: Bakeoff, block: int, position: int, contender: ContenderConfig) -> Life:
    cells = tuple(
        Cell(block, contender.name, workload, level) for workload in bakeoff.workloads for level in workload.levels
    )
    return Life(block, position, contender, cells)
