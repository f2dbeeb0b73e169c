# SPDX-License-Identifier: Apache-2.0
"""The queue: one comparison at a time, in the order that people give it, through restarts of the service."""

import asyncio
import logging
import sqlite3
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from runners.errors import MendableError
from runners.node_lock import node_holder
from runners.service import child
from runners.service.child import Child
from runners.service.settings import Settings
from runners.service.store import UNDER_WAY, Job, JobState, Store

LOG: Final = logging.getLogger("uvicorn.error")
STEP_S: Final = 0.5
INTERRUPTED: Final = 130
REASON_LINES: Final = 12


class Queue:
    """Starts what is next once the node is free, and notes how it ended."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Something changed: look at once."""
        self._poked.set()

    async def run(self) -> None:
        """Until cancelled."""
        self.recover()
        while True:
            try:
                self.step()
            except (OSError, MendableError, sqlite3.Error):  # a full disk now is no reason to stand still for ever
                LOG.exception("the queue could not be looked after; it is tried again")
            self._poked.clear()
            try:
                await asyncio.wait_for(self._poked.wait(), STEP_S)
            except TimeoutError:
                continue

    def recover(self) -> None:
        """After a restart: a comparison that went on is watched on, one that ended is noted, one that was ended with
        the service is resumed or left, as the operator said."""
        for job in self._store.under_way():
            if _child(job).alive():
                continue
            code = child.exit_code(self.folder(job.id))
            if job.state == "running" and code in (None, INTERRUPTED):
                self._after_restart(job)
            else:
                self._conclude(job)

    def _after_restart(self, job: Job) -> None:
        if self._settings.after_restart == "resume":
            self._store.change(job.id, state="queued", place=-1.0, resume=True, pid=None, created=None)
        else:
            self._ended(job, "interrupted", "the service was ended in mid-run; it can be resumed")

    def step(self) -> None:
        for job in self._store.under_way():
            self._watch(job)
        if self._store.under_way() or node_holder() is not None:
            return
        for job in self._store.queued()[:1]:
            self._start(job)

    def _watch(self, job: Job) -> None:
        process = self._started.get(job.id)
        if process is not None:
            process.poll()
        if not _child(job).alive():
            self._conclude(job)
        elif job.state == "running" and job.started_at is not None and _over(job.started_at, job.most_hours):
            self._end(job, f"it took longer than the {job.most_hours:g} h that it was given; it can be resumed")

    def _start(self, job: Job) -> None:
        out = self._settings.results / job.id
        begun = (out / "config.yaml").exists()
        try:
            made, process = child.start(self.folder(job.id), out, resume=begun, at_end=self._settings.at_end)
        except OSError as error:
            self._ended(job, "failed", f"it could not be started: {error}")
            return
        self._started[job.id] = process
        self._store.change(
            job.id, state="running", pid=made.pid, created=made.created, started_at=_now(), ended_at=None, reason=None
        )

    def cancel(self, job: Job) -> Job:
        """A queued one is taken out, one under way is asked to end. Others stay as they are."""
        if job.state == "queued":
            return self._ended(job, "cancelled", "cancelled before it was started")
        return self._end(job, "cancelled") if job.state == "running" else job

    def _end(self, job: Job, reason: str) -> Job:
        _child(job).end()
        return self._store.change(job.id, state="ending", reason=reason)

    def _conclude(self, job: Job) -> None:
        self._started.pop(job.id, None)
        code = child.exit_code(self.folder(job.id))
        if code == 0:
            self._ended(job, "finished", None)
        elif job.state == "ending":
            self._ended(job, "cancelled" if job.reason == "cancelled" else "stopped", job.reason)
        elif code in (None, INTERRUPTED):
            how = "was killed" if code is None else "was ended"
            self._ended(job, "interrupted", f"its process {how}; it can be resumed")
        else:
            self._ended(job, "failed", self._last_words(job.id))

    def _ended(self, job: Job, state: JobState, reason: str | None) -> Job:
        return self._store.change(job.id, state=state, reason=reason, ended_at=_now(), pid=None, created=None)

    def close(self) -> None:
        """The service ends; where the operator said so, what is under way ends with it and is waited for."""
        if self._settings.at_end == "end":
            for job in self._store.under_way():
                _child(job).end()
            for process in self._started.values():
                process.wait()

    def _last_words(self, run: str) -> str:
        """From the message on that the command line ends with."""
        lines = self.said(run)
        told = [number for number, line in enumerate(lines) if line.startswith("bakeoff: ")]
        words = lines[told[0] :] if told else lines[-REASON_LINES:]
        return "\n".join(words).removeprefix("bakeoff: ") or "it ended without a word"

    def said(self, run: str) -> list[str]:
        """The lines of a comparison so far, without the service's own paths."""
        try:
            text = (self.folder(run) / child.SAID).read_text("utf-8", "replace")
        except OSError:
            return []
        return text.replace(f"{self.folder(run)}/", "").replace(f"{self._settings.results}/", "").splitlines()

    def folder(self, run: str) -> Path:
        """Where a job's config, words and exit code lie."""
        return self._settings.state / "jobs" / run

    def resumable(self, job: Job) -> bool:
        return job.state not in ("queued", "finished", *UNDER_WAY)


def _child(job: Job) -> Child:
    return Child(job.pid or -1, job.created or 0.0) if job.pid else Child(0, 0.0)


def _over(started_at: str, hours: float) -> bool:
    return datetime.now(UTC) - datetime.fromisoformat(started_at) > timedelta(hours=hours)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
