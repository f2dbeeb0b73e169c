# SPDX-License-Identifier: Apache-2.0
"""The gate in Markdown and JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from runners.report import markdown
from runners.report.equivalence import Equivalence
from runners.report.figures import percentage

COLUMNS: Final = (
    *("contender", "prompts", "starts", "identical", "agreed", "own identical", "first difference", "length"),
    *("finish reasons", "task [95%]", "gate", "reason"),
)


def equivalence_markdown(found: Sequence[Equivalence]) -> str:
    lines = equivalence_lines(found)
    return "\n".join(lines or ["No answers were kept: the config says `gate: false`, or no life has ended."]) + "\n"


def equivalence_lines(found: Sequence[Equivalence]) -> list[str]:
    """The table and how to read it; nothing without answers."""
    if not found:
        return []
    return [
        *markdown.table(COLUMNS, [_cells(e) for e in found]),
        "",
        f"Greedy answers at concurrency 1 beside those of {found[0].reference}: the share of equal answers; how far "
        "they agree before the first difference, as a share of the longer one; `own identical` is from start to start; "
        "the first token that differs, from 0; tokens of its answers / of the reference's.",
    ]


def _cells(e: Equivalence) -> list[str]:
    reasons = ", ".join(f"{name} {count}" for name, count in sorted(e.finish_reasons.items()))
    return [
        e.contender,
        str(e.prompts),
        str(e.starts),
        percentage(e.identical),
        percentage(e.agreed),
        percentage(e.own_identical),
        "-" if e.first_divergence is None else f"{e.first_divergence:g}",
        "-" if e.length_ratio is None else f"{e.length_ratio:.2f}",
        reasons or "-",
        "-" if e.task is None else f"{e.task.share:.1%} [{e.task.low:.1%}, {e.task.high:.1%}]",
        outcome(e),
        e.reason,
    ]


def in_table(e: Equivalence) -> dict[str, float | str | None]:
    """Columns of the table: the share of answers that are the reference's, the reference's own from start to start."""
    is_reference = e.contender == e.reference
    share = e.reference_identical if is_reference else e.identical
    told = [*([] if share is None else [percentage(share)]), *([] if is_reference else [outcome(e)])]
    return {"identical_answers": share, "same_answers": ", ".join(told) or None}


def outcome(e: Equivalence) -> str:
    """In a word."""
    if e.contender == e.reference:
        return "-"
    return {True: "pass", False: "FAIL", None: "undecided"}[e.passed]


def equivalence_json(found: Sequence[Equivalence]) -> str:
    """Shares are of 1."""
    return json.dumps([asdict(e) for e in found], indent=2, allow_nan=False) + "\n"
