# SPDX-License-Identifier: Apache-2.0
"""All that a results folder tells: the run, and beside it machines, the client's check and the commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runners.report.blocks import read_run
from runners.report.bundle_record import MANIFEST, BundleRecord
from runners.report.layout import of_lives
from runners.report.record import Run
from runners.report.unpack import opened
from runners.report.written import read_written
from runners.self_check import SelfCheck

HOST: Final = "environment*.json"
CHECK: Final = "client-check*.json"


@dataclass(frozen=True)
class Results:
    """What reports are made from. `hosts` are the machine of the first start and of each resumption, `launches` the
    files and commands of each life by the name of its folder. `by` is who ran it, where a bundle says so."""

    run: Run
    hosts: tuple[Mapping[str, Any], ...]
    checks: tuple[SelfCheck, ...]
    launches: Mapping[str, Mapping[str, Any]]
    by: str | None = None

    @property
    def days(self) -> tuple[str, str] | None:
        """The first and the last day of measuring, ISO 8601; None without a life."""
        times = sorted([life.started_at for life in self.run.lives] + [life.ended_at for life in self.run.lives])
        return (times[0][:10], times[-1][:10]) if times else None


def read_results(path: Path, accepted: Sequence[str] = ()) -> Results:
    """Read a results folder or its bundle; `accepted` rows of the ledger may be unequal. Raises as `read_run` does."""
    with opened(path) as folder:
        return Results(
            run=read_run(folder, accepted),
            hosts=tuple(_object(found) for found in sorted(folder.glob(HOST))),
            checks=tuple(read_written(found, SelfCheck) for found in sorted(folder.glob(CHECK))),
            launches={found.parent.name: _object(found) for found in of_lives(folder, "launch.json")},
            by=next((read_written(found, BundleRecord).by for found in folder.glob(MANIFEST)), None),
        )


def _object(path: Path) -> dict[str, Any]:
    return read_written(path, dict[str, Any])
