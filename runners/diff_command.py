# SPDX-License-Identifier: Apache-2.0
"""Two runs of one plan: is any contender faster or slower than it was?"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from runners.config import Bakeoff
from runners.errors import MendableError
from runners.report.blocks import asked_differently, read_run, without_excluded
from runners.report.compare import ALPHA
from runners.report.decisions_text import comparisons_table
from runners.report.record import CellRecord, Run
from runners.report.unpack import opened
from runners.report.verdicts import Comparison, by_primary_metric, judge_pairs
from runners.results import changed, environment_of, told

FREE_KEYS: Final = ("name", "port")
"""Of a config: what two runs of one plan may differ in."""


REMEDY: Final = "; --across-environments compares all the same"


class DiffError(MendableError):
    """Two runs that cannot be compared."""


def run_diff(before: Path, after: Path, form: str, *, across_environments: bool) -> bool:
    """`bakeoff diff`: print the comparisons; whether something is decidedly slower. Raises DiffError."""
    if form not in ("md", "json"):
        raise DiffError(f"--format {form}: unknown; say md or json")
    found = difference(before, after, across_environments=across_environments, remedy=REMEDY)
    print(
        json.dumps(asdict(found), indent=2, allow_nan=False) + "\n" if form == "json" else diff_markdown(found), end=""
    )
    return any(c.verdict.startswith("slower") for c in found.comparisons)


@dataclass(frozen=True)
class Difference:
    """`environments` has, by key, what differs between the machines and versions. A comparison's ratio is that of the
    second run to the first."""

    environments: dict[str, tuple[Any, Any]]
    comparisons: tuple[Comparison, ...]


def difference(before: Path, after: Path, *, across_environments: bool, remedy: str = "") -> Difference:
    """Raises DiffError for other plans, and for other environments unless told, with the remedy; and what `read_run`
    raises."""
    runs = read_run(before), read_run(after)
    check_same_plan(*runs, f"{before} and {after}")
    with opened(before) as old, opened(after) as new:
        environments = changed(environment_of(old), environment_of(new))
    if environments and not across_environments:
        raise DiffError(f"{before} and {after} ran in different environments: {told(environments)}{remedy}")
    return Difference(environments, compare_runs(*runs))


def check_same_plan(before: Run, after: Run, names: str) -> None:
    """Raises DiffError where the configs differ in anything that is measured."""
    differing = changed(_plan(before.config), _plan(after.config))
    if differing:
        raise DiffError(f"{names} are runs of different plans: {told(differing)}")


def compare_runs(before: Run, after: Run) -> tuple[Comparison, ...]:
    """Each contender of the second run against itself in the first, paired by block: blocks of one number were
    asked the same, in the same order of contenders. Raises DiffError where they were not."""
    bakeoff = Bakeoff.model_validate(before.config)
    cells = (*_labelled(before, "before"), *_labelled(after, "after"))
    for _, cell in asked_differently(cells):
        raise DiffError(
            f"block {cell.block}, {cell.workload} at {cell.level:g}: the runs were asked different prompts, so "
            "their checkpoints or tools differ; run one of them anew"
        )
    merged = before.model_copy(update={"cells": cells})
    pairs = [(f"{c.name} after", f"{c.name} before") for c in bakeoff.contenders]
    return tuple(
        comparison
        for of_metric in by_primary_metric(merged, bakeoff)
        for comparison in judge_pairs(of_metric, pairs, bakeoff.margin, ALPHA)
    )


def _labelled(run: Run, when: str) -> list[CellRecord]:
    return [c.model_copy(update={"contender": f"{c.contender} {when}"}) for c in without_excluded(run).cells]


def _plan(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with what it does not say filled in."""
    full = Bakeoff.model_validate(config).model_dump(mode="json")
    return {key: value for key, value in full.items() if key not in FREE_KEYS}


def diff_markdown(found: Difference) -> str:
    """The table of verdicts, and in what the environments differ."""
    lines = comparisons_table(found.comparisons)
    lines += ["", "Ratio of the second run to the first, paired by block; above 1 is better."]
    lines += [f"- environment: {told({key: both})}" for key, both in found.environments.items()]
    return "\n".join(lines) + "\n"
