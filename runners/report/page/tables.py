# SPDX-License-Identifier: Apache-2.0
"""The report's tables: text for people, the record's own value behind it for sorting and for programs."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runners.config_workload import Level
from runners.report.figures import DASH, number, percentage
from runners.report.ledger import ComparedRow, in_reading_order
from runners.report.markdown import Grid
from runners.report.published_text import Part, rows_of
from runners.report.record import CellRecord, Run
from runners.report.table import Row


@dataclass(frozen=True)
class Cell:
    """`value` is the figure that the text was made of, in the column's unit; `mood` colours it."""

    text: str
    value: float | None = None
    mood: str | None = None


@dataclass(frozen=True)
class Table:
    """`caption` says what it has. Columns whose every cell has a value are numbers."""

    id: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def numeric(self) -> tuple[bool, ...]:
        """By column: some cell has a value."""
        return tuple(any(row[i].value is not None for row in self.rows) for i in range(len(self.columns)))


MOODS = (
    ("faster", "good"),
    ("slower", "bad"),
    ("equal", "even"),
    ("no verdict", "none"),
    ("undecided", "none"),
    ("pass", "good"),
    ("FAIL", "bad"),
    ("fail", "bad"),
)


def mood_of(text: str) -> str | None:
    """Of a cell that is a verdict or an outcome."""
    return next((mood for start, mood in MOODS if text.startswith(start)), None)


def from_grid(name: str, caption: str, found: Grid) -> Table:
    """A table that was text before."""
    rows = tuple(tuple(Cell(text, mood=mood_of(text)) for text in row) for row in found.rows)
    return Table(name, caption, found.columns, rows, tuple(note.replace("`", "") for note in found.notes))


def from_part(part: Part, rows: Sequence[Row]) -> Table:
    """A part of the published table, without the columns of which nothing is known."""
    shown = rows_of(part, rows)
    texts = {column.title: [column.text(row) for row in shown] for column in part.columns}
    known = [column for column in part.columns if set(texts[column.title]) - {DASH}]
    silent = [column.title for column in part.columns if column not in known]
    body = tuple(
        tuple(
            Cell(text := texts[column.title][i], column.numeric(row) if column.numeric else None, mood_of(text))
            for column in known
        )
        for i, row in enumerate(shown)
    )
    name = f"table-{part.title.partition(',')[0].lower()}"
    notes = (f"Nothing is known of: {', '.join(silent)}.",) if silent else ()
    return Table(name, part.title, tuple(column.title for column in known), body, notes)


def matrix(rows: Sequence[Row], contenders: Sequence[str]) -> Table:
    """Throughput per GPU of each contender at each load, with the verdict beside it."""
    measured = [row for row in rows if row.get("level") is not None]
    by_place: dict[tuple[str, str], dict[str, Row]] = {}
    for row in measured:
        place = (row["workload"], str(Level(row["level_kind"], row["level"])))
        by_place.setdefault(place, {})[row["engine"]] = row
    body = tuple(
        (Cell(workload), Cell(load), *(_in_matrix(of.get(name)) for name in contenders))
        for (workload, load), of in by_place.items()
    )
    caption = "Output tokens per second and GPU, with the verdict against the reference at that load"
    return Table("matrix", caption, ("workload", "load", *contenders), body)


def _in_matrix(row: Row | None) -> Cell:
    if row is None:
        return Cell(DASH)
    value = row["output_tokens_per_s_per_gpu"]
    verdict = row["verdict"] or DASH
    short = "no verdict" if verdict.startswith("no verdict") else verdict
    return Cell(f"{number(value, 0)} · {short}", value, mood_of(verdict))


def ledger_table(rows: Sequence[ComparedRow], contenders: Sequence[str]) -> Table:
    """Unequal rows first."""
    body = tuple(
        (
            Cell(row.name),
            Cell(row.state, mood="bad" if row.forbids else None),
            Cell(row.kind),
            *(Cell(row.values.get(name) or DASH) for name in contenders),
            Cell(row.note or DASH),
        )
        for row in in_reading_order(rows)
    )
    caption = "What each engine had in force, read back from it; a dash was not read back"
    return Table("ledger", caption, ("setting", "state", "class", *contenders, "note"), body)


