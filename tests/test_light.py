# SPDX-License-Identifier: Apache-2.0
"""The light pair from end to end: real llama.cpp, real Triton, the real command."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from runners.launch import ports
from runners.report.record import CellRecord
from tests.live_environments import light_environment

pytestmark = pytest.mark.light

PORT = 20_000 + 3 * (os.getpid() % 3_000)
"""Test runs beside each other on one machine keep out of each other's way."""
CONFIG: dict[str, Any] = {
    "name": "smoke",
    "checkpoint": "demo",
    "knobs": {
        "max_model_len": 256,
        "max_num_seqs": 4,
        "dtype": "float32",
        "speculation": {"kind": "ngram", "tokens": 2},
    },
    "contenders": [
        {"name": "direct", "engine": "llamacpp_openai"},
        {"name": "triton", "engine": "triton_llamacpp"},
    ],
    "workloads": [
        {
            "name": "w",
            "input_tokens": {"low": 60, "high": 70},
            "output_tokens": {"low": 6, "high": 10},
            "shared_prefix": {"tokens": 32, "count": 1},
            "concurrency": [1, 2],
            "limits": [{"metric": "ttft_visible", "percentile": 50, "at_most_s": 5.0}],
            "capacity": {"start": 1, "most": 2},
        }
    ],
    "square": {"first_runtime": ["direct", "triton"], "second_runtime": [None, None]},
    "gate": {"prompts": 4, "tokens": 16},
    "blocks": 2,
    "window_s": 0.3,
    "idle_limit_s": 20,
    "start_limit_s": 60,
    "port": PORT,
}


PLANNED_ONLY: dict[str, Any] = {**CONFIG["workloads"][0], "capacity": None}


@pytest.fixture(scope="module", autouse=True)
def _environment() -> None:
    light_environment()


