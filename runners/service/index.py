# SPDX-License-Identifier: Apache-2.0
"""Reads of each results folder what the list says of it; the folders stay the truth.

Only what is quick: a thousand folders are looked over at each start. Runs made on the command line or copied in appear
as those of the service do.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from runners.report.bundle_record import MANIFEST
from runners.report.layout import of_lives
from runners.report.record import LOOKS_FILE
from runners.service.store import Entry, Store

RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def refresh(store: Store, results: Path) -> None:
    """Take into the index what is new, changed or gone."""
    known = store.signatures()
    there = {}
    with os.scandir(results) as found:
        folders = [item for item in found if RUN_NAME.fullmatch(item.name) and item.is_dir(follow_symlinks=False)]
    for item in folders:
        signature = _signature(Path(item.path))
        if signature is not None:
            there[item.name] = signature
    changed = [entry_of(results / run, mark) for run, mark in there.items() if known.get(run) != mark]
    store.index(changed, [run for run in known if run not in there])


def _signature(folder: Path) -> str | None:
    """Differs once anything that the list tells has changed; None for a folder without a config."""
    try:
        config = os.stat(folder / "config.yaml")
    except OSError:
        return None
    lives = _times(folder / "lives")
    try:
        decided = os.stat(folder / "verdicts.json").st_mtime_ns
    except OSError:
        decided = 0
    return f"{config.st_mtime_ns}-{config.st_size}-{len(lives)}-{max(lives, default=0)}-{decided}"


def _times(folder: Path) -> list[int]:
    """When something was last written into each life's folder: its record is, when it has ended."""
    try:
        with os.scandir(folder) as found:
            return [life.stat(follow_symlinks=False).st_mtime_ns for life in found]
    except OSError:
        return []


def entry_of(folder: Path, signature: str) -> Entry:
    """Of a folder that cannot be read, what is wrong with it."""
    try:
        config = _mapping(yaml.load((folder / "config.yaml").read_text("utf-8"), Loader))  # noqa: S506
        lives = [orjson.loads(path.read_bytes()) for path in of_lives(folder, "life.json")]
        return _entry(folder, signature, config, lives)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError) as error:
        words = f"{type(error).__name__}: {error}"[:300]
        return Entry(folder.name, signature, folder.name, "", "", "", None, "", None, None, 0, None, False, words)


def entry_of_config(run: str, config: Mapping[str, Any]) -> Entry:
    """Of a run that has no folder yet."""
    return _entry(Path("/nonexistent") / run, "", config, [])


def _entry(folder: Path, signature: str, config: Mapping[str, Any], lives: list[Mapping[str, Any]]) -> Entry:
    contenders = config["contenders"]
    unsupported = {path.stem for path in folder.glob("unsupported/*.json")}
    planned = int(config.get("blocks", 6)) * sum(c["name"] not in unsupported for c in contenders)
    started = min((life["started_at"] for life in lives), default=None)
    looks, decided = (folder / LOOKS_FILE).exists(), (folder / "verdicts.json").exists()
    return Entry(
        id=folder.name,
        signature=signature,
        name=str(config["name"]),
        checkpoint=str(config["checkpoint"]),
        engines="\n".join(dict.fromkeys(str(c["engine"]) for c in contenders)),
        contenders="\n".join(str(c["name"]) for c in contenders),
        gpu=_gpu(folder),
        verdicts="\n".join(_verdicts(folder)),
        day=started[:10] if started else None,
        ended_at=max((life["ended_at"] for life in lives), default=None),
        lives_done=len(lives),
        lives_planned=(len(lives) if decided else None) if looks else planned,
        bundle=(folder / MANIFEST).exists(),
    )


def _gpu(folder: Path) -> str | None:
    """The models of GPUs, or the processor's where there is none; None before the run has begun."""
    try:
        host = orjson.loads((folder / "environment.json").read_bytes())
    except FileNotFoundError:
        return None
    names = [str(gpu["name"]) for gpu in host.get("gpus") or ()]
    counted = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return ", ".join(counted) or f"no GPU ({host.get('cpu') or 'processor'})"


def _verdicts(folder: Path) -> list[str]:
    """One line a declared comparison, as it was decided when the run ended."""
    try:
        found = orjson.loads((folder / "verdicts.json").read_bytes())
    except FileNotFoundError:
        return []
    several = len({c["workload"] for c in found["comparisons"]}) > 1
    return [
        f"{c['contender']}{' in ' + c['workload'] if several else ''}: {c['verdict']}"
        for c in found["comparisons"]
        if c["level"] is None
    ]


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("config.yaml: no keys and values")
    return value
