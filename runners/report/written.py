# SPDX-License-Identifier: Apache-2.0
"""What all parts of a record are made of, how one is written, and how it is read back."""

import json
import os
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from runners.errors import MendableError

SCHEMA_VERSION: Final = 1

T = TypeVar("T")


class Written(BaseModel):
    """A part of a record: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordError(MendableError):
    """A record that cannot be believed: cut off, edited by hand, or of a newer tool. The message has file and key."""


def read_written(path: Path, kind: type[T]) -> T:
    """A record of one kind. Raises RecordError, or FileNotFoundError."""
    return parse_written(path.read_bytes(), str(path), kind)


def parse_written(text: bytes, source: str, kind: type[T]) -> T:
    """As `read_written`; `source` names the file in messages."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RecordError(f"{source}: no whole JSON ({error}); it was cut off or edited, take it from a copy") from None
    version = value.get("schema_version", SCHEMA_VERSION) if isinstance(value, dict) else SCHEMA_VERSION
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise RecordError(
            f"{source}: schema_version: {version} is newer than {SCHEMA_VERSION}, the last that this bakeoff knows; "
            "update it"
        )
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        complaints = "; ".join(told(e) for e in error.errors(include_url=False)[:3])
        raise RecordError(f"{source}: {complaints}; records are not edited by hand, take it from a copy") from None


def told(error: Any) -> str:
    """One of pydantic's complaints with its key."""
    key = ".".join(str(part) for part in error["loc"])
    return f"{key or 'the whole'}: {error['msg'][:1].lower()}{error['msg'][1:]}"


class AlreadyWrittenError(MendableError):
    """A result that is there already; results are never overwritten."""


def write_once(path: Path, text: str) -> None:
    """Write a file whole or not at all, and never over another. Raises AlreadyWrittenError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, path)
    except FileExistsError:
        raise AlreadyWrittenError(f"{path} exists; results are never overwritten") from None
    finally:
        part.unlink()


def write_model(path: Path, model: BaseModel) -> None:
    write_once(path, model.model_dump_json(indent=2) + "\n")
