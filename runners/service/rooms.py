# SPDX-License-Identifier: Apache-2.0
"""What the pages and the API both work with, and how they find a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request

from runners.errors import MendableError
from runners.service.desk import Desk
from runners.service.keys import Keys
from runners.service.priority import Backroom
from runners.service.problems import Problem
from runners.service.queue import Queue
from runners.service.settings import Settings
from runners.service.shelf import Content, Shelf
from runners.service.store import Entry, Job, Store
from runners.service.watch import Watch

T = TypeVar("T")


@dataclass(frozen=True)
class Rooms:
    settings: Settings
    store: Store
    queue: Queue
    desk: Desk
    watch: Watch
    shelf: Shelf
    keys: Keys
    backroom: Backroom

    async def entry(self, run: str) -> Entry:
        """Raises Problem for a run that is not there."""
        await self.desk.index()
        found = self.store.entry(run)
        if found is None:
            raise Problem(404, "there is no run of that name; /api/v1/runs has all")
        return found

    def folder(self, entry: Entry) -> Path:
        """Only what the index found in the results folder has one: no name that somebody sent is made into a path."""
        return self.settings.results / entry.id

    async def content(self, entry: Entry) -> Content:
        """Raises Problem where nothing is finished yet, or the records cannot be read."""
        return await self._of_records(self.shelf.content, entry)

    async def report(self, entry: Entry) -> str:
        """The report's HTML. Raises Problem as `content` does."""
        return await self._of_records(self.shelf.report, entry)

    async def _of_records(self, make: Callable[[Path, str], T], entry: Entry) -> T:
        if entry.lives_done == 0:
            raise Problem(409, f"{entry.id} has no finished server life yet")
        try:
            return await self.backroom.do(make, self.folder(entry), entry.signature)
        except MendableError as error:
            told = str(error).replace(f"{self.settings.results}/", "")
            raise Problem(409, f"the records of {entry.id} cannot be read", told.splitlines()) from None

    def job(self, run: str) -> Job | None:
        return self.store.job(run)


def rooms_of(request: Request) -> Rooms:
    found: Any = request.app.state.rooms
    assert isinstance(found, Rooms)
    return found