def flags_table(cells: Sequence[CellRecord]) -> Table:
    """Everything that was flagged, cell by cell, with the engine's own words."""
    body = tuple(
        (
            Cell(str(cell.block), cell.block),
            Cell(cell.contender),
            Cell(cell.workload),
            Cell(str(Level(cell.level_kind, cell.level)), cell.level),
            Cell(str(cell.summary.requests_failed), cell.summary.requests_failed),
            Cell(flag.code, mood="bad" if flag.no_verdict else None),
            Cell(flag.detail),
        )
        for cell in cells
        for flag in cell.summary.flags
    )
    columns = ("block", "contender", "workload", "load", "failed requests", "flag", "detail")
    return Table("flags", "Flags and failures, cell by cell; a flag in red forbids a verdict", columns, body)


def client_table(cells: Sequence[CellRecord]) -> Table:
    """The worst of all blocks, by load."""
    body = []
    for key in dict.fromkeys((c.contender, c.workload, c.level_kind, c.level) for c in cells):
        here = [c for c in cells if (c.contender, c.workload, c.level_kind, c.level) == key]
        body.append((Cell(key[0]), Cell(key[1]), Cell(str(Level(key[2], key[3])), key[3]), *_conduct(here)))
    columns = (
        *("contender", "workload", "load", "send lag p99 ms", "lateness p99 ms", "slots idle", "events in one read"),
        *("kernel stamps", "waited for a processor", "real-time", "clock drift ms"),
    )
    return Table("client", "The client's own conduct, the worst of all blocks", columns, tuple(body))


def _conduct(cells: Sequence[CellRecord]) -> Iterator[Cell]:
    proofs = [c.summary.client for c in cells]
    yield _worst([p.send_lag_p99_s for p in proofs], 1e3)
    yield _worst([p.lateness_p99_s for p in proofs], 1e3)
    yield _share(max, [p.slot_idle_share for p in proofs])
    yield _share(max, [p.coalesced_share for p in proofs])
    yield _share(min, [p.kernel_stamps_share for p in proofs])
    yield _share(max, [p.waited_for_cpu_share for p in proofs])
    yield Cell("yes" if all(p.realtime for p in proofs) else "no")
    yield _worst([abs(p.clock_drift_s) for p in proofs], 1e3)


def _worst(values: Sequence[float | None], scale: float) -> Cell:
    known = [v for v in values if v is not None]
    worst = max(known) if known else None
    return Cell(number(worst, 3, scale), None if worst is None else worst * scale)


def _share(pick: Any, values: Sequence[float | None]) -> Cell:
    known = [v for v in values if v is not None]
    share = pick(known) if known else None
    return Cell(percentage(share), share)


@dataclass(frozen=True)
class Commands:
    """How one contender was started: what had to be made, the server, its environment, its files."""

    contender: str
    life: str
    prepare: tuple[str, ...]
    serve: str
    environment: tuple[str, ...]
    files: Mapping[str, str]


def commands_of(run: Run, launches: Mapping[str, Mapping[str, Any]]) -> list[Commands]:
    """Of each contender's first life."""
    found = []
    for name in dict.fromkeys(life.contender for life in run.lives):
        life = next(x for x in run.lives if x.contender == name)
        launch = launches.get(life.name)
        if launch is not None:
            serve = launch["serve"]
            found.append(
                Commands(
                    contender=name,
                    life=life.name,
                    prepare=tuple(shlex.join(command["argv"]) for command in launch["prepare"]),
                    serve=shlex.join(serve["argv"]),
                    environment=tuple(f"{key}={value}" for key, value in serve["env"].items()),
                    files=launch["files"],
                )
            )
    return found
