# SPDX-License-Identifier: Apache-2.0
"""What the gate keeps of a server life: the answers themselves, so that they can be compared from records alone."""

from runners.report.written import Written


class GateAnswer(Written):
    """One greedy answer. `prompt` is the hash of the text that was sent and `input_tokens` its count by the
    checkpoint's tokenizer, `prompt_tokens` the engine's. `tokens` are ids of the checkpoint's tokenizer on the answer's
    text. An `error` makes it no answer."""

    prompt: str
    input_tokens: int
    prompt_tokens: int | None
    text: str
    tokens: tuple[int, ...]
    finish_reason: str | None
    error: str | None


class TaskAnswer(GateAnswer):
    """The answer to line `line` of the task, and whether it was `right`."""

    line: int
    expected: str
    right: bool


class GateRecord(Written):
    """Answers at concurrency 1, greedy, of natural length up to `max_tokens`. `bos` is the checkpoint's, None where it
    has none."""

    max_tokens: int
    bos: str | None
    answers: tuple[GateAnswer, ...]
    task: tuple[TaskAnswer, ...] = ()
