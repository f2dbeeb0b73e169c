# SPDX-License-Identifier: Apache-2.0
"""Rows that the tool establishes itself, and the checks that stop a run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engines.contract import Capabilities, Counters, LedgerRow, Loaded, Prompt, Reading, RowKind, Sampling
from engines.launch import Checkpoint
from runners.checkpoint import check_unchanged, find_checkpoint
from runners.config import ConfigError
from runners.gpu_settings import GpuSettings
from runners.load.trace import Timeline, Trace
from runners.own_rows import Given, observed_interval, with_own_rows
from tests.test_records import trace

CAPABLE = Capabilities("m", "1", "front", 512, True, True, True, False)
GREEDY = Prompt("p", 5, 24, True, Sampling())
NEUTRAL = Loaded(sampling_defaults="neutral")
H200 = GpuSettings("NVIDIA H200", "570.1", 700.0, 1980, 3201)


@pytest.fixture
def folder(tmp_path: Path, demo_folder: Path) -> Path:
    return Path(shutil.copytree(demo_folder, tmp_path / "checkpoint"))


def found(folder: Path) -> Checkpoint:
    return find_checkpoint(str(folder), "x.yaml", print)


def streamed(*added: int) -> Trace:
    timeline, so_far = Timeline(), 0
    for number, tokens in enumerate(added):
        so_far += tokens
        timeline.add(float(number), float(number), so_far)
    return replace(trace(0, 0.0), timeline=timeline, prompt_tokens=6, input_tokens=5)


def own(
    checkpoint: Checkpoint, loaded: Loaded = NEUTRAL, gpus: tuple[GpuSettings, ...] | None = (), *said: LedgerRow
) -> dict[str, str | None]:
    reading = Reading(CAPABLE, said, Counters(), loaded=loaded)
    rows = with_own_rows(reading, Given(checkpoint, gpus, None), GREEDY, streamed(1, 1, 1, 1))
    return {row.name: row.value for row in rows}


@pytest.mark.parametrize(
    ("added", "interval"),
    [
        ((1, 1, 1, 1), 1),
        ((1, 3, 1, 2, 4), 1),  # joined on the way
        ((1, 10, 10, 3), 10),
        ((1, 10, 3), 10),
        ((1, 10, 20, 3), None),  # neither
        ((1, 23), None),
        ((24,), None),
        ((), None),
    ],
)
def test_the_stream_interval_is_seen(added: tuple[int, ...], interval: int | None) -> None:
    assert observed_interval(streamed(*added), CAPABLE) == interval


def test_drafts_hide_the_stream_interval() -> None:
    assert observed_interval(streamed(1, 3, 3, 3, 1), replace(CAPABLE, speculates=True)) is None


def test_what_is_seen_counts_before_what_is_said(folder: Path) -> None:
    said = LedgerRow("stream interval", "10", "a log", RowKind.MUST_MATCH)
    assert own(found(folder), NEUTRAL, (), said)["stream interval"] == "1"


def test_tokenizer_and_template_of_the_folder_that_was_loaded(folder: Path, tmp_path: Path) -> None:
    checkpoint = found(folder)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    (other / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + "\n")
    (other / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    same = own(checkpoint, Loaded(tokenizer=str(folder), renders=True))
    differing = own(checkpoint, Loaded(tokenizer=str(other), renders=True))
    text = own(checkpoint, Loaded(tokenizer=str(folder)))
    assert same["tokenizer"] == text["tokenizer"] == (checkpoint.tokenizer_sha256 or "")[:16]
    assert same["chat template"] == text["chat template"] == (checkpoint.template_sha256 or "")[:16]
    assert differing["tokenizer"] not in (None, same["tokenizer"])
    assert differing["chat template"] not in (None, same["chat template"])


def test_a_template_that_the_engine_tells_or_was_given(folder: Path, tmp_path: Path) -> None:
    checkpoint = found(folder)
    template = (folder / "chat_template.jinja").read_text()
    given = tmp_path / "given.jinja"
    given.write_text("another")
    usual = own(checkpoint)["chat template"]
    assert own(checkpoint, Loaded(renders=True, template=template + "\n"))["chat template"] == usual
    assert own(checkpoint, Loaded(renders=True, template_file=str(given)))["chat template"] not in (None, usual)
    assert own(checkpoint, Loaded(renders=True, template_file="/no/such.jinja"))["chat template"] is None


def test_a_converted_file_names_what_it_was_made_of(folder: Path) -> None:
    checkpoint = found(folder)
    mine = own(checkpoint, Loaded(tokenizer=f"/cache/{checkpoint.identity[:16]}.gguf"))
    assert mine["tokenizer"] == (checkpoint.tokenizer_sha256 or "")[:16]
    assert own(checkpoint, Loaded(tokenizer="/cache/0123456789abcdef.gguf"))["tokenizer"] is None


def test_sampling_defaults_of_the_checkpoint_are_another_sampling(folder: Path) -> None:
    checkpoint = found(folder)
    fields = "temperature 0, top_p 1, top_k off, seed 0; defaults"
    assert own(checkpoint)["sampling in force"] == f"{fields} neutral"
    theirs = own(checkpoint, Loaded(sampling_defaults="generation_config auto"))["sampling in force"]
    assert theirs == f"{fields} generation_config auto"
    assert own(checkpoint, Loaded())["sampling in force"] is None


def test_gpus_by_what_they_are_set_to(folder: Path) -> None:
    checkpoint = found(folder)
    two = own(checkpoint, NEUTRAL, (H200, replace(H200, power_cap_w=600.0)))
    assert two["GPU model"] == "2 x NVIDIA H200"
    assert two["GPU power cap"] == "700 W + 600 W"
    assert two["GPU clocks"] == "2 x 1980 / 3201 MHz"
    assert own(checkpoint)["GPU model"] == "none"


def test_of_a_server_that_was_not_started_here_weights_and_gpus_are_unknown(folder: Path) -> None:
    rows = own(found(folder), NEUTRAL, None)
    assert [rows[name] for name in ("weights (sha256)", "checkpoint revision", "GPU model")] == [None, None, None]


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("*.safetensors", r"the weights \(\*\.safetensors\), sha256 "),
        ("tokenizer.json", r"the tokenizer \(tokenizer\.json\), sha256 "),
        ("chat_template.jinja", "the chat template, sha256 "),
        ("config.json", r"settings beside the weights \(\*\.json\), sha256 "),
    ],
)
def test_a_checkpoint_that_changed_between_engines_stops_the_run(folder: Path, file: str, told: str) -> None:
    checkpoint = found(folder)
    check_unchanged(checkpoint, "x.yaml")
    path = next(folder.glob(file))
    if file == "config.json":
        path.write_text(json.dumps({**json.loads(path.read_text()), "rope_theta": 1.0}))
    else:
        path.write_bytes(path.read_bytes() + b" x")
    with pytest.raises(
        ConfigError, match=rf"x\.yaml: checkpoint: .* changed since the first engine was planned: {told}"
    ):
        check_unchanged(checkpoint, "x.yaml")
