# SPDX-License-Identifier: Apache-2.0
"""Asks a server what the gate compares: the same prompts in every life, one after the other, greedily."""

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Final

from engines.contract import Prompt, Sampling
from runners.asked import shortest_context
from runners.cell import REQUEST_LIMIT_IDLES, Kitchen
from runners.gate_task import is_right
from runners.load.drive import drive
from runners.load.fold import fold_all
from runners.load.load import one_by_one
from runners.load.rendering import Rendering
from runners.load.trace import Trace
from runners.load.workload import Draw
from runners.report.gate_record import GateAnswer, GateRecord, TaskAnswer
from runners.session import Session
from runners.verify import folding

STARTS: Final = 2
"""Lives of each contender that are asked: two tell how far one agrees with itself."""


def ask_gate(kitchen: Kitchen) -> GateRecord | None:
    """The answers of one life; None without a gate, and from the third block on."""
    session, gate = kitchen.session, kitchen.session.bakeoff.gate
    if gate is None or kitchen.life.block > STARTS:
        return None
    rendering = session.rendering
    prompts = gate_prompts(session)
    questions = [
        Prompt(question.text, question.input_tokens, gate.task_tokens, False, Sampling()) for question in session.task
    ]
    asked = [*prompts, *questions]
    traces = _traces(kitchen, asked)
    answers = [_answer(prompt, trace, rendering) for prompt, trace in zip(asked, traces, strict=True)]
    task = tuple(
        TaskAnswer(
            **answer.model_dump(),
            line=question.line,
            expected=question.answer,
            right=answer.error is None and is_right(answer.text, question.answer),
        )
        for question, answer in zip(session.task, answers[len(prompts) :], strict=True)
    )
    failed = sum(answer.error is not None for answer in answers)
    kitchen.say(f"  gate: {len(answers) - failed} of {len(answers)} answers kept")
    return GateRecord(
        max_tokens=gate.tokens, bos=rendering.bos or None, answers=tuple(answers[: len(prompts)]), task=task
    )


def gate_prompts(session: Session) -> list[Prompt]:
    """Prompts as the first workload draws them, in no life used otherwise and without shared openings, which caches
    would keep. An answer has room in the smallest maximum length of all contenders."""
    bakeoff = session.bakeoff
    assert bakeoff.gate is not None
    workload = bakeoff.workloads[0].single()
    key = (bakeoff.seed, "gate")
    drawn = Draw(session.rendering, workload, Sampling(), False, key, key).prompts()
    shortest = shortest_context(bakeoff)
    return [
        Prompt(p.text, p.input_tokens, min(bakeoff.gate.tokens, shortest - p.input_tokens), False, p.sampling)
        for p in islice(drawn, bakeoff.gate.prompts)
    ]


def _traces(kitchen: Kitchen, prompts: Sequence[Prompt]) -> list[Trace | None]:
    """One after the other; None for those that were not asked any more, after too many failures in a row."""
    idle_limit_s = kitchen.session.bakeoff.idle_limit_s
    load = one_by_one(len(prompts), idle_limit_s, REQUEST_LIMIT_IDLES * idle_limit_s)
    driven = drive(load, iter(prompts), kitchen.encode, kitchen.transport)
    traces = fold_all(driven, folding(*kitchen.asked, keeps_text=True))
    return [*traces, *[None] * (len(prompts) - len(traces))]


def _answer(prompt: Prompt, trace: Trace | None, rendering: Rendering) -> GateAnswer:
    text = (trace.text or "") if trace else ""
    return GateAnswer(
        prompt=hashlib.sha256(prompt.text.encode()).hexdigest()[:16],
        input_tokens=prompt.input_tokens,
        prompt_tokens=trace.prompt_tokens if trace else None,
        text=text,
        tokens=tuple(rendering.ids(text)),
        finish_reason=trace.finish_reason if trace else None,
        error=trace.error if trace else "not asked: too many requests failed in a row",
    )
