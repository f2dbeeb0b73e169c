# SPDX-License-Identifier: Apache-2.0
"""Servers that differ from what a config asks for, on purpose, and their ledgers beside one that does not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from engines.contract import LedgerRow, Prompt
from engines.launch import Launch
from runners.load.transport import transport_of
from runners.own_rows import Given
from runners.report.ledger import ComparedRow, ledger_of
from runners.report.record import LedgerEntry, Run
from runners.session import Session
from runners.verify import verify
from tests.test_records import life, record

Change = Callable[[Launch], Launch]
NAME = "staged"


def with_flags(**changes: str | None) -> Change:
    """Server flags by name, with underscores: another value, or None to take a flag away with its value."""

    def change(launch: Launch) -> Launch:
        argv = list(launch.serve.argv)
        for name, value in changes.items():
            flag = f"--{name.replace('_', '-')}"
            if value is None:
                at = argv.index(flag)
                del argv[at : at + 2]
            elif flag in argv:
                argv[argv.index(flag) + 1] = value
            else:
                argv += [flag, value]
        return replace(launch, serve=replace(launch.serve, argv=tuple(argv)))

    return change


def rows_of(
    session: Session, contender: str, folder: Path, prompt: Prompt, longest: int, change: Change
) -> tuple[LedgerRow, ...]:
    """The ledger of one start of a contender whose launch was changed."""
    of_it = next(life for life in session.lives if life.contender.name == contender)
    contestant = session.contestants[contender]
    launch = change(session.plan(of_it, folder, NAME))
    given = Given(contestant.checkpoint, (), None)
    with contestant.runner.up(launch, folder) as server:
        transport = transport_of(server.address("http"), "http")
        return verify(
            server, transport, contestant.engine, NAME, longest, prompt, session.rendering, given=given
        ).ledger


def compared(config: Mapping[str, Any], rows: Mapping[str, Sequence[LedgerRow]]) -> dict[str, ComparedRow]:
    """The rows of contenders, each of one life, as a run's ledger has them."""
    lives = tuple(
        life(record(name, 1, 1.0)).model_copy(update={"ledger": tuple(_entry(row) for row in of_one)})
        for name, of_one in rows.items()
    )
    run = Run(config=yaml.safe_load(yaml.safe_dump(dict(config))), lives=lives, cells=())
    return {row.name: row for row in ledger_of(run)}


def _entry(row: LedgerRow) -> LedgerEntry:
    return LedgerEntry(name=row.name, value=row.value, source=row.source, kind=row.kind)
