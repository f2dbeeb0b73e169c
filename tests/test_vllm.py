# SPDX-License-Identifier: Apache-2.0
"""The vLLM pair from end to end, on its smallest config: `make test-vllm`, some minutes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.registry import ENGINES
from runners.environments import ensure, recipes
from runners.preflight import machine_complaints
from tests.test_light import bakeoff, rows

pytestmark = pytest.mark.vllm

CONFIG: dict[str, Any] = {
    "name": "smoke-vllm",
    "checkpoint": "demo",
    "knobs": {
        "max_model_len": 256,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 512,
        "dtype": "float32",
        "block_size": 32,
        "kv_cache_tokens": 4096,
        "cuda_graphs": False,
        "speculation": {"kind": "ngram", "tokens": 2},
    },
    "contenders": [
        {"name": "direct", "engine": "vllm_openai"},
        {"name": "triton", "engine": "triton_vllm"},
    ],
    "workloads": [
        {
            "name": "w",
            "input_tokens": {"low": 76, "high": 86},
            "output_tokens": {"low": 6, "high": 10},
            "shared_prefix": {"tokens": 64, "count": 1},
            "concurrency": [2],
        }
    ],
    "blocks": 1,
    "window_s": 1,
    "port": 18210,
}


@pytest.fixture(scope="module", autouse=True)
def _environment() -> None:
    recipe = recipes()["vllm-cpu"]
    complaints = machine_complaints(ENGINES["triton_vllm"], recipe)
    if complaints:
        pytest.skip("; ".join(complaints))
    ensure(recipe, print)


def test_the_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inherited settings that would change or break vLLM are in the environment all the while."""
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "NO SUCH LEVEL")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/no/such/folder")
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump(CONFIG))
    done = bakeoff("compare", "smoke.yaml", "--out", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert [r["engine"] for r in found] == ["direct", "triton"]
    for row in found:
        assert row["requests_done"] == row["requests_due"] > 0
        assert row["token_mismatches"] == 0
        assert row["output_tokens"] == row["client_output_tokens"]
        assert 64 / 86 <= row["cache_hit_rate"] <= 64 / 76
        assert row["acceptance_length"] is None or 1 <= row["acceptance_length"] <= 3
        assert row["engine_version"].startswith("0.32.0")
        assert not [flag for flag in row["flags"] if "foreign traffic" in flag]
    ledgers = [ledger(tmp_path, name) for name in ("direct", "triton")]
    assert ledgers[0] == ledgers[1]
    assert ledgers[0]["KV capacity (tokens)"] == "4096"
    assert ledgers[0]["weight dtype"] == "float32"
    assert ledgers[0]["prefix cache"] == "True"
    assert ledgers[0]["special tokens added"] == "0"


def ledger(folder: Path, contender: str) -> dict[str, str | None]:
    life = json.loads((folder / "out" / "lives" / f"b01-{contender}" / "life.json").read_text())
    return {row["name"]: row["value"] for row in life["ledger"] if row["kind"] == "must match"}
