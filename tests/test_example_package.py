# SPDX-License-Identifier: Apache-2.0
"""An engine and a runner from another package: installed, found by entry points, compared, held to the contract."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from runners.environments import uv_environment

PACKAGE = Path(__file__).parent / "example_package"
ROOT = Path(__file__).parent.parent

CONTRACT = """
from pathlib import Path
from engines.conformance import SERVED_NAME, check_plan
from engines.contract import Evidence
from engines.launch import Checkpoint, Knobs, Place
from engines.registry import known_engines
engine = known_engines()["echo"]
place = Place("python3", "", "", "", "1.0", "/life", "/cache", SERVED_NAME, 18100, 18101, 18102)
check_plan(engine.plan(Checkpoint("/m", "", None, None), Knobs(64, 2), place))
print(engine.read(Evidence({"models": None}, "", SERVED_NAME)).counters)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the package is found; this one stays as it is."""
    from uv import find_uv_bin

    target = tmp_path_factory.mktemp("installed")
    env = uv_environment()
    command = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(PACKAGE)]
    done = subprocess.run([*command, "--python", sys.executable], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": f"{target}:{ROOT}"}


def test_it_is_compared(installed: dict[str, str], tmp_path: Path) -> None:
    config = {
        "name": "example",
        "checkpoint": "demo",
        "knobs": {"max_model_len": 256, "max_num_seqs": 4},
        "contenders": [
            {"name": "a", "engine": "echo", "runner": "nearby"},
            {"name": "b", "engine": "echo", "runner": "nearby"},
        ],
        "workloads": [{"name": "w", "input_tokens": 64, "output_tokens": {"low": 6, "high": 10}, "concurrency": [1]}],
        "blocks": 1,
        "window_s": 0.2,
        "port": 18380,
    }
    (tmp_path / "example.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "runners", "compare", "example.yaml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, env=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("started nearby") == 2
    rows = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [(row["engine"], row["engine_version"], row["requests_failed"]) for row in rows] == [
        ("a", "1.0", 0),
        ("b", "1.0", 0),
    ]


def test_it_is_listed_and_held_to_the_contract(installed: dict[str, str], tmp_path: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "runners", "engines"], cwd=tmp_path, env=installed, capture_output=True, text=True
    )
    assert "echo: an example from another package" in listed.stdout
    checked = subprocess.run(
        [sys.executable, "-c", CONTRACT], cwd=tmp_path, env=installed, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("Counters(requests=None")
