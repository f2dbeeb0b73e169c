# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's tokenizer and chat template: texts as engines will see and count them."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runners.errors import MendableError

SPACES: Final = ("\u0120", "\u2581")
"""A word's leading space in byte-level vocabularies and in SentencePiece's."""
BEFORE: Final = "x"
"""Something for a word to stand behind."""
PROVED: Final = 16
PROVED_WORDS: Final = 24
Messages = Sequence[Mapping[str, str]]
"""What was said in turn, by `role` and `content`."""


class DrawError(MendableError):
    """Prompts of the wanted lengths cannot be made with this checkpoint's tokenizer."""


@dataclass(frozen=True)
class Rendering:
    """A checkpoint's tokenizer and template. `words` are tokens that may be drawn; `bos` is empty where it has none.
    `template` makes a prompt of messages, a leading BOS included."""

    tokenizer: Any
    before: str
    after: str
    words: tuple[str, ...]
    bos: str
    template: Callable[[Messages], str]

    def ids(self, text: str) -> list[int]:
        """A text's tokens, without a BOS."""
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def tokens(self, text: str) -> int:
        """Tokens of a text as the engines will count them, without a BOS."""
        return len(self.ids(text))

    def tokens_of_all(self, texts: list[str]) -> list[int]:
        """`tokens` of each text, counted by the tokenizer's own threads."""
        return [len(encoding.ids) for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def conversation(self, messages: Messages) -> str:
        """Messages by role and content, ready for the model to answer the last one."""
        return self.template(messages).removeprefix(self.bos)

    def render(self, content: str) -> str:
        """One user message, ready for the model to answer."""
        return self.before + content + self.after


def load_rendering(folder: Path) -> Rendering:
    """Tokenizer and chat template of a checkpoint. Raises DrawError where there is no tokenizer.json."""
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.exists():
        raise DrawError(f"{path}: missing; a fast tokenizer is needed to draw prompts of known length")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = _json(folder / "tokenizer_config.json")
    bos, template = _token_text(config.get("bos_token")), _template(folder, config)
    mark = "\u2063message\u2063"
    before, found, after = template([{"role": "user", "content": mark}]).removeprefix(bos).partition(mark)
    if not found:
        raise DrawError(f"{folder}: the chat template does not show the user's message")
    rendering = Rendering(tokenizer, before, after, _words(tokenizer), bos, template)
    _prove(rendering, path)
    return rendering


def _template(folder: Path, config: Mapping[str, Any]) -> Callable[[Messages], str]:
    """The checkpoint's chat template; where it has none, messages follow each other without a mark."""
    template = chat_template(folder)
    if template is None:
        return lambda messages: "".join(message["content"] for message in messages)
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    names = {key: _token_text(config.get(key)) for key in ("bos_token", "eos_token")}
    compiled = environment.from_string(template)
    return lambda messages: compiled.render(messages=messages, add_generation_prompt=True, **names)


def chat_template(folder: Path) -> str | None:
    """The text of a folder's chat template; the file of its own counts before the tokenizer's settings."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text("utf-8")
    template = _json(folder / "tokenizer_config.json").get("chat_template")
    return template if isinstance(template, str) else None


def _token_text(value: Any) -> str:
    return str(value["content"]) if isinstance(value, dict) else str(value or "")


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _words(tokenizer: Any) -> tuple[str, ...]:
    """Words with a leading space that are one token each inside a text, in the order of their ids. That space is part
    of the token, written as one of SPACES, which decoding a token alone may leave out."""
    candidates = [
        (i, f" {token[1:]}")
        for token, i in sorted(tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
        if len(token) > 2 and token[0] in SPACES and token[1:].isascii() and token[1:].isalpha()
    ]
    before = tokenizer.encode(BEFORE, add_special_tokens=False).ids
    encoded = tokenizer.encode_batch([BEFORE + text for _, text in candidates], add_special_tokens=False)
    words = tuple(text for (i, text), e in zip(candidates, encoded, strict=True) if e.ids == [*before, i])
    if len(words) < 100:
        raise DrawError("the tokenizer has fewer than 100 words that are one token each; give another checkpoint")
    return words


def _prove(rendering: Rendering, path: Path) -> None:
    """Messages of drawn words keep their tokens inside the template, through decoding and encoding again: an engine
    that takes tokens and one that takes text are asked the same. Raises DrawError where they do not. The first word may
    be split where nothing comes before it."""
    chance = random.Random(0)
    for words in [chance.choices(rendering.words, k=PROVED_WORDS) for _ in range(PROVED)]:
        first, second = rendering.ids(rendering.render("".join(words))), rendering.ids("".join(words))
        again = rendering.ids(rendering.tokenizer.decode(second, skip_special_tokens=False))
        kept = rendering.ids(BEFORE + "".join(words[1:]))[1 - PROVED_WORDS :]
        if again != second or not _holds(first, kept) or not _holds(second, kept):
            raise DrawError(f"{path}: a text of its own words does not survive decoding; give another checkpoint")


def _holds(ids: Sequence[int], run: Sequence[int]) -> bool:
    """One after the other somewhere within."""
    return any(list(ids[start : start + len(run)]) == list(run) for start in range(len(ids) - len(run) + 1))


def in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts start with alike.

    >>> in_common([5, 6, 7], [5, 6, 8, 9]), in_common([5], [5, 6])
    (2, 1)
    """
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
