# SPDX-License-Identifier: Apache-2.0
"""Prompts: exact lengths, the same for all, each new."""

import itertools
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engines.contract import Prompt, Sampling
from runners.config_workload import SharedPrefixConfig, Span, WorkloadConfig
from runners.load.rendering import DrawError, Rendering, load_rendering
from runners.load.workload import Draw, fingerprint

WORKLOAD = WorkloadConfig(
    name="w", input_tokens=Span(low=60, high=90), output_tokens=Span(low=8, high=16), concurrency=(1,)
)


def draw(rendering: Rendering, *seed: object, workload: WorkloadConfig = WORKLOAD, count: int = 50) -> list[Prompt]:
    source = Draw(rendering, workload, Sampling(), True, seed, ("openings",))
    return list(itertools.islice(source.prompts(), count))


def test_lengths_are_exact_and_survive_decoding(rendering: Rendering, demo_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(demo_folder / "tokenizer.json"))
    prompts = draw(rendering, 1)
    for prompt in prompts:
        ids = tokenizer.encode(prompt.text).ids
        assert len(ids) == prompt.input_tokens
        assert tokenizer.decode(ids, skip_special_tokens=False) == prompt.text
    assert {p.input_tokens for p in prompts} <= set(range(60, 91))
    assert {p.max_tokens for p in prompts} <= set(range(8, 17))


def test_the_template_is_rendered_once(rendering: Rendering) -> None:
    prompt = draw(rendering, 1, count=1)[0]
    assert prompt.text.startswith("<|start|>user\n")
    assert prompt.text.endswith("<|end|>\n<|start|>assistant\n")


def test_the_same_seed_asks_the_same_and_another_something_else(rendering: Rendering) -> None:
    assert fingerprint(draw(rendering, 1)) == fingerprint(draw(rendering, 1))
    first, second = draw(rendering, 1), draw(rendering, 2)
    assert not {p.text for p in first} & {p.text for p in second}
    assert len({p.text for p in first}) == len(first)


def test_shared_openings(rendering: Rendering) -> None:
    """48 tokens with the template before them, in two kinds, known to every draw of the cell."""
    workload = WORKLOAD.model_copy(update={"shared_prefix": SharedPrefixConfig(tokens=48, count=2)})
    prompts = draw(rendering, 1, workload=workload) + draw(rendering, 2, workload=workload)
    openings = {tuple(rendering.tokenizer.encode(p.text).ids[:48]) for p in prompts}
    assert len(openings) == 2
    assert len({tuple(rendering.tokenizer.encode(p.text).ids[:50]) for p in prompts}) > 20


def test_a_prompt_shorter_than_its_template_is_refused(rendering: Rendering) -> None:
    short = WORKLOAD.model_copy(update={"input_tokens": Span(low=3, high=3)})
    with pytest.raises(DrawError, match=r"workloads.w.input_tokens: no prompt of 3 tokens could be made"):
        draw(rendering, 1, workload=short)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrawError, match=r"tokenizer.json: missing"):
        load_rendering(tmp_path)
