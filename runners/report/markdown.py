# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table as text, and the lines that stood around it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table. What would end a cell or a line is escaped."""
    return [_line(columns), _line(["---"] * len(columns)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(cell: str) -> str:
    return re.sub(r"\s*\n\s*", " ", cell).replace("|", "\\|")


def grid(lines: Sequence[str]) -> Grid:
    """What `table` wrote, taken apart again.

    >>> grid(table(["a", "b"], [["1", "2 | 3"]])).rows
    (('1', '2 | 3'),)
    """
    cells = [_cells(line) for line in lines if line.startswith("| ")]
    notes = tuple(line for line in lines if line and not line.startswith("| "))
    return Grid(cells[0] if cells else (), tuple(cells[2:]), notes)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.replace("\\|", "|") for cell in re.split(r" (?<!\\)\| ", line[2:-2]))
