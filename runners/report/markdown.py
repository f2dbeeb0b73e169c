# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [_line(columns), _line(["---"] * len(columns)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
