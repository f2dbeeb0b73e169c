# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of a cell's answers are kept until they are folded: in memory up to a limit, from there
on in a file without a name."""

import tempfile
from pathlib import Path
from typing import IO, Final

IN_MEMORY: Final = 256 << 20
PIECE: Final = 1 << 20
"""No answer holds more of itself in memory than this."""
ON_DISK: Final = Path("/var/tmp")  # noqa: S108
"""Kept on a disk where /tmp may be memory (Filesystem Hierarchy Standard 3.0, 5.15)."""


class Spool:
    """The store of one cell. `limit`: bytes of finished answers that stay in memory."""

    def __init__(self, limit: int = IN_MEMORY) -> None:
        self._limit = limit
        self._held = 0
        self._file: IO[bytes] | None = None

    def keep(self, received: "Received") -> None:
        """Take charge of a finished answer."""
        if self._held + received.in_memory > self._limit:
            received.spill()
        else:
            self._held += received.in_memory

    def write(self, data: bytearray) -> int:
        """Append to the file; where it begins there."""
        if self._file is None:
            folder = ON_DISK if ON_DISK.is_dir() else None
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (closed by close)
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return offset

    def read(self, offset: int, size: int) -> bytes:
        assert self._file is not None
        self._file.seek(offset)
        return self._file.read(size)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Received:
    """The bytes of one answer, in order."""

    __slots__ = ("_extents", "_tail", "length", "spool")

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._tail = bytearray()
        self._extents: list[tuple[int, int]] = []
        self.length = 0

    def add(self, data: bytes) -> None:
        self._tail += data
        self.length += len(data)
        if len(self._tail) > PIECE:
            self.spill()

    @property
    def in_memory(self) -> int:
        """Bytes that are not in the file."""
        return len(self._tail)

    def spill(self) -> None:
        """Move what is in memory to the file."""
        self._extents.append((self.spool.write(self._tail), len(self._tail)))
        self._tail = bytearray()

    def trim(self) -> None:
        """Give back what the buffer has grown beyond its content."""
        self._tail = self._tail[:]

    def __bytes__(self) -> bytes:
        return b"".join([*(self.spool.read(*extent) for extent in self._extents), self._tail])
