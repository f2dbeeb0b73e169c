# SPDX-License-Identifier: Apache-2.0
"""All that a results folder tells: the run, and beside it machines, the client's check and the commands."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runners.report.blocks import read_run
from runners.report.record import Run
from runners.self_check import SelfCheck

HOST: Final = "environment*.json"
CHECK: Final = "client-check*.json"


@dataclass(frozen=True)
class Results:
    """What reports are made from. `hosts` are the machine of the first start and of each resumption, `launches` the
    files and commands of each life by the name of its folder."""

    run: Run
    hosts: tuple[Mapping[str, Any], ...]
    checks: tuple[SelfCheck, ...]
    launches: Mapping[str, Mapping[str, Any]]

    @property
    def days(self) -> tuple[str, str] | None:
        """The first and the last day of measuring, ISO 8601; None without a life."""
        times = sorted([life.started_at for life in self.run.lives] + [life.ended_at for life in self.run.lives])
        return (times[0][:10], times[-1][:10]) if times else None


def read_results(folder: Path, accepted: Sequence[str] = ()) -> Results:
    """Read a results folder; `accepted` rows of the ledger may be unequal. Raises NoResultsError or MixedPlanError."""
    return Results(
        run=read_run(folder, accepted),
        hosts=tuple(json.loads(path.read_text("utf-8")) for path in sorted(folder.glob(HOST))),
        checks=tuple(SelfCheck.model_validate_json(path.read_text("utf-8")) for path in sorted(folder.glob(CHECK))),
        launches={
            path.parent.name: json.loads(path.read_text("utf-8"))
            for path in sorted(folder.glob("lives/*/launch.json"))
            if ".superseded-" not in path.parent.name
        },
    )
