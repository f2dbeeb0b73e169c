# SPDX-License-Identifier: Apache-2.0
"""Where comparisons are handed in, and bundles that were made elsewhere."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from runners.config import ConfigError
from runners.errors import MendableError
from runners.report.bundle_record import MANIFEST
from runners.report.check_records import check_records
from runners.report.unpack import unpack
from runners.service import child
from runners.service.checking import Checked, check
from runners.service.index import entry_of_config, refresh
from runners.service.priority import Backroom
from runners.service.problems import Problem
from runners.service.queue import Queue
from runners.service.settings import Settings
from runners.service.shelf import plain_name
from runners.service.store import OPEN, Job, Store

MOST_FILES: Final = 20_000
UNPACKED_BYTES: Final = 4 * 2**30
LOOK_AGAIN_S: Final = 2.0
MOST_INCOMING: Final = 4


class Desk:
    """All that changes runs. Raises Problem for what cannot be done as asked."""

    def __init__(self, settings: Settings, store: Store, queue: Queue, backroom: Backroom) -> None:
        self._settings, self._store, self._queue, self._backroom = settings, store, queue, backroom
        self._checking, self._indexing = asyncio.Lock(), asyncio.Lock()
        self._indexed_at = -LOOK_AGAIN_S
        self._incoming = 0

    async def index(self) -> None:
        """See what is new in the results folder, unless that was done a moment ago."""
        async with self._indexing:
            now = asyncio.get_running_loop().time()
            if now - self._indexed_at >= LOOK_AGAIN_S:
                await self._backroom.do(refresh, self._store, self._settings.results)
                self._indexed_at = now

    async def check(self, text: str) -> Checked:
        """One at a time: what is made once is made once."""
        async with self._checking:
            try:
                return await self._backroom.do(check, text, self._settings)
            except MendableError as error:
                errors = str(error).splitlines()
                raise Problem(422, "the config cannot be run here; mend what is listed", errors) from None

    async def submit(self, text: str, most_hours: float | None) -> Job:
        """Queue a config, once it has been checked."""
        checked = await self.check(text)
        if len(self._store.queued()) >= self._settings.most_runs_queued:
            raise Problem(429, f"{self._settings.most_runs_queued} comparisons wait already; cancel some, or wait")
        now = datetime.now(UTC)
        run = self._free_name(f"{now.date().isoformat()}-{checked.bakeoff.name}")
        folder = self._queue.folder(run)
        folder.mkdir(parents=True)
        (folder / child.CONFIG).write_text(text, encoding="utf-8")
        hours = min(most_hours or self._settings.most_hours, self._settings.most_hours)
        job = Job(run, text, "queued", now.timestamp(), hours, False, now.isoformat(timespec="milliseconds"))
        self._store.index([entry_of_config(run, checked.bakeoff.model_dump(mode="json"))])
        self._store.put(job)
        self._queue.poke()
        return job

    def _free_name(self, name: str) -> str:
        """A run is never put into the folder of another."""
        run, number = name, 1
        while self._store.job(run) or (self._settings.results / run).exists() or self._queue.folder(run).exists():
            number += 1
            run = f"{name}.{number}"
        return run

    async def resume(self, run: str, most_hours: float | None) -> Job:
        """Queue what is missing of a run. Its config is looked at as if it had just been sent."""
        job, folder = self._store.job(run), self._settings.results / run
        if job is not None and not self._queue.resumable(job):
            raise Problem(409, f"{run} is {job.state}; there is nothing to resume")
        if (folder / MANIFEST).exists():
            raise Problem(409, f"{run} is a bundle from elsewhere, which cannot go on here; submit its config anew")
        text = job.config if job else await self._backroom.do((folder / "config.yaml").read_text, "utf-8")
        await self.check(text)
        place = self._queue.folder(run)
        place.mkdir(parents=True, exist_ok=True)
        (place / child.CONFIG).write_text(text, encoding="utf-8")
        now = datetime.now(UTC)
        hours = min(most_hours or self._settings.most_hours, self._settings.most_hours)
        resumed = Job(run, text, "queued", now.timestamp(), hours, True, now.isoformat(timespec="milliseconds"))
        self._store.put(resumed)
        self._queue.poke()
        return resumed

    def cancel(self, run: str) -> Job:
        job = self._store.job(run)
        if job is None or job.state not in OPEN:
            raise Problem(409, f"{run} is neither queued nor under way; there is nothing to cancel")
        done = self._queue.cancel(job)
        self._queue.poke()
        return done

    def order(self, runs: Sequence[str]) -> None:
        """The whole queue in its new order."""
        queued = [job.id for job in self._store.queued()]
        if sorted(runs) != sorted(queued):
            raise Problem(409, f"the queue holds {', '.join(queued) or 'nothing'}; name each of these once")
        self._store.order(runs)

    def move(self, run: str, by: int) -> None:
        """One place earlier or later."""
        queued = [job.id for job in self._store.queued()]
        if run not in queued:
            raise Problem(409, f"{run} is not in the queue")
        place = queued.index(run)
        queued.remove(run)
        queued.insert(max(0, place + by), run)
        self._store.order(queued)

    @contextmanager
    def incoming(self) -> Iterator[IO[bytes]]:
        """A file for a bundle that is being sent; a few at a time, so that they do not fill the disk."""
        if self._incoming >= MOST_INCOMING:
            raise Problem(429, f"{MOST_INCOMING} bundles are being sent already; wait for them")
        self._incoming += 1
        try:
            with tempfile.NamedTemporaryFile(prefix="upload-", dir=self._settings.state) as file:
                yield file
        finally:
            self._incoming -= 1

    async def take_bundle(self, archive: Path) -> str:
        """Put a bundle among the results, once it has been unpacked with care and looked through."""
        return await self._backroom.do(self._take, archive)

    def _take(self, archive: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="incoming-", dir=self._settings.state) as place:
            folder = Path(place) / "run"
            folder.mkdir()
            try:
                record = unpack(archive, folder, MOST_FILES, UNPACKED_BYTES)
                findings = check_records(folder)
            except (MendableError, ConfigError) as error:
                told = str(error).replace(f"{archive}: ", "").replace(f"{folder}/", "")
                raise Problem(422, "this is no bundle that can be shown", told.splitlines()) from None
            wrong = [finding.text for finding in findings if finding.state == "wrong"]
            if wrong:
                raise Problem(422, "the bundle contradicts itself, so it is not shown", wrong)
            run = self._free_name(plain_name(record.name))
            shutil.move(folder, self._settings.results / run)
        self._indexed_at = -LOOK_AGAIN_S
        return run
