# SPDX-License-Identifier: Apache-2.0
"""The folder of one comparison under results/: made once, resumed only with the same config."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

from runners.errors import MendableError
from runners.report.written import write_once


class ResultsError(MendableError):
    """A results folder that cannot be used as asked."""


def choose_folder(out: Path | None, name: str, today: date, *, resume: bool) -> Path:
    """OUT, or results/<date>-<name>, numbered if that is taken. Raises ResultsError.

    Resuming without OUT takes the newest folder of that name.
    """
    if out is not None:
        if not resume and out.exists() and any(out.iterdir()):
            raise ResultsError(f"{out} is not empty; results are never overwritten: choose another --out, or --resume")
        return out
    if resume:
        found = sorted(Path("results").glob(f"????-??-??-{name}*"), key=lambda p: p.stat().st_mtime)
        if not found:
            raise ResultsError(f"results/ has nothing named {name} to resume; leave out --resume")
        return found[-1]
    first = Path("results") / f"{today.isoformat()}-{name}"
    folder, number = first, 1
    while folder.exists():
        number += 1
        folder = first.with_name(f"{first.name}.{number}")
    return folder


def open_folder(folder: Path, config_text: str, host: dict[str, Any], *, resume: bool) -> None:
    """Write config and environment; on resuming, demand the same of both. Raises ResultsError."""
    kept = folder / "config.yaml"
    if kept.exists():
        if kept.read_text("utf-8") != config_text:
            raise ResultsError(f"{kept} is another config than this one; resume with it, or start anew")
        differing = changed(environment_of(folder), _lasting(host))
        if differing:
            raise ResultsError(f"{folder} was begun in another environment: {told(differing)}; start anew")
        number = len(list(folder.glob("environment*.json"))) + 1
        write_once(folder / f"environment.{number}.json", json.dumps(host, indent=2) + "\n")
        return
    if resume:
        raise ResultsError(f"{folder} has no config.yaml; there is nothing to resume")
    write_once(kept, config_text)
    write_once(folder / "environment.json", json.dumps(host, indent=2) + "\n")


PASSING: Final = ("load_average", "memory_gib")
"""Of an environment: what is not the same from one moment to the next."""
LASTING_OF_GPU: Final = ("name", "driver", "memory_bytes")


def environment_of(folder: Path) -> dict[str, Any]:
    """What `environment.json` says, without what passes. Raises ResultsError."""
    path = folder / "environment.json"
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError:
        raise ResultsError(f"{path} is missing; it is not known where that run was made") from None
    return _lasting(value)


def _lasting(host: Mapping[str, Any]) -> dict[str, Any]:
    gpus = [{key: gpu[key] for key in LASTING_OF_GPU} for gpu in host.get("gpus", ())]
    return {key: item for key, item in host.items() if key not in PASSING} | {"gpus": gpus}


def changed(before: Any, after: Any, where: str = "") -> dict[str, tuple[Any, Any]]:
    """By dotted key, what differs between two JSON values.

    >>> changed({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    {'a.c': (2, 3)}
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found: dict[str, tuple[Any, Any]] = {}
        for key in (*before, *(key for key in after if key not in before)):
            found |= changed(before.get(key), after.get(key), f"{where}.{key}" if where else str(key))
        return found
    return {} if before == after else {where: (before, after)}


def told(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """What `changed` found, in words."""
    return "; ".join(f"{key} {json.dumps(old)} -> {json.dumps(new)}" for key, (old, new) in differing.items())
