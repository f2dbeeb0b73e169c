# SPDX-License-Identifier: Apache-2.0
"""Conversations: what each turn reuses, and where the turn before it is."""

from itertools import islice

import pytest

from engines.contract import Prompt, Sampling
from runners.config_workload import Level, Span, WorkloadConfig
from runners.load.conversation import Conversations
from runners.load.rendering import DrawError, Rendering

WORKLOAD = WorkloadConfig(
    name="w",
    input_tokens=Span(low=20, high=30),
    output_tokens=Span(low=5, high=9),
    turns=3,
    concurrency=(2,),
)
ALIVE = 4


def conversations(rendering: Rendering, workload: WorkloadConfig = WORKLOAD) -> Conversations:
    return Conversations(rendering, workload, Sampling(), True, ("seed",), ALIVE)


def prompts(rendering: Rendering, count: int = 40) -> list[Prompt]:
    return list(islice(conversations(rendering).prompts(), count))


def test_a_turn_holds_the_turns_before_it(rendering: Rendering) -> None:
    first, second, third = conversations(rendering).turns(0, 0)
    opening = rendering.tokens(rendering.before)
    assert 20 <= first.input_tokens <= 30
    assert second.text.startswith(first.text)
    assert third.text.startswith(second.text)
    assert third.text.count("<|start|>user\n") == 3
    assert third.text.count("<|start|>assistant\n") == 3
    assert third.text.endswith("<|end|>\n<|start|>assistant\n")
    for prompt in (first, second, third):
        assert prompt.input_tokens == len(rendering.ids(prompt.text))
        assert 5 <= prompt.max_tokens <= 9
    assert [p.reused_tokens for p in (first, second, third)] == [opening, first.input_tokens, second.input_tokens]
    made_up = rendering.tokens(second.text[len(first.text) :].partition("<|end|>")[0])
    assert made_up == first.max_tokens, "the answer made up for a turn is as long as the one asked for"


def test_the_turn_before_is_always_as_many_prompts_earlier(rendering: Rendering) -> None:
    """The first four are of turns 1, 2, 3 and 1; the turns before the second and third are sent ahead."""
    asked = prompts(rendering)
    turns = [p.text.count("<|start|>user\n") for p in asked]
    assert turns[:8] == [1, 2, 3, 1, 2, 3, 1, 2]
    for number, (prompt, turn) in enumerate(zip(asked, turns, strict=True)):
        if turn > 1 and number >= ALIVE:
            before = asked[number - ALIVE]
            assert prompt.text.startswith(before.text)
            assert prompt.reused_tokens == before.input_tokens
    primers = conversations(rendering).primers()
    assert [p.max_tokens for p in primers] == [1, 1]
    for primer, prompt in zip(primers, asked[1:3], strict=True):
        assert prompt.text.startswith(primer.text)
        assert prompt.reused_tokens == primer.input_tokens


def test_each_prompt_is_new(rendering: Rendering) -> None:
    asked = prompts(rendering)
    assert len({p.text for p in asked}) == len(asked)
    assert asked == prompts(rendering), "and the same for every contender"


def test_twice_as_many_as_are_in_flight_are_alive() -> None:
    assert WORKLOAD.alive_at(Level("concurrency", 16)) == 32
    assert WORKLOAD.alive_at(Level("rate", 2.5)) == 25
    assert WORKLOAD.alive_at(Level("rate", 0.1)) == 2


def test_a_user_who_can_say_nothing_is_refused(rendering: Rendering) -> None:
    short = WORKLOAD.model_copy(update={"input_tokens": Span(low=3, high=3)})
    with pytest.raises(DrawError, match=r"workloads.w.input_tokens: the chat template alone takes \d+; ask for more"):
        conversations(rendering, short).turns(0, 0)
