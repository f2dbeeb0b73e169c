# SPDX-License-Identifier: Apache-2.0
"""One measurement at a time on a node: the lock that the command line and the service share."""

import fcntl
import json
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from runners.environments import Say
from runners.errors import MendableError

DEFAULT: Final = "/tmp/bakeoff-node.lock"  # noqa: S108
POLL_S: Final = 0.5
WHOLE_FILE: Final = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""A `struct flock` for writing. Locks of open files (fcntl(2), F_OFD_SETLK) can be asked about without being taken, so
that who only looks is in nobody's way."""


class BusyError(MendableError):
    """Somebody else measures on this node."""


@dataclass(frozen=True)
class Holder:
    """Who measures: its process, what it does, and since when (ISO 8601, UTC)."""

    pid: int
    what: str
    since: str


def lock_path() -> Path:
    """BAKEOFF_NODE_LOCK, else a file that all users of the node share."""
    return Path(os.environ.get("BAKEOFF_NODE_LOCK") or DEFAULT)


@contextmanager
def node_held(what: str, say: Say, *, wait: bool = False) -> Iterator[None]:
    """Hold the node meanwhile; the kernel lets go of it when the process ends, however it ends. Raises BusyError
    unless `wait`."""
    file = _opened()
    try:
        _take(file, say, wait=wait)
        holder = Holder(os.getpid(), what, datetime.now(UTC).isoformat(timespec="seconds"))
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(asdict(holder)).encode(), 0)
        yield
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def node_holder() -> Holder | None:
    """Who holds the node now; None where nobody does."""
    file = _opened()
    try:
        found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, WHOLE_FILE)
        return None if struct.unpack_from("h", found)[0] == fcntl.F_UNLCK else _told(file)
    finally:
        os.close(file)


def _take(file: int, say: Say, *, wait: bool) -> None:
    told = False
    while True:
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, WHOLE_FILE)
            return
        except BlockingIOError:
            holder = _told(file)
        who = f"process {holder.pid} has been measuring {holder.what} on this node since {holder.since}"
        if not wait:
            raise BusyError(f"{who}; two at once disturb each other: wait for it (--wait), or end it")
        if not told:
            say(f"waiting: {who}")
            told = True
        time.sleep(POLL_S)


def _told(file: int) -> Holder:
    """What the holder wrote, which it may be about to do."""
    with suppress(ValueError, TypeError):
        return Holder(**json.loads(os.pread(file, 4096, 0)))
    return Holder(0, "something", "a moment ago")


def _opened() -> int:
    """Everybody may take it. In a folder that all may write to, the kernel lets nobody create over another's file, so
    one that is there is opened as it is. Raises BusyError where that cannot be done."""
    path = lock_path()
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR):
        with suppress(FileNotFoundError, FileExistsError):
            try:
                file = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            except PermissionError:
                raise BusyError(f"{path} may not be written to; let every user of the node do so (chmod 666)") from None
            if flags & os.O_CREAT:
                os.fchmod(file, 0o666)
            return file
    raise BusyError(f"{path} cannot be opened; set BAKEOFF_NODE_LOCK")
