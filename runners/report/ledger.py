# SPDX-License-Identifier: Apache-2.0
"""The ledger: what every contender's engine had in force, read back in each life, compared across contenders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from engines.contract import RowKind
from engines.ledger_rows import LASTING, MUST_MATCH, plain, quoted, same
from runners.config import Bakeoff
from runners.report.record import LedgerEntry, LifeRecord, Run

State = Literal["equal", "unequal (declared)", "unequal", "not read back"]
NOT_READ: Final = "not among what this engine says"


@dataclass(frozen=True)
class ComparedRow:
    """One setting of all contenders, in one dialect; None where an engine did not say it.

    `unequal_to` are the contenders that differ in it from the reference, `note` says in which blocks values
    changed, why one is missing, or what was declared. `kind` is that of `engines.contract.RowKind`. Only an
    "unequal" row that must match forbids a verdict.
    """

    name: str
    kind: str
    values: Mapping[str, str | None]
    state: State
    note: str | None
    source: Mapping[str, str]
    unequal_to: tuple[str, ...] = ()

    @property
    def forbids(self) -> bool:
        return self.state == "unequal" and self.kind == RowKind.MUST_MATCH


@dataclass(frozen=True)
class _Said:
    """What one contender's lives said of one row: plain values by block, entries as written."""

    row: str
    by_block: Mapping[int, str | None]
    entries: Sequence[LedgerEntry]

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The different values in the order of blocks; those that are the same setting once."""
        found: list[str] = []
        for value in self.by_block.values():
            if value is not None and not any(same(self.row, value, other) for other in found):
                found.append(value)
        return tuple(found)

    @property
    def told(self) -> str | None:
        """The value, or every value with its blocks."""
        if len(self.values) < 2:
            return self.values[0] if self.values else None
        return "; ".join(f"{value} ({_blocks(self._in(value))})" for value in self.values)

    def _in(self, value: str) -> list[int]:
        return [block for block, said in self.by_block.items() if said is not None and same(self.row, said, value)]

    @property
    def source(self) -> str:
        return next((e.source for e in self.entries if e.value is not None), "") or next(
            (e.source for e in self.entries), NOT_READ
        )

    def differs(self, other: "_Said") -> bool:
        """In some block that both lived in; or, where a row has to last, in any two of their lives."""
        if self.row in LASTING and (len(self.values) > 1 or len(other.values) > 1):
            return True
        pairs = ((value, other.by_block.get(block)) for block, value in self.by_block.items())
        return any(a is not None and b is not None and not same(self.row, a, b) for a, b in pairs)


def ledger_of(run: Run) -> tuple[ComparedRow, ...]:
    """Every row of a run, those that must match first. Rows that the config declares, or that were
    accepted since, may be unequal."""
    bakeoff = Bakeoff.model_validate(run.config)
    lives = {c.name: [life for life in run.lives if life.contender == c.name] for c in bakeoff.contenders}
    lived = {name: of_one for name, of_one in lives.items() if of_one}
    kinds = {entry.name: entry.kind for life in run.lives for entry in life.ledger}
    names = [*(n for n in MUST_MATCH if n in kinds), *(n for n in kinds if n not in MUST_MATCH)]
    allowed = {**dict.fromkeys(run.accepted, "accepted by --accept-unequal"), **bakeoff.declared}
    return tuple(
        _compared(name, _kind(name, kinds[name]), _said_of(name, lived), bakeoff.reference_name, allowed)
        for name in names
    )


def _kind(name: str, written: str) -> str:
    """An engine that cannot say a row does not change its class for the others."""
    return str(RowKind.MUST_MATCH) if name in MUST_MATCH else written


def _said_of(name: str, lived: Mapping[str, Sequence[LifeRecord]]) -> dict[str, _Said]:
    return {contender: _said(name, lives) for contender, lives in lived.items()}


def _said(name: str, lives: Sequence[LifeRecord]) -> _Said:
    by_block: dict[int, str | None] = {}
    entries: list[LedgerEntry] = []
    for life in sorted(lives, key=lambda life: life.block):
        written = {entry.name: entry.value for entry in life.ledger}
        by_block[life.block] = plain(name, written.get(name), written)
        entries += [entry for entry in life.ledger if entry.name == name]
    return _Said(name, by_block, entries)


def _compared(
    name: str, kind: str, said: Mapping[str, _Said], reference: str, allowed: Mapping[str, str]
) -> ComparedRow:
    base = said.get(reference)
    unequal_to = tuple(c for c, of_one in said.items() if base and c != reference and of_one.differs(base))
    missing = [contender for contender, of_one in said.items() if not of_one.values]
    changing = [contender for contender, of_one in said.items() if len(of_one.values) > 1]
    notes = [f"changed between lives of {contender}" for contender in changing]
    notes += [f"{contender}: {said[contender].source}" for contender in missing]
    state: State = "not read back" if missing else "equal"
    if unequal_to:
        state = "unequal (declared)" if name in allowed else "unequal"
        notes = [allowed[name], *notes] if name in allowed else notes
    values = {contender: of_one.told for contender, of_one in said.items()}
    sources = {contender: of_one.source for contender, of_one in said.items()}
    return ComparedRow(name, kind, values, state, "; ".join(notes) or None, sources, unequal_to)


def forbidding(rows: Sequence[ComparedRow], contender: str) -> list[ComparedRow]:
    """Rows that forbid a verdict on a contender against the reference."""
    return [row for row in rows if row.forbids and contender in row.unequal_to]


def incomparable(rows: Sequence[ComparedRow]) -> dict[str, str]:
    """Why a contender may have no verdict, by its name."""
    names = dict.fromkeys(name for row in rows if row.forbids for name in row.unequal_to)
    return {name: f"unequal {', '.join(row.name for row in forbidding(rows, name))}" for name in names}


def footnotes(rows: Sequence[ComparedRow], contender: str, reference: str) -> list[str]:
    """What a reader of a contender's figures must know of rows that must match: unequal, and why that is allowed."""
    return [
        f"{row.name}: {row.values[contender]} against {row.values[reference]}" + (f" ({row.note})" if row.note else "")
        for row in rows
        if row.kind == RowKind.MUST_MATCH and contender in row.unequal_to
    ]


def remedy(rows: Sequence[ComparedRow], contender: str, reference: str) -> str | None:
    """What a contender's unequal rows are and what to add where that is on purpose; None where it has none."""
    found = forbidding(rows, contender)
    if not found:
        return None
    told = "; ".join(f"{row.name} is {row.values[contender]}, {row.values[reference]} in {reference}" for row in found)
    keys = ", ".join(f"{quoted(row.name)}: WHY" for row in found)
    options = " ".join(f'--accept-unequal "{row.name}"' for row in found)
    return (
        f"{contender} is not comparable with {reference}: {told}. If that is what is compared, add to the config "
        f"`declared: {{{keys}}}`, or for this folder say {options}"
    )


def _blocks(blocks: Sequence[int]) -> str:
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"


def in_reading_order(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Unequal rows first, and of each state those that must match."""
    order: Mapping[str, int] = {"unequal": 0, "unequal (declared)": 1, "not read back": 2, "equal": 3}
    return sorted(rows, key=lambda row: (row.kind != RowKind.MUST_MATCH, order[row.state]))
