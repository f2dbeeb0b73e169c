# SPDX-License-Identifier: Apache-2.0
"""The folder of one comparison under results/: made once, resumed only with the same config."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from runners.errors import MendableError
from runners.report.record import write_once


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
    """Write config and environment; on resuming, demand the same config. Raises ResultsError."""
    kept = folder / "config.yaml"
    if kept.exists():
        if kept.read_text("utf-8") != config_text:
            raise ResultsError(f"{kept} is another config than this one; resume with it, or start anew")
        number = len(list(folder.glob("environment*.json"))) + 1
        write_once(folder / f"environment.{number}.json", json.dumps(host, indent=2) + "\n")
        return
    if resume:
        raise ResultsError(f"{folder} has no config.yaml; there is nothing to resume")
    write_once(kept, config_text)
    write_once(folder / "environment.json", json.dumps(host, indent=2) + "\n")
