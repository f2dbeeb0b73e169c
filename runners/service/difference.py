# SPDX-License-Identifier: Apache-2.0
"""Two runs put side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.diff_command import DiffError, check_same_plan, compare_runs
from runners.report.blocks import read_run
from runners.report.verdicts import Comparison
from runners.results import changed, environment_of, told


@dataclass(frozen=True)
class Difference:
    """`environments` has, by key, what differs between the machines and versions. A comparison's ratio is that of the
    second run to the first."""

    environments: dict[str, tuple[Any, Any]]
    comparisons: tuple[Comparison, ...]


def difference(before: Path, after: Path, *, across_environments: bool) -> Difference:
    """Raises DiffError for other plans, and for other environments unless told; what `read_run` raises."""
    runs = read_run(before), read_run(after)
    check_same_plan(*runs, f"{before} and {after}")
    environments = changed(environment_of(before), environment_of(after))
    if environments and not across_environments:
        raise DiffError(f"{before} and {after} ran in different environments: {told(environments)}")
    return Difference(environments, compare_runs(*runs))
