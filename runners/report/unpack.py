# SPDX-License-Identifier: Apache-2.0
"""Opens a results folder, or a bundle of one, which may come from anybody and is taken apart with care."""

import hashlib
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from runners.report.bundle_record import MANIFEST, SUMS, BundleError, BundleRecord
from runners.report.written import parse_written

MOST_FILES: Final = 100_000
MOST_BYTES: Final = 16 * 2**30
MOST_RATIO: Final = 200
"""Of unpacked to packed bytes; the longest logs of real runs reach 30."""
SMALL: Final = 64 * 2**20
"""Up to so many bytes the ratio does not matter."""
CHUNK: Final = 2**20


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """The folder itself, or a temporary one with what the bundle holds. Raises BundleError."""
    if path.is_dir() or not path.exists():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="bakeoff-bundle-") as folder:
        unpack(path, Path(folder))
        yield Path(folder)


def unpack(path: Path, folder: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> BundleRecord:
    """Unpack a bundle whose every file is what its checksum says. Raises BundleError, or RecordError for a manifest
    that is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check_entries(path, entries, most_files, most_bytes)
            sums = _sums(path, _text(path, archive, SUMS))
            manifest = parse_written(_text(path, archive, MANIFEST).encode(), f"{path}: {MANIFEST}", BundleRecord)
            names = {entry.filename for entry in entries} - {SUMS}
            if names != sums.keys():
                odd = sorted(names ^ sums.keys())[0]
                raise BundleError(f"{path}: {odd} is in the archive or in {SUMS}, but not in both")
            for entry in entries:
                if entry.filename != SUMS:
                    _write(path, archive, entry, folder, sums[entry.filename])
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise BundleError(f"{path}: no whole ZIP archive ({error}); take it from a copy") from None
    return manifest


def _check_entries(path: Path, entries: list[zipfile.ZipInfo], most_files: int, most_bytes: int) -> None:
    """Names that stay within the folder, regular files, sizes that a comparison may have."""
    seen: set[str] = set()
    for entry in entries:
        name, parts = entry.filename, PurePosixPath(entry.filename).parts
        stays = parts and name[0] != "/" and ".." not in parts and "\\" not in name and ":" not in parts[0]
        if not stays or not name.isprintable():
            raise BundleError(f"{path}: {name!r} climbs out of the bundle's folder; nothing of it was unpacked")
        mode = entry.external_attr >> 16
        if entry.is_dir() or (mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)):
            raise BundleError(f"{path}: {name} is a folder, a link or a device; a bundle holds regular files only")
        if name.casefold() in seen:
            raise BundleError(f"{path}: {name} is there twice")
        seen.add(name.casefold())
    if len(entries) > most_files:
        raise BundleError(f"{path}: {len(entries)} files, a bundle has at most {most_files}")
    unpacked, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if unpacked > most_bytes or (unpacked > SMALL and unpacked > MOST_RATIO * max(packed, path.stat().st_size)):
        raise BundleError(f"{path}: {unpacked} bytes unpacked from {packed}: too many, or packed like a trap")


def _text(path: Path, archive: zipfile.ZipFile, name: str) -> str:
    try:
        return archive.read(name).decode("utf-8")
    except KeyError:
        raise BundleError(f"{path}: {name} is missing; this is no bundle that `bakeoff bundle` made") from None
    except UnicodeDecodeError:
        raise BundleError(f"{path}: {name} is no text") from None


def _sums(path: Path, text: str) -> Mapping[str, str]:
    found = {}
    for line in text.splitlines():
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name:
            raise BundleError(f"{path}: {SUMS}: not a checksum and a name: {line[:100]!r}")
        found[name] = digest
    return found


def _write(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, digest: str) -> None:
    """By pieces, and no more than the entry says of itself."""
    target = folder / entry.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    found, left = hashlib.sha256(), entry.file_size
    with archive.open(entry) as source, target.open("xb") as out:
        while piece := source.read(CHUNK):
            left -= len(piece)
            if left < 0:
                raise BundleError(f"{path}: {entry.filename} is longer than it says")
            found.update(piece)
            out.write(piece)
    if found.hexdigest() != digest:
        raise BundleError(f"{path}: {entry.filename} is not what its checksum says; take the bundle from a copy")
