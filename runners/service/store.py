# SPDX-License-Identifier: Apache-2.0
"""What outlives the service: the queue and what became of it, and an index of the results folders. In SQLite."""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

JobState = Literal["queued", "running", "ending", "finished", "failed", "cancelled", "interrupted", "stopped"]
UNDER_WAY: Final = ("running", "ending")
OPEN: Final = ("queued", *UNDER_WAY)
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, config TEXT NOT NULL, state TEXT NOT NULL, place REAL NOT NULL, most_hours REAL NOT NULL,
  resume INTEGER NOT NULL, submitted_at TEXT NOT NULL, started_at TEXT, ended_at TEXT, pid INTEGER, created REAL,
  reason TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS runs (
  id TEXT PRIMARY KEY, signature TEXT NOT NULL, name TEXT NOT NULL, checkpoint TEXT NOT NULL, engines TEXT NOT NULL,
  contenders TEXT NOT NULL, gpu TEXT, verdicts TEXT NOT NULL, day TEXT, ended_at TEXT, lives_done INTEGER NOT NULL,
  lives_planned INTEGER, bundle INTEGER NOT NULL, trouble TEXT
) STRICT;
"""


@dataclass(frozen=True)
class Job:
    """One comparison that was submitted. `place` orders the queue; `pid` and `created` name its process (the time at
    which it was made tells it from a later one of the same number). Times are ISO 8601 in UTC."""

    id: str
    config: str
    state: JobState
    place: float
    most_hours: float
    resume: bool
    submitted_at: str
    started_at: str | None = None
    ended_at: str | None = None
    pid: int | None = None
    created: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Entry:
    """What the list says of a results folder. `engines`, `contenders` and `verdicts` are lists, a line each;
    `lives_planned` is None where looks decide; `trouble` says why the folder could not be read."""

    id: str
    signature: str
    name: str
    checkpoint: str
    engines: str
    contenders: str
    gpu: str | None
    verdicts: str
    day: str | None
    ended_at: str | None
    lives_done: int
    lives_planned: int | None
    bundle: bool
    trouble: str | None = None

    @property
    def whole(self) -> bool:
        return self.lives_planned is not None and self.lives_done >= self.lives_planned


@dataclass(frozen=True)
class Wanted:
    """What a list is narrowed down to; empty is everything."""

    text: str = ""
    model: str = ""
    engine: str = ""
    gpu: str = ""
    verdict: str = ""
    state: str = ""


STATE: Final = (
    "COALESCE(jobs.state, CASE WHEN runs.lives_planned IS NOT NULL AND runs.lives_done >= runs.lives_planned "
    "THEN 'finished' ELSE 'unfinished' END)"
)
COLUMNS: Final[Mapping[str, str]] = {
    "text": "runs.id || ' ' || runs.name || ' ' || runs.contenders || ' ' || runs.checkpoint || ' ' || runs.engines",
    "model": "runs.checkpoint",
    "engine": "runs.engines",
    "gpu": "COALESCE(runs.gpu, '')",
    "verdict": "runs.verdicts",
}


class Store:
    """One SQLite file, for the event loop and the threads beside it."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        with self._lock, closing(self._connection.execute(sql, values)) as found:
            return [dict(row) for row in found.fetchall()]

    def job(self, run: str) -> Job | None:
        return next(iter(self._jobs("WHERE id = ?", (run,))), None)

    def queued(self) -> list[Job]:
        return self._jobs("WHERE state = 'queued' ORDER BY place")

    def under_way(self) -> list[Job]:
        return self._jobs("WHERE state IN ('running', 'ending')")

    def _jobs(self, where: str, values: Sequence[Any] = ()) -> list[Job]:
        rows = self._rows(f"SELECT * FROM jobs {where}", values)  # noqa: S608
        return [Job(**{**row, "resume": bool(row["resume"])}) for row in rows]

    def put(self, job: Job) -> None:
        self._write("jobs", asdict(job))

    def change(self, run: str, **changes: Any) -> Job:
        """Raises KeyError for a job that is not there."""
        job = self.job(run)
        if job is None:
            raise KeyError(run)
        changed = replace(job, **changes)
        self.put(changed)
        return changed

    def order(self, runs: Sequence[str]) -> None:
        """Queued ones take this order; others keep theirs."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            for place, run in enumerate(runs):
                self._connection.execute(
                    "UPDATE jobs SET place = ? WHERE id = ? AND state = 'queued'", (float(place), run)
                )
            self._connection.execute("COMMIT")

    def signatures(self) -> dict[str, str]:
        return {row["id"]: row["signature"] for row in self._rows("SELECT id, signature FROM runs")}

    def index(self, entries: Sequence[Entry], gone: Sequence[str] = ()) -> None:
        """Put entries in and take out those of folders that are gone."""
        for entry in entries:
            self._write("runs", asdict(entry))
        for run in gone:
            self._rows("DELETE FROM runs WHERE id = ? AND id NOT IN (SELECT id FROM jobs)", (run,))

    def entry(self, run: str) -> Entry | None:
        rows = self._rows("SELECT * FROM runs WHERE id = ?", (run,))
        return _entry(rows[0]) if rows else None

    def listed(self, wanted: Wanted, limit: int, offset: int) -> tuple[int, list[tuple[Entry, str]]]:
        """How many there are, and a page of them with their states: what is open first, then the newest."""
        clauses, values = ["1"], []
        for name, column in COLUMNS.items():
            for word in getattr(wanted, name).split():
                clauses.append(f"{column} LIKE ? ESCAPE '\\'")
                values.append(f"%{_literal(word)}%")
        if wanted.state:
            clauses.append(f"{STATE} = ?")
            values.append(wanted.state)
        source = f"FROM runs LEFT JOIN jobs USING (id) WHERE {' AND '.join(clauses)}"
        (count,) = self._rows(f"SELECT COUNT(*) AS n {source}", values)
        first = f"{STATE} IN ('running', 'ending') DESC, {STATE} = 'queued' DESC"
        rows = self._rows(
            f"SELECT runs.*, {STATE} AS state {source} ORDER BY {first}, "
            "COALESCE(jobs.submitted_at, runs.ended_at, runs.day, '') DESC, id DESC LIMIT ? OFFSET ?",
            [*values, limit, offset],
        )
        return count["n"], [(_entry(row), row["state"]) for row in rows]

    def known(self, column: Literal["checkpoint", "gpu", "engines"]) -> list[str]:
        """The different values that runs have, to choose from."""
        rows = self._rows(f"SELECT DISTINCT {column} AS value FROM runs WHERE {column} IS NOT NULL")  # noqa: S608
        return sorted({line for row in rows for line in row["value"].splitlines() if line})

    def _write(self, table: str, values: Mapping[str, Any]) -> None:
        marks = ", ".join(f":{name}" for name in values)
        plain = {name: int(value) if isinstance(value, bool) else value for name, value in values.items()}
        self._rows(f"INSERT OR REPLACE INTO {table} ({', '.join(values)}) VALUES ({marks})", plain)  # noqa: S608


def _entry(row: Mapping[str, Any]) -> Entry:
    known = {field.name: row[field.name] for field in fields(Entry)}
    return Entry(**(known | {"bundle": bool(row["bundle"])}))


def _literal(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
