# SPDX-License-Identifier: Apache-2.0
"""`bakeoff bundle`: a results folder as one archive that can be given away, without the secrets in it.

A ZIP file: `bundle.json` says what it is and what was left out, `SHA256SUMS` has every file's checksum in the form
that `sha256sum --check` reads, everything else lies where it lay in the folder.
"""

import getpass
import hashlib
import io
import socket
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from runners.report.bundle_record import MANIFEST, SUMS, BundleError, BundleRecord
from runners.report.opened import read_results
from runners.report.redact import Redactor
from runners.report.schemas import words_of_records

MOST_TEXT: Final = 256 * 2**20
"""Bytes of a text file that is still looked through; a longer one is left out."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same folder gives the same bytes, but for the manifest's time."""


def write_bundle(folder: Path, out: Path, by: str | None) -> BundleRecord:
    """Make the archive; never over another file, and only one that can be read back. Raises BundleError and what
    `read_results` raises."""
    if out.exists():
        raise BundleError(f"{out} exists; bundles are never overwritten: choose another --out")
    if not folder.is_dir():
        raise BundleError(f"{folder} is no folder; a bundle is made of a results folder")
    read_results(folder)
    redactor = Redactor(_own_names(), [str(Path.home())], words_of_records())
    left_out: dict[str, str] = {}
    paths = list(_files(folder, left_out))
    for path in paths:
        if path.suffix != ".parquet":
            redactor.learn(path.read_text("utf-8"))
    part = out.with_name(f".{out.name}.part")
    sums: dict[str, str] = {}
    try:
        with zipfile.ZipFile(part, "x", zipfile.ZIP_DEFLATED) as archive:
            for path in paths:
                name = redactor(path.relative_to(folder).as_posix())
                _add(archive, sums, name, _redacted(path, redactor))
            record = _record(folder, by, redactor, left_out)
            _add(archive, sums, MANIFEST, (record.model_dump_json(indent=2) + "\n").encode())
            listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
            _add(archive, {}, SUMS, listed.encode())
        read_results(part)
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)
    return record


def _own_names() -> list[str]:
    """Of the user and the host here, which may not be those of the run."""
    names = [socket.gethostname(), socket.gethostname().partition(".")[0]]
    with suppress(OSError, KeyError):
        names.append(getpass.getuser())
    return names


def _files(folder: Path, left_out: dict[str, str]) -> Iterator[Path]:
    """Regular files in order. What a link points at belongs to somebody else and stays there."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if "__pycache__" in inside.parts or path.name.endswith(".part") or path.is_dir():
            continue
        if path.is_symlink():
            left_out[inside.as_posix()] = "a link"
        elif not path.is_file():
            left_out[inside.as_posix()] = "no regular file"
        elif path.suffix == ".parquet" or _is_text(path):
            yield path
        else:
            left_out[inside.as_posix()] = f"no text, or more than {MOST_TEXT} bytes of it"


def _is_text(path: Path) -> bool:
    """Nothing is published that could not be looked through."""
    if path.stat().st_size > MOST_TEXT:
        return False
    try:
        return "\0" not in path.read_text("utf-8")
    except UnicodeDecodeError:
        return False


def _redacted(path: Path, redactor: Redactor) -> bytes:
    if path.suffix == ".parquet":
        return _redacted_traces(path, redactor)
    return redactor(path.read_text("utf-8")).encode()


def _redacted_traces(path: Path, redactor: Redactor) -> bytes:
    """The file as it is, or, where a string in it was redacted, written anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    changed = False
    for number, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        values = table.column(number).to_pylist()
        clean = [None if value is None else redactor(value) for value in values]
        if clean != values:
            changed, table = True, table.set_column(number, field, pa.array(clean, field.type))
    if not changed:
        return path.read_bytes()
    out = io.BytesIO()
    pq.write_table(table, out, use_dictionary=False, compression="zstd")
    return out.getvalue()


def _add(archive: zipfile.ZipFile, sums: dict[str, str], name: str, content: bytes) -> None:
    """Parquet is compressed already."""
    if name in sums:
        raise BundleError(f"{name} would be there twice once names are redacted; rename a contender")
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
    sums[name] = hashlib.sha256(content).hexdigest()


def _record(folder: Path, by: str | None, redactor: Redactor, left_out: Mapping[str, str]) -> BundleRecord:
    return BundleRecord(
        bakeoff=version("bakeoff"),
        name=redactor(folder.resolve().name),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        by=by,
        redacted=redactor.counts,
        left_out={redactor(name): reason for name, reason in left_out.items()},
    )
