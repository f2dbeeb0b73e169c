# SPDX-License-Identifier: Apache-2.0
"""What the API takes and gives."""

from dataclasses import asdict
from typing import Annotated

from pydantic import BaseModel, Field

from runners.node_lock import Holder
from runners.service.store import Entry
from runners.service.watch import Status


class Submission(BaseModel):
    """A config, as a file would hold it, and how long its comparison may take."""

    config: str
    most_hours: Annotated[float | None, Field(gt=0, le=1000, allow_inf_nan=False)] = None


class Again(BaseModel):
    most_hours: Annotated[float | None, Field(gt=0, le=1000, allow_inf_nan=False)] = None


class Plan(BaseModel):
    """What a config would start. `minutes` is a guess; `thorough` is false where environments or the checkpoint are
    still to be fetched, so that not all could be checked."""

    name: str
    contenders: list[str]
    lives: int
    cells: int
    minutes: float
    thorough: bool


class RunEntry(BaseModel):
    """A run as the list has it."""

    id: str
    state: str
    name: str
    checkpoint: str
    engines: list[str]
    contenders: list[str]
    gpu: str | None
    verdicts: list[str]
    day: str | None
    ended_at: str | None
    lives_done: int
    lives_planned: int | None
    bundle: bool
    trouble: str | None


class RunList(BaseModel):
    total: int
    runs: list[RunEntry]


class RunDetail(RunEntry):
    status: Status


class Node(BaseModel):
    """Who measures on the node, by whichever way, and what waits here."""

    busy: Holder | None
    queue: list[str]
    allowed: list[str]


class Order(BaseModel):
    runs: Annotated[list[str], Field(max_length=1000)]


def entry_model(entry: Entry, state: str) -> RunEntry:
    lines = {name: getattr(entry, name).splitlines() for name in ("engines", "contenders", "verdicts")}
    return RunEntry(state=state, **{k: v for k, v in (asdict(entry) | lines).items() if k != "signature"})
