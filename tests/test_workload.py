# SPDX-License-Identifier: Apache-2.0
"""Prompts: exact lengths, the same for all, each new."""

import itertools
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from engines.contract import Prompt, Sampling
from engines.launch import Checkpoint
from runners.cell import draw as cell_draw
from runners.cells import expand
from runners.config import parse_config
from runners.config_workload import SharedPrefixConfig, Span, WorkloadConfig
from runners.load.rendering import DrawError, Rendering, load_rendering
from runners.load.workload import Draw, fingerprint
from runners.session import Session
from tests.test_config import GOOD, written

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


def beginnings(rendering: Rendering, prompts: list[Prompt], tokens: int) -> list[tuple[int, ...]]:
    return [tuple(rendering.ids(p.text)[:tokens]) for p in prompts]


def shared(**keys: Any) -> WorkloadConfig:
    return WORKLOAD.model_copy(update={"shared_prefix": SharedPrefixConfig(**keys)})


def test_shared_openings(rendering: Rendering) -> None:
    """48 tokens with the template before them, in two kinds, known to every draw of the cell."""
    workload = shared(tokens=48, count=2)
    prompts = draw(rendering, 1, workload=workload) + draw(rendering, 2, workload=workload)
    assert len(set(beginnings(rendering, prompts, 48))) == 2
    assert len(set(beginnings(rendering, prompts, 50))) > 20
    assert {p.reused_tokens for p in prompts} == {48}


def test_openings_in_turn(rendering: Rendering) -> None:
    """Three of four prompts share one of six openings: seven other prompts lie between two uses of one."""
    workload = shared(tokens=48, count=6, share=0.75, order="round-robin")
    prompts = draw(rendering, 1, workload=workload)
    uses: dict[tuple[int, ...], list[int]] = {}
    for number, (prompt, start) in enumerate(zip(prompts, beginnings(rendering, prompts, 48), strict=True)):
        if prompt.reused_tokens == 48:
            uses.setdefault(start, []).append(number)
    assert len(uses) == 6
    assert {b - a for numbers in uses.values() for a, b in pairwise(numbers)} == {8}
    alone = [p for p in prompts if p.reused_tokens != 48]
    assert len(alone) == 13
    assert {p.reused_tokens for p in alone} == {rendering.tokens(rendering.before)}
    assert len(set(beginnings(rendering, alone, 12))) == 13


def test_drawn_openings_are_shared_as_often_as_said(rendering: Rendering) -> None:
    prompts = draw(rendering, 1, workload=shared(tokens=48, count=6, share=0.75), count=400)
    assert 0.7 < sum(p.reused_tokens == 48 for p in prompts) / 400 < 0.8


def test_each_opening_has_a_prompt_that_fills_the_cache(rendering: Rendering) -> None:
    workload = shared(tokens=48, count=5, order="round-robin")
    primers = Draw(rendering, workload, Sampling(), True, (9,), ("openings",)).primers()
    assert [p.max_tokens for p in primers] == [1] * 5
    assert beginnings(rendering, primers, 48) == beginnings(rendering, draw(rendering, 1, workload=workload), 48)[:5]
    assert draw(rendering, 1)[0].reused_tokens == 3, "start of the turn, its role, end of the line"
    assert Draw(rendering, WORKLOAD, Sampling(), True, (9,), ("openings",)).primers() == []


def test_what_one_life_asks_is_disjoint(rendering: Rendering) -> None:
    """Every purpose of every cell: no prompt starts like another, but for the template and the shared opening of its
    own cell and two words that meet by chance."""
    workloads = [
        {**GOOD["workloads"][0], "name": "cold"},
        {**GOOD["workloads"][0], "name": "shared", "shared_prefix": {"tokens": 32, "count": 2}, "rates": [1, 2]},
    ]
    session = planned(rendering, workloads=workloads)
    cells = [*session.lives[0].cells, replace(session.lives[0].cells[0], purpose="capacity")]
    assert len(cells) == 7
    seen: dict[tuple[int, ...], int] = {}
    for number, cell in enumerate(cells):
        openings = 32 if cell.workload.shared_prefix else rendering.tokens(rendering.before)
        for purpose in ("canary", "warm-up", "primers", "measured"):
            source = cell_draw(session, cell, purpose)
            prompts = [*source.primers(), *itertools.islice(source.prompts(), 40)]
            assert {p.reused_tokens for p in prompts} == {openings}
            for start in beginnings(rendering, prompts, openings + 3):
                assert start not in seen
                seen[start] = number
    length = rendering.tokens(rendering.before) + 3
    shorter = [{start[:length] for start in seen if seen[start] == number} for number in range(7)]
    assert not any(a & b for a, b in itertools.combinations(shorter, 2)), "cells share no opening either"


def planned(rendering: Rendering, **changes: Any) -> Session:
    """A session that has nothing but what prompts are drawn from."""
    bakeoff = parse_config(written(**changes), "t.yaml")
    return Session(
        bakeoff=bakeoff,
        text="",
        source="t.yaml",
        checkpoint=Checkpoint("/nowhere", "0" * 64, None, 512),
        rendering=rendering,
        contestants={},
        lives=expand(bakeoff),
        unsupported={},
    )


def test_a_phrase_again_and_again(rendering: Rendering) -> None:
    """Eight words, other ones in each prompt."""
    workload = WORKLOAD.model_copy(update={"text": "repeating"})
    prompts = draw(rendering, 1, workload=workload, count=20)
    said = [p.text.removeprefix(rendering.before).removesuffix(rendering.after).split() for p in prompts]
    assert all(words[8:] == words[:-8] for words in said)
    assert len({tuple(words[:8]) for words in said}) == 20
    assert [p.input_tokens for p in prompts] == [len(rendering.ids(p.text)) for p in prompts]


def test_a_prompt_shorter_than_its_template_is_refused(rendering: Rendering) -> None:
    short = WORKLOAD.model_copy(update={"input_tokens": Span(low=3, high=3)})
    with pytest.raises(DrawError, match=r"workloads.w.input_tokens: no prompt of 3 tokens could be made"):
        draw(rendering, 1, workload=short)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DrawError, match=r"tokenizer.json: missing"):
        load_rendering(tmp_path)
