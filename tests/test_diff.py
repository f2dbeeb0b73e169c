# SPDX-License-Identifier: Apache-2.0
"""Two runs of one plan, from outside."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from runners.diff_command import DiffError, compare_runs
from runners.report.written import write_model, write_once
from tests.test_cli import bakeoff
from tests.test_config import GOOD
from tests.test_records import life, record
from tests.test_verdicts import run

CONFIG = {**GOOD, "blocks": 4, "workloads": [{**GOOD["workloads"][0], "concurrency": [1]}]}
ENVIRONMENT: dict[str, Any] = {
    "cpu": "x",
    "load_average": 0.1,
    "gpus": [{"index": 0, "name": "H200", "uuid": "1", "driver": "580", "memory_bytes": 1, "used_bytes": 5}],
    "environments": {"llamacpp": {"xllamacpp": "1.0"}},
}


def folder(
    place: Path, rates: dict[str, list[float]], environment: dict[str, Any] | None = None, **config: Any
) -> Path:
    write_once(place / "config.yaml", yaml.safe_dump({**CONFIG, **config}))
    write_once(place / "environment.json", json.dumps({**ENVIRONMENT, **(environment or {})}))
    for name, of_blocks in rates.items():
        for block, rate in enumerate(of_blocks, start=1):
            cell = record(name, block, rate)
            write_model(place / "lives" / f"b{block:02d}-{name}" / "w-c1.json", cell)
            write_model(place / "lives" / f"b{block:02d}-{name}" / "life.json", life(cell))
    return place


STEADY = {"a": [100.0, 101.0, 99.0, 100.0], "b": [200.0, 201.0, 199.0, 200.0]}
SLOWER = {"a": [100.0, 101.0, 99.0, 100.0], "b": [160.0, 161.0, 159.0, 160.0]}


def test_a_regression_is_exit_code_1_only_where_that_is_asked(tmp_path: Path) -> None:
    before, after = folder(tmp_path / "A", STEADY), folder(tmp_path / "B", SLOWER, {"load_average": 9.0})
    told = bakeoff("diff", str(before), str(after))
    assert told.returncode == 0
    assert "| a after | w | all | 4 | 1.000 | [1.000, 1.000] | 1.000 | equal within 5% |" in told.stdout
    assert "| b after | w | all | 4 | 0.800 |" in told.stdout
    assert "slower by 20.0%" in told.stdout
    assert bakeoff("diff", str(before), str(after), "--fail-on-regression").returncode == 1
    assert bakeoff("diff", str(after), str(before), "--fail-on-regression").returncode == 0
    assert bakeoff("diff", str(before), str(before), "--fail-on-regression").returncode == 0


def test_undecided_is_no_regression(tmp_path: Path) -> None:
    before = folder(tmp_path / "A", STEADY)
    after = folder(tmp_path / "B", {**STEADY, "b": [100.0, 280.0, 120.0, 250.0]})
    told = bakeoff("diff", str(before), str(after), "--fail-on-regression", "--format", "json")
    assert told.returncode == 0
    assert json.loads(told.stdout)["comparisons"][2]["verdict"] == "undecided"


def test_other_environments_are_refused_unless_told(tmp_path: Path) -> None:
    before = folder(tmp_path / "A", STEADY)
    after = folder(tmp_path / "B", SLOWER, {"environments": {"llamacpp": {"xllamacpp": "2.0"}}})
    refused = bakeoff("diff", str(before), str(after), "--fail-on-regression")
    assert refused.returncode == 2
    assert 'different environments: environments.llamacpp.xllamacpp "1.0" -> "2.0"' in refused.stderr
    told = bakeoff("diff", str(before), str(after), "--across-environments")
    assert told.returncode == 0
    assert '- environment: environments.llamacpp.xllamacpp "1.0" -> "2.0"' in told.stdout


def test_other_plans_are_refused(tmp_path: Path) -> None:
    """A name and a port are no part of the plan; a value that was the default all along is no change."""
    before = folder(tmp_path / "A", STEADY)
    same = folder(tmp_path / "B", STEADY, name="other", port=20000, margin=0.05)
    assert bakeoff("diff", str(before), str(same)).returncode == 0
    other = folder(tmp_path / "C", STEADY, margin=0.1)
    refused = bakeoff("diff", str(before), str(other), "--across-environments")
    assert refused.returncode == 2
    assert "are runs of different plans: margin 0.05 -> 0.1" in refused.stderr
    assert bakeoff("diff", str(before), str(tmp_path / "none")).returncode == 2


def test_other_prompts_are_refused() -> None:
    before = run({"a": {1: [100.0] * 2}})
    after = before.model_copy(
        update={"cells": tuple(c.model_copy(update={"prompts_sha256": "1"}) for c in before.cells)}
    )
    with pytest.raises(DiffError, match="block 1, w at 1: the runs were asked different prompts"):
        compare_runs(before, after)
