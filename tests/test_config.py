# SPDX-License-Identifier: Apache-2.0
"""Configs that are refused: one message with file, key and remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.launch import Knobs, Speculation
from runners.config import ConfigError, parse_config, read_config
from runners.declared import knob_warnings

GOOD: dict[str, Any] = {
    "name": "t",
    "checkpoint": "demo",
    "port": 18600,
    "knobs": {"max_model_len": 512, "max_num_seqs": 4},
    "contenders": [{"name": "a", "engine": "llamacpp_openai"}, {"name": "b", "engine": "triton_llamacpp"}],
    "workloads": [{"name": "w", "input_tokens": 64, "output_tokens": {"low": 8, "high": 16}, "concurrency": [1, 2]}],
}
SHARED = {"tokens": 16, "count": 4}
FILE = {"name": "w", "file": "x.jsonl", "concurrency": [1]}


def written(**changes: Any) -> str:
    return yaml.safe_dump({**GOOD, **changes})


def workload(**changes: Any) -> list[dict[str, Any]]:
    return [{**GOOD["workloads"][0], **changes}]


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "bad.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blcoks": 3}, "bad.yaml: blcoks: unknown key; take it out or correct its spelling"),
        ({"knobs": {**GOOD["knobs"], "dtpye": "x"}}, "bad.yaml: knobs.dtpye: unknown key"),
        ({"blocks": -1}, "bad.yaml: blocks: -1: Input should be greater than 0"),
        ({"window_s": 0}, "bad.yaml: window_s: 0: Input should be greater than 0"),
        ({"port": 80}, "bad.yaml: port: 80: Input should be greater than or equal to 1024"),
        ({"contenders": []}, "bad.yaml: contenders: []: empty; name at least one"),
        ({"reference": "c"}, "bad.yaml: reference: no contender is named 'c'; name one of them"),
        ({"contenders": [GOOD["contenders"][0]] * 2}, "bad.yaml: contenders: the name 'a' occurs twice"),
        ({"knobs": {"max_num_seqs": 4}}, "bad.yaml: knobs.max_model_len: not set"),
        ({"workloads": workload(input_tokens=600)}, "bad.yaml: workloads.w: prompt and answer may take 616 tokens"),
        ({"workloads": workload(input_tokens={"low": 9, "high": 8})}, "low 9 is above high 8; exchange them"),
        ({"workloads": workload(input_tokens=-5)}, "workloads.0.input_tokens.low: -5: Input should be greater than 0"),
        ({"workloads": workload(concurrency=[0])}, "workloads.0.concurrency.0: 0: Input should be greater than 0"),
        ({"workloads": workload(shared_prefix={"tokens": 64, "count": 1})}, "shared_prefix.tokens: 64 leaves nothing"),
        ({"workloads": workload(shared_prefix=SHARED | {"share": 0})}, "share: 0: Input should be greater than 0"),
        (
            {"workloads": workload(shared_prefix=SHARED | {"share": 1.2})},
            "share: 1.2: Input should be less than",
        ),
        ({"workloads": workload(shared_prefix=SHARED | {"order": "lru"})}, "order: 'lru': Input should be 'drawn' or"),
        (
            {"knobs": {**GOOD["knobs"], "block_size": 32}, "workloads": workload(shared_prefix=SHARED)},
            "bad.yaml: workloads.w.shared_prefix.tokens: 16 fill no block of knobs.block_size 32",
        ),
        (
            {"knobs": {**GOOD["knobs"], "kv_cache_tokens": 63}, "workloads": workload(shared_prefix=SHARED)},
            "bad.yaml: workloads.w.shared_prefix.count: 4 openings of 16 tokens are more than knobs.kv_cache_tokens 63",
        ),
        ({"workloads": workload(turns=8)}, "bad.yaml: workloads.w: prompt and answer may take 640 tokens, more than"),
        (
            {"knobs": {**GOOD["knobs"], "kv_cache_tokens": 400}, "workloads": workload(turns=3)},
            "bad.yaml: workloads.w.turns: at 2, 4 conversations of up to 240 tokens are under way, more than",
        ),
        (
            {"workloads": workload(turns=2, shared_prefix=SHARED)},
            "workloads.w.shared_prefix: turns share what",
        ),
        (
            {"workloads": workload(file="x")},
            "bad.yaml: workloads.w: give either input_tokens and output_tokens, or",
        ),
        (
            {"workloads": workload(input_tokens=None)},
            "workloads.w: give either input_tokens and output_tokens, or",
        ),
        ({"workloads": [FILE | {"turns": 2}]}, "workloads.w.file: says all of its prompts; no shared_prefix, turns"),
        ({"workloads": workload(repeat=True)}, "workloads.w.repeat: belongs to a file, and only there"),
        ({"workloads": workload(text="rhyming")}, "text: 'rhyming': Input should be 'random' or 'repeating'"),
        ({"workloads": workload(concurrency=[])}, "workloads.w: no level; give concurrency, rates, or both"),
        ({"workloads": workload(rates=[0])}, "workloads.0.rates.0: 0: Input should be greater than 0"),
        ({"workloads": workload(arrivals="gamma")}, "workloads.w.burstiness: belongs to arrivals: gamma"),
        ({"workloads": workload(burstiness=2)}, "workloads.w.burstiness: belongs to arrivals: gamma"),
        ({"name": "../x"}, "bad.yaml: name: '../x'"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    assert message in refusal(written(**changes))


def test_a_missing_key_is_named() -> None:
    without = {key: value for key, value in GOOD.items() if key != "checkpoint"}
    assert refusal(yaml.safe_dump(without)) == "bad.yaml: checkpoint: missing; add it"


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", ""])
def test_not_a_mapping(text: str) -> None:
    assert refusal(text) == "bad.yaml: expected keys and values at the top; see configs/light.yaml"


def test_not_yaml() -> None:
    assert refusal("a: [").startswith("bad.yaml: not YAML")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml: cannot be read \(No such file or directory\)"):
        read_config(tmp_path / "none.yaml")


def test_a_contender_overrides_the_matched_knobs() -> None:
    speculating = {"name": "b", "engine": "x", "knobs": {"speculation": {"kind": "ngram", "tokens": 3}, "seed": 7}}
    bakeoff = parse_config(written(contenders=[GOOD["contenders"][0], speculating]), "x")
    assert bakeoff.knobs_of(bakeoff.contenders[0]) == Knobs(512, 4, max_num_batched_tokens=8192, async_scheduling=False)
    assert bakeoff.knobs_of(bakeoff.contenders[1]) == Knobs(
        512, 4, max_num_batched_tokens=8192, seed=7, speculation=Speculation("ngram", 3), async_scheduling=False
    )


@pytest.mark.parametrize(
    ("kind", "said", "scheduled"),
    [
        ("ngram", {}, False),
        ("draft_target", {}, False),
        ("eagle3", {}, None),
        ("ngram", {"async_scheduling": True}, True),
    ],
)
def test_the_baseline_is_scheduled_as_the_speculating_contender(
    kind: str, said: dict[str, bool], scheduled: bool | None
) -> None:
    """Unless its own knobs say otherwise."""
    baseline = {**GOOD["contenders"][0], "knobs": said}
    speculating = {"name": "b", "engine": "x", "knobs": {"speculation": {"kind": kind, "tokens": 3, "model": "/m"}}}
    bakeoff = parse_config(written(contenders=[baseline, speculating]), "x")
    assert bakeoff.knobs_of(bakeoff.contenders[0]).async_scheduling is scheduled


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent.parent / "configs").glob("*.yaml")), ids=lambda p: p.name
)
def test_shipped_configs_are_good(path: Path) -> None:
    bakeoff = read_config(path)
    assert bakeoff.name == path.stem
    assert len(bakeoff.contenders) >= 2


def test_knobs_that_differ_are_warned_of_unless_declared() -> None:
    """A cache whose size is left to an engine is judged by what the ledger reads back."""
    drafting = {
        "name": "b",
        "engine": "x",
        "knobs": {"speculation": {"kind": "ngram", "tokens": 3}, "kv_cache_tokens": 9},
    }
    changes = {"contenders": [GOOD["contenders"][0], drafting]}
    assert knob_warnings(parse_config(written(**changes), "x")) == [
        "b is set otherwise than a (speculation), so there will be no verdict on it; if that is what is compared, "
        "add to the config `declared: {speculation: WHY}`"
    ]
    assert knob_warnings(parse_config(written(**changes, declared={"speculation": "compared"}), "x")) == []


def test_another_checkpoint_is_warned_of_unless_declared() -> None:
    other = {"name": "b", "engine": "x", "checkpoint": f"maker/fp8@{'0' * 40}"}
    (warning,) = knob_warnings(parse_config(written(contenders=[GOOD["contenders"][0], other]), "x"))
    assert "(checkpoint revision, weights (sha256))" in warning
    assert 'declared: {checkpoint revision: WHY, "weights (sha256)": WHY}' in warning
