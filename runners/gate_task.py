# SPDX-License-Identifier: Apache-2.0
"""The small task of the gate: questions whose answers are known, one a line of a local file."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from runners.config import ConfigError
from runners.load.rendering import Rendering

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
AROUND = " \t.,:;!?\"'`*()[]"


@dataclass(frozen=True)
class Question:
    """Line `line` of the file; `text` is rendered with the checkpoint's template."""

    line: int
    text: str
    input_tokens: int
    answer: str


def read_task(path: str, most_tokens: int, rendering: Rendering, source: str) -> tuple[Question, ...]:
    """All questions of a file, none of more than `most_tokens`. Raises ConfigError with every line that is wrong."""
    where = f"{source}: gate.task: {path}"
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: cannot be read ({error}); give a file of lines in JSON") from None
    found, complaints = [], []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_question(number, line, most_tokens, rendering))
        except ValueError as error:
            complaints.append(f"{where}: line {number}: {error}")
    if not lines:
        complaints.append(f'{where}: empty; write lines {{"prompt": "...", "answer": "..."}}')
    if complaints:
        raise ConfigError("\n".join(complaints))
    return tuple(found)


def _question(number: int, line: str, most_tokens: int, rendering: Rendering) -> Question:
    try:
        value = json.loads(line)
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(value, dict) or set(value) != {"prompt", "answer"}:
        raise ValueError("expected an object with prompt and answer, and nothing else")
    if not all(isinstance(part, str) and part.strip() for part in value.values()):
        raise ValueError("prompt and answer have to be text that is not empty")
    text = rendering.render(value["prompt"])
    tokens = rendering.tokens(text)
    if tokens > most_tokens:
        raise ValueError(f"the prompt takes {tokens} tokens, {most_tokens} leave room for an answer; shorten it")
    return Question(number, text, tokens, value["answer"])


def is_right(text: str, expected: str) -> bool:
    """A number is right if the last number of the text equals it, commas aside; anything else, if the text's first
    line that is not blank says it and nothing more, capitals and punctuation around it aside.

    >>> is_right("7 times 6 is 42.", "42"), is_right("Paris.", "paris"), is_right("It is Paris.", "Paris")
    (True, True, False)
    """
    if NUMBER.fullmatch(expected.strip()):
        numbers = NUMBER.findall(text)
        return bool(numbers) and _number(numbers[-1]) == _number(expected)
    first = next((line for line in text.splitlines() if line.strip(AROUND)), "")
    return first.strip(AROUND).casefold() == expected.strip(AROUND).casefold()


def _number(text: str) -> float:
    return float(text.replace(",", ""))
