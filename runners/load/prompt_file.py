# SPDX-License-Identifier: Apache-2.0
"""Prompts of one's own: a file with an object in JSON a line, all of them checked before anything runs."""

import hashlib
import json
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.errors import MendableError
from runners.load.rendering import Rendering, in_common

MOST_COMPLAINTS: Final = 20
EXAMPLE: Final = '{"prompt": "...", "max_tokens": 100}'


class PromptFileError(MendableError):
    """A file of prompts that cannot be used; the message names every line that is wrong."""


class _Exact(BaseModel):
    """A number written as text is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Message(_Exact):
    role: Literal["system", "user", "assistant"]
    content: str = Field(min_length=1)


class Written(_Exact):
    """A line as written: what the user says, or all messages so far."""

    max_tokens: int = Field(gt=0)
    prompt: str | None = Field(default=None, min_length=1)
    messages: list[Message] | None = Field(default=None, min_length=1)


@dataclass(frozen=True)
class Line:
    """One prompt, rendered; `reused_tokens` is what it starts with alike with one that is sent before it."""

    text: str
    input_tokens: int
    max_tokens: int
    reused_tokens: int | None


@dataclass(frozen=True)
class PromptFile:
    """All prompts of a file: a portion for each cell of a life, or with repetition all of them for each."""

    sha256: str
    portions: tuple[tuple[Line, ...], ...]

    @property
    def lines(self) -> list[Line]:
        return [line for portion in self.portions for line in portion]


def read_prompts(path: Path, rendering: Rendering, max_model_len: int, cells: int, *, repeat: bool) -> PromptFile:
    """Prompts rendered with the checkpoint's template. Without `repeat` the cells of a life take turns at the
    lines, and no prompt occurs twice. Raises PromptFileError."""
    content, text = _content(path)
    complaints: list[str] = []
    lines: list[Line] = []
    first: dict[str, int] = {}
    for number, written in enumerate(text.removesuffix("\n").split("\n") if text else (), start=1):
        try:
            line = _line(written, rendering, max_model_len)
        except ValueError as error:
            complaints.append(f"{path}: line {number}: {error}")
            continue
        before = first.setdefault(line.text, number)
        if before != number and not repeat:
            complaints.append(f"{path}: line {number}: the prompt of line {before}; take it out or set repeat: true")
        lines.append(line)
    if not complaints and len(lines) < (1 if repeat else cells):
        complaints.append(f"{path}: {len(lines)} prompts for {cells} levels; write one a line: {EXAMPLE}")
    if complaints:
        more = len(complaints) - MOST_COMPLAINTS
        raise PromptFileError("\n".join(complaints[:MOST_COMPLAINTS] + ([f"and {more} more"] if more > 0 else [])))
    portions = [lines] * cells if repeat else _with_reuse([lines[cell::cells] for cell in range(cells)], rendering)
    return PromptFile(hashlib.sha256(content).hexdigest(), tuple(map(tuple, portions)))


def _content(path: Path) -> tuple[bytes, str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PromptFileError(f"{path}: cannot be read ({error.strerror}); give a file of lines in JSON") from None
    try:
        return content, content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PromptFileError(f"{path}: line {line}: not UTF-8; save the file as UTF-8") from None


def _line(written: str, rendering: Rendering, max_model_len: int) -> Line:
    """Raises ValueError, which says what is wrong with the line."""
    try:
        value = json.loads(written)
    except ValueError as error:
        raise ValueError(f"not JSON ({error}); write {EXAMPLE}") from None
    if not isinstance(value, dict):
        raise ValueError(f"no object; write {EXAMPLE}")
    try:
        found = Written.model_validate(value)
    except ValidationError as error:
        raise ValueError("; ".join(_complaint(one) for one in error.errors())) from None
    if (found.prompt is None) == (found.messages is None):
        raise ValueError("give either prompt or messages")
    text = _rendered(found, rendering)
    tokens = rendering.tokens(text)
    if tokens + found.max_tokens > max_model_len:
        raise ValueError(
            f"prompt and answer take {tokens} + {found.max_tokens} tokens, more than knobs.max_model_len "
            f"{max_model_len}; shorten them"
        )
    return Line(text, tokens, found.max_tokens, None)


def _complaint(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"{key}: missing"
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    return f"{key}: {error['msg']}"


def _rendered(found: Written, rendering: Rendering) -> str:
    if found.messages is None:
        return rendering.render(found.prompt or "")
    return rendering.conversation([{"role": m.role, "content": m.content} for m in found.messages])


def _with_reuse(portions: Sequence[Sequence[Line]], rendering: Rendering) -> list[list[Line]]:
    """In the order in which the lines are sent, the template's own opening first. Of the prompts before it, sorted, the
    neighbours of a prompt start most like it."""
    seen = [rendering.ids(rendering.before)]
    found: list[list[Line]] = []
    for portion in portions:
        found.append([])
        for line in portion:
            ids = rendering.ids(line.text)
            place = bisect(seen, ids)
            neighbours = seen[max(0, place - 1) : place + 1]
            found[-1].append(replace(line, reused_tokens=max(in_common(ids, other) for other in neighbours)))
            seen.insert(place, ids)
    return found