def bakeoff(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runners", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one whole comparison, out/ within."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "smoke.yaml").write_text(yaml.safe_dump(CONFIG))
    done = bakeoff("compare", "smoke.yaml", "--out", "out", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "| direct | 2026.10.11549 | w | 1 | 2 |" in done.stdout
    assert "The record lies in out" in done.stdout
    return folder


def rows(folder: Path) -> list[dict[str, Any]]:
    done = bakeoff("table", "out", "--format", "json", folder=folder)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_the_table(compared: Path) -> None:
    found = rows(compared)
    assert [(r["engine"], r["level"]) for r in found] == [("direct", 1), ("triton", 1), ("direct", 2), ("triton", 2)]
    for row in found:
        assert row["blocks"] == 2
        assert row["requests_done"] == row["requests_due"] > 0
        assert row["requests_failed"] == row["token_mismatches"] == 0
        assert row["output_tokens"] == row["client_output_tokens"] > 0
        assert row["output_tokens_per_s"] > 0
        assert row["ttft_visible_p50_s"] > 0
        assert row["tpot_p50_s"] > 0
        assert 0 < row["cache_hit_rate"] < 32 / 60
        assert row["acceptance_rate"] is None or 0 <= row["acceptance_rate"] <= 1
        assert row["engine_version"] == "2026.10.11549"
        assert "demo" in row["flags"]
        assert not [flag for flag in row["flags"] if "window too short" in flag]
    assert found[0]["verdict"] == "reference"
    assert found[1]["ratio"] > 0
    assert found[1]["front_end"] == "Triton 2.51.0"


def test_the_verdicts(compared: Path) -> None:
    done = bakeoff("verdicts", "out", "--format", "json", folder=compared)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    declared = found["comparisons"][0]
    assert (declared["contender"], declared["level"], declared["ratio"]["n"]) == ("triton", None, 2)
    assert declared["ratio"]["low"] < declared["ratio"]["value"] < declared["ratio"]["high"]
    assert {r["outcome"] for r in found["requirements"]} == {"pass"}
    assert [(c["contender"], c["value"], c["at_least"]) for c in found["capacities"]] == [
        ("direct", pytest.approx(2.0), True),
        ("triton", pytest.approx(2.0), True),
    ]
    assert [p["name"] for p in found["attribution"]] == ["front end"] * 3
    assert found["attribution"][0]["ratio"]["value"] == pytest.approx(declared["ratio"]["value"])
    assert (compared / "out" / "lives" / "b01-direct" / "w-capacity-c2.json").exists()
    assert (compared / "out" / "verdicts.md").read_text().startswith("## Verdicts")


def test_the_gate(compared: Path) -> None:
    done = bakeoff("gate", "out", "--format", "json", folder=compared)
    assert done.returncode == 0, done.stderr
    direct, triton = json.loads(done.stdout)
    assert (direct["passed"], direct["prompts"], direct["starts"]) == (None, 4, 2)
    assert (triton["passed"], triton["finish_reasons"]) == (True, {"length": 8})
    assert triton["agreed"] > 0.8, "slots that were used before may round otherwise"
    assert [row["same_answers"].endswith("%, pass") for row in rows(compared)] == [False, True] * 2
    assert "## Equivalence" in (compared / "out" / "verdicts.md").read_text()
    assert bakeoff("gate", "out", "--format", "csv", folder=compared).returncode == 1


def test_all_contenders_of_a_block_were_asked_the_same(compared: Path) -> None:
    """The shorter of two runs asked the beginning of what the longer one asked."""
    hashes = {
        json.loads((compared / "out" / "lives" / f"b01-{contender}" / "w-c2.json").read_text())["prompts_sha256"]
        for contender in ("direct", "triton")
    }
    assert len(hashes) == 1
    import pandas as pd

    lengths = []
    for contender in ("direct", "triton"):
        frame = pd.read_parquet(compared / "out" / "lives" / f"b01-{contender}" / "w-c2.parquet")
        lengths.append(list(zip(frame["input_tokens"], frame["max_tokens"], frame["prompt_tokens"], strict=True)))
    common = min(len(one) for one in lengths)
    assert common > 5
    assert lengths[0][:common] == lengths[1][:common]


def test_the_ledger_is_read_back_and_special_tokens_agree(compared: Path) -> None:
    for contender in ("direct", "triton"):
        life = json.loads((compared / "out" / "lives" / f"b01-{contender}" / "life.json").read_text())
        ledger = {row["name"]: row["value"] for row in life["ledger"]}
        assert ledger["KV capacity (tokens)"] == "1024"
        assert ledger["maximum length (tokens)"] == "256"
        assert ledger["speculation"] == "ngram, 2 tokens"
        assert ledger["special tokens added"] == "0"
        assert life["canary"]["error"] is None


def test_what_is_given_away_of_a_real_run(compared: Path) -> None:
    """Bundle, check and report; no home folder in the bundle's report."""
    for arguments in (("bundle", "out", "--out", "b.zip"), ("check", "b.zip"), ("report", "b.zip", "--out", "r.html")):
        done = bakeoff(*arguments, folder=compared)
        assert done.returncode == 0, done.stdout + done.stderr
    text = (compared / "r.html").read_text()
    assert '<section id="verdicts"' in text
    assert "redacted-home-1/" in text
    assert f"{Path.home()}/" not in text


def test_nothing_is_left(compared: Path) -> None:
    assert compared.exists()
    assert all(ports.is_free(port) for port in (PORT, PORT + 1, PORT + 2))
    assert not left_of(compared)


def listen() -> None:
    """Undo what a job in the background inherits: Ctrl-C ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def left_of(folder: Path) -> list[psutil.Process]:
    """Processes of engines that were started for results below a folder."""
    return [process for process in psutil.process_iter() if _is_engine_of(process, folder)]


def _is_engine_of(process: psutil.Process, folder: Path) -> bool:
    try:
        return "BAKEOFF_LIFE" in process.environ() and str(folder) in " ".join([process.cwd(), *process.cmdline()])
    except (psutil.Error, OSError):
        return False


def test_resuming_redoes_unfinished_lives_only(compared: Path) -> None:
    lives = compared / "out" / "lives"
    kept = (lives / "b01-direct" / "w-c1.json").read_text()
    lost = (lives / "b02-triton" / "w-c1.json").read_text()
    (lives / "b02-triton" / "life.json").unlink()
    assert [row["blocks"] for row in rows(compared)] == [2, 1, 2, 1]
    done = bakeoff("compare", "smoke.yaml", "--out", "out", "--resume", folder=compared)
    assert done.returncode == 0, done.stderr
    assert "start 1 of 1" in done.stderr
    assert (lives / "b01-direct" / "w-c1.json").read_text() == kept
    assert (lives / "b02-triton.superseded-1" / "w-c1.json").read_text() == lost
    assert CellRecord.model_validate_json((lives / "b02-triton" / "w-c1.json").read_text()).block == 2
    assert [row["blocks"] for row in rows(compared)] == [2, 2, 2, 2]


def test_a_block_whose_lives_lie_too_far_apart_is_redone_whole(compared: Path) -> None:
    lives = compared / "out" / "lives"
    (lives / "b02-triton" / "life.json").unlink()
    kept = json.loads((lives / "b02-direct" / "life.json").read_text())
    old = {**kept, "started_at": "2026-01-01T00:00:00+00:00", "ended_at": "2026-01-01T00:10:00+00:00"}
    (lives / "b02-direct" / "life.json").write_text(json.dumps(old))
    done = bakeoff("compare", "smoke.yaml", "--out", "out", "--resume", folder=compared)
    assert done.returncode == 0, done.stderr
    assert "block 2 is redone whole: its lives lie" in done.stderr
    assert "start 2 of 2" in done.stderr
    assert (lives / "b02-direct.superseded-1" / "life.json").exists()
    assert json.loads((lives / "b02-direct" / "life.json").read_text())["started_at"] > "2026-01-02"
    assert [row["blocks"] for row in rows(compared)] == [2, 2, 2, 2]


def test_until_decided_stops_at_a_cap_and_goes_on_to_the_look(tmp_path: Path) -> None:
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump({**CONFIG, "workloads": [PLANNED_ONLY]}))
    capped = ("--until-decided", "--most-blocks", "2", "--most-hours", "0.0001")
    done = bakeoff("compare", "smoke.yaml", "--out", "out", *capped, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "looks after 2 blocks" in done.stderr
    assert "stopped before block 2" in done.stderr
    assert "| triton | w | all | 1 | " in done.stdout
    assert "no verdict: " in done.stdout
    assert json.loads((tmp_path / "out" / "looks.json").read_text()) == {"after_blocks": [2]}
    done = bakeoff("compare", "smoke.yaml", "--out", "out", "--resume", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "block 2 of 2, " in done.stderr
    assert "block 1 of" not in done.stderr
    assert "decided at the look after 2 blocks" in done.stderr or "not decided after 2 blocks" in done.stderr


def test_results_are_not_overwritten(compared: Path) -> None:
    done = bakeoff("compare", "smoke.yaml", "--out", "out", folder=compared)
    assert done.returncode == 1
    assert "out is not empty; results are never overwritten" in done.stderr


def test_plan_and_verify(compared: Path) -> None:
    done = bakeoff("plan", "smoke.yaml", "triton", folder=compared)
    assert done.returncode == 0
    assert "bin/tritonserver --backend-directory=" in done.stdout
    assert "/models --http-port=" in done.stdout
    assert "## file models/" in done.stdout
    assert "# direct:" not in done.stdout
    done = bakeoff("verify", "smoke.yaml", folder=compared)
    assert done.returncode == 0, done.stderr
    assert "front_end: Triton 2.51.0" in done.stdout
    assert "[must match] KV capacity (tokens): 1024" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_process_and_keeps_finished_cells(tmp_path: Path, number: signal.Signals) -> None:
    """The first life is left alone; the second is interrupted while it is driven."""
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump({**CONFIG, "workloads": [PLANNED_ONLY], "window_s": 1.0}))
    command = [sys.executable, "-m", "runners", "compare", "smoke.yaml", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=listen) as running:
        assert running.stderr is not None
        driving = (line for line in running.stderr if "driving" in line)
        for _ in range(3):
            next(driving)
        os.kill(running.pid, number)
        said = running.stderr.read()
        assert running.wait() == 130
    assert "interrupted; what was finished is kept" in said
    assert "Traceback" not in said
    assert all(ports.is_free(port) for port in (PORT, PORT + 1, PORT + 2))
    assert not left_of(tmp_path)
    assert [row["engine"] for row in rows(tmp_path)] == ["direct", "direct"]


def test_an_engine_that_dies_while_it_is_driven(tmp_path: Path) -> None:
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump({**CONFIG, "window_s": 60.0}))
    command = [sys.executable, "-m", "runners", "compare", "smoke.yaml", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        next(line for line in running.stderr if "driving" in line)
        (engine,) = psutil.Process(running.pid).children()
        engine.kill()
        said = running.stderr.read()
        assert running.wait() == 1
    assert "the engine died while it was driven" in said
    assert "its last lines:\n    " in said
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "lives" / "b01-direct" / "life.json").exists()
