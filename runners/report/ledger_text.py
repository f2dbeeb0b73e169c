# SPDX-License-Identifier: Apache-2.0
"""The ledger of a run in Markdown and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from engines.contract import RowKind
from runners.report import markdown
from runners.report.ledger import ComparedRow, in_reading_order


def ledger_markdown(rows: Sequence[ComparedRow]) -> str:
    """Rows that must match, unequal ones first; then what each contender is. A dash is "not read back"."""
    parts = (
        ("Must match", [row for row in rows if row.kind == RowKind.MUST_MATCH]),
        ("What each is", [row for row in rows if row.kind == RowKind.IDENTITY]),
        ("Not observable", [row for row in rows if row.kind == RowKind.NOT_OBSERVABLE]),
    )
    sections = [f"## {title}\n\n{_table(of_kind)}\n" for title, of_kind in parts if of_kind]
    return "\n".join(sections) or "No life of this run has a ledger.\n"


def _table(rows: Sequence[ComparedRow]) -> str:
    ordered = in_reading_order(rows)
    contenders = list(ordered[0].values)
    columns = ["setting", "state", *contenders, "note"]
    return "\n".join(markdown.table(columns, [_line(row, contenders) for row in ordered]))


def _line(row: ComparedRow, contenders: Sequence[str]) -> list[str]:
    values = [row.values.get(contender) for contender in contenders]
    return [row.name, row.state, *("-" if value is None else value for value in values), row.note or "-"]


def ledger_json(rows: Sequence[ComparedRow]) -> str:
    return json.dumps([asdict(row) for row in in_reading_order(rows)], indent=2) + "\n"
