# SPDX-License-Identifier: Apache-2.0
"""Engines that answer another question than was asked, staged on real llama.cpp: each is found by its answers."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines import llamacpp_openai, registry
from engines.contract import Call, Capabilities, Engine, Prompt, Sampling
from engines.launch import Checkpoint, Knobs, Launch, Place
from engines.registry import ENGINES
from runners import demo_checkpoint, demo_weights
from runners.bakeoff import bake
from runners.demo_checkpoint import make_demo_checkpoint
from runners.demo_shapes import SHAPES
from runners.report.blocks import read_run
from runners.report.decisions import decide_run
from runners.report.equivalence import Equivalence, equivalence_of
from runners.report.lengths import length_differences
from runners.report.record import Run
from runners.report.verdicts import Comparison
from runners.results import open_folder
from runners.session import open_session
from tests.live_environments import light_environment

pytestmark = pytest.mark.light

PORT = 30_000 + 3 * (os.getpid() % 700)
REAL = llamacpp_openai.ENGINE
TASK = [{"prompt": "Say a word.", "answer": "xyzzy"}, {"prompt": "Another word.", "answer": "plugh"}]


def asked(change: Callable[[Prompt], Prompt]) -> Engine:
    """llama.cpp that is sent something else."""

    def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
        return REAL.encode(change(prompt), capabilities)

    return replace(REAL, encode=encode)


def serving(folder: Path) -> Engine:
    """llama.cpp on another checkpoint than the config's."""

    def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
        return REAL.plan(replace(checkpoint, folder=str(folder), sha256=folder.name), knobs, place)

    return replace(REAL, plan=plan)


def other_template(prompt: Prompt) -> Prompt:
    return replace(prompt, text=prompt.text.replace("<|start|>user\n", "Question:").replace("<|start|>", "Answer by "))


def stopping(prompt: Prompt, capabilities: Capabilities) -> Call:
    """Ends its answers at a letter."""
    call = REAL.encode(prompt, capabilities)
    return replace(call, body=json.dumps({**json.loads(call.body), "stop": ["o"]}).encode())


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two blocks of the reference, the same behind Triton, and six that answer something else."""
    light_environment()
    folder = tmp_path_factory.mktemp("gate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_weights, "SEED", 7)
        make_demo_checkpoint(folder / "weights", SHAPES["demo"])
    with pytest.MonkeyPatch.context() as patch:
        corpus = [path.read_text() for path in sorted(Path(os.__file__).parent.glob("[n-z]*.py"))]
        patch.setattr(demo_checkpoint, "_corpus", lambda: corpus)
        make_demo_checkpoint(folder / "tokenizer", SHAPES["demo"])
    staged = {
        "bos": asked(lambda prompt: replace(prompt, text=f"<|begin|>{prompt.text}")),
        "template": asked(other_template),
        "sampling": asked(lambda prompt: replace(prompt, sampling=Sampling(temperature=1.0, seed=len(prompt.text)))),
        "weights": serving(folder / "weights"),
        "tokenizer": serving(folder / "tokenizer"),
        "stopping": replace(REAL, encode=stopping),
    }
    task = folder / "task.jsonl"
    task.write_text("\n".join(map(json.dumps, TASK)))
    config: dict[str, Any] = {
        "name": "gate",
        "checkpoint": "demo",
        "knobs": {"max_model_len": 256, "max_num_seqs": 4, "dtype": "float32"},
        "contenders": [
            {"name": "direct", "engine": "llamacpp_openai"},
            {"name": "triton", "engine": "triton_llamacpp"},
            *({"name": name, "engine": name} for name in staged),
        ],
        "workloads": [{"name": "w", "input_tokens": 64, "output_tokens": {"low": 8, "high": 12}, "concurrency": [2]}],
        "gate": {"prompts": 8, "tokens": 24, "task": str(task), "task_tokens": 8},
        "output_length": "natural",
        "blocks": 2,
        "window_s": 0.3,
        "port": PORT,
    }
    text = yaml.safe_dump(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "ENGINES", {**ENGINES, **staged})
        session = open_session(text, "gate.yaml", print)
    open_folder(folder / "out", text, {"gpus": []}, resume=False)
    bake(session, session.lives, folder / "out", print)
    return read_run(folder / "out")


def found(run: Run, contender: str) -> Equivalence:
    (one,) = [e for e in equivalence_of(run) if e.contender == contender]
    return one


def verdict(run: Run, contender: str) -> Comparison:
    (declared,) = [c for c in decide_run(run).comparisons if c.contender == contender and c.level is None]
    return declared


def test_the_same_engine_behind_triton_passes(compared: Run) -> None:
    triton = found(compared, "triton")
    assert triton.agreed is not None
    assert (triton.passed, triton.agreed > 0.9, triton.length_ratio) == (True, True, 1.0)
    assert triton.finish_reasons == {"length": 16}
    assert not verdict(compared, "triton").withheld
    assert triton.task is not None
    assert (triton.task.right, triton.task.asked, triton.task.low) == (0, 2, 0.0)


def test_a_bos_more_is_named(compared: Run) -> None:
    assert (found(compared, "bos").passed, found(compared, "bos").reason) == (
        False,
        "adds 1 token to each prompt: a BOS",
    )
    assert "adds 1 token to each prompt: a BOS" in verdict(compared, "bos").verdict


def test_another_tokenizer_is_named(compared: Run) -> None:
    other = found(compared, "tokenizer")
    assert other.passed is False
    assert re.fullmatch(r"counts prompts \d+ to \d+ tokens longer: not the checkpoint's tokenizer", other.reason)


@pytest.mark.parametrize("contender", ["template", "sampling", "weights", "stopping"])
def test_other_answers_have_no_verdict(compared: Run, contender: str) -> None:
    assert found(compared, contender).passed is False
    assert found(compared, contender).identical == 0.0
    assert verdict(compared, contender).verdict.startswith("no verdict: ")


def test_answers_that_end_early_are_shorter(compared: Run) -> None:
    assert found(compared, "stopping").finish_reasons == {"stop": 16}
    (shorter,) = length_differences(compared)
    assert (shorter.contender, shorter.ratio < 0.9) == ("stopping", True)
    assert re.fullmatch(r"(length \d+%, )?stop \d+% against length 100%", shorter.reasons)


def test_the_answers_lie_in_the_lifes_record(compared: Run) -> None:
    life = next(life for life in compared.lives if life.contender == "direct")
    assert life.gate is not None
    assert len(life.gate.answers) == 8
    for answer in life.gate.answers:
        assert (len(answer.tokens), answer.finish_reason, answer.error) == (24, "length", None)
        assert answer.prompt_tokens == answer.input_tokens
        assert answer.text
