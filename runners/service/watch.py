# SPDX-License-Identifier: Apache-2.0
"""A run as it goes on, for as many watchers as like: it is looked at once for all of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Final

from runners.config import ConfigError, parse_config
from runners.service.priority import Backroom
from runners.service.progress import Progress, progress_of
from runners.service.queue import Queue
from runners.service.settings import Settings
from runners.service.shelf import redacted
from runners.service.store import OPEN, Store

LOOK_S: Final = 1.0
ALIVE_S: Final = 15.0
LINES: Final = 14
MOST_WATCHERS: Final = 1000


@dataclass(frozen=True)
class Status:
    """A run as it is. `place` counts from 1 in the queue; `said` are the last lines of a run that was started here."""

    state: str
    reason: str | None
    place: int | None
    started_at: str | None
    ended_at: str | None
    progress: Progress | None
    said: tuple[str, ...]


class Watch:
    """Looks at runs that somebody watches, once a second each."""

    def __init__(self, settings: Settings, store: Store, queue: Queue, backroom: Backroom) -> None:
        self._settings, self._store, self._queue, self._backroom = settings, store, queue, backroom
        self._watchers: dict[str, set[asyncio.Queue[str | None]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._last: dict[str, str] = {}

    @property
    def watchers(self) -> int:
        """Of all runs."""
        return sum(map(len, self._watchers.values()))

    async def status(self, run: str) -> Status:
        """Raises KeyError for a run that is not there."""
        return await self._backroom.do(self._look, run)

    def _look(self, run: str) -> Status:
        job, entry = self._store.job(run), self._store.entry(run)
        if job is None and entry is None:
            raise KeyError(run)
        queued = [one.id for one in self._store.queued()]
        reason = job.reason if job else entry.trouble if entry else None
        found = ("finished" if entry and entry.whole else "unfinished") if job is None else job.state
        return Status(
            state=found,
            reason=redacted(reason) if reason else None,
            place=queued.index(run) + 1 if run in queued else None,
            started_at=job.started_at if job else None,
            ended_at=job.ended_at if job else entry.ended_at if entry else None,
            progress=self._progress(run, job.config if job else None),
            said=tuple(redacted("\n".join(self._queue.said(run)[-LINES:])).splitlines()) if job else (),
        )

    def _progress(self, run: str, config: str | None) -> Progress | None:
        folder = self._settings.results / run
        try:
            text = config or (folder / "config.yaml").read_text("utf-8")
            return progress_of(parse_config(text, "config"), folder)
        except (OSError, ConfigError):
            return None

    async def events(self, run: str) -> AsyncIterator[str]:
        """Server-sent events: `status` as often as it changes, `end` once nothing will change any more."""
        mine: asyncio.Queue[str | None] = asyncio.Queue(8)
        self._watchers.setdefault(run, set()).add(mine)
        if run not in self._tasks:
            self._tasks[run] = asyncio.create_task(self._follow(run))
        elif run in self._last:
            mine.put_nowait(self._last[run])
        try:
            while True:
                try:
                    told = await asyncio.wait_for(mine.get(), ALIVE_S)
                except TimeoutError:
                    yield ": still there\n\n"
                    continue
                if told is None:
                    yield "event: end\ndata: {}\n\n"
                    return
                yield f"event: status\ndata: {told}\n\n"
        finally:
            self._watchers[run].discard(mine)
            self._forget(run)

    async def _follow(self, run: str) -> None:
        try:
            while self._watchers.get(run):
                status = await self.status(run)
                told = json.dumps(asdict(status))
                if told != self._last.get(run):
                    self._last[run] = told
                    self._tell(run, told)
                if status.state not in OPEN:
                    self._tell(run, None)
                    return
                await asyncio.sleep(LOOK_S)
        finally:
            self._tasks.pop(run, None)
            self._last.pop(run, None)

    def _tell(self, run: str, told: str | None) -> None:
        """Who does not keep up loses what is older."""
        for one in self._watchers.get(run, ()):
            while one.full():
                one.get_nowait()
            one.put_nowait(told)

    def _forget(self, run: str) -> None:
        if not self._watchers.get(run):
            self._watchers.pop(run, None)
            task = self._tasks.get(run)
            if task is not None:
                task.cancel()

    def end(self) -> None:
        """The service ends: all watchers are let go."""
        for run in list(self._watchers):
            self._tell(run, None)
