# SPDX-License-Identifier: Apache-2.0
"""Draws prompts: seeded, the same for every contender, each used once in a server life.

Prompts are words of the checkpoint's own vocabulary that survive decode-encode, so that their
length in tokens is known; they are rendered with the checkpoint's chat template, once, and the same
bytes go to every engine. A leading BOS is stripped: each engine adds its own.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.contract import Prompt, Sampling
from runners.config_workload import WorkloadConfig
from runners.errors import MendableError

MOST_TRIES = 12
BATCH = 64


class DrawError(MendableError):
    """Prompts of the wanted lengths cannot be made with this checkpoint's tokenizer."""


@dataclass(frozen=True)
class Rendering:
    """A checkpoint's tokenizer and template. `words` are tokens that may be drawn; `bos` is empty where it has none."""

    tokenizer: Any
    before: str
    after: str
    words: tuple[str, ...]
    bos: str = ""

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
    before, after = _around_message(folder)
    bos = _token_text(_json(folder / "tokenizer_config.json").get("bos_token"))
    return Rendering(tokenizer, before, after, _words(tokenizer), bos)


def _around_message(folder: Path) -> tuple[str, str]:
    """What the template puts before and after a user's message; nothing where there is none."""
    config = _json(folder / "tokenizer_config.json")
    template_file = folder / "chat_template.jinja"
    template = template_file.read_text("utf-8") if template_file.exists() else config.get("chat_template")
    if not isinstance(template, str):
        return "", ""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    mark = "\u2063message\u2063"
    names = {key: _token_text(config.get(key)) for key in ("bos_token", "eos_token")}
    rendered = environment.from_string(template).render(
        messages=[{"role": "user", "content": mark}], add_generation_prompt=True, **names
    )
    before, found, after = rendered.partition(mark)
    if not found:
        raise DrawError(f"{folder}: the chat template does not show the user's message")
    return (before.removeprefix(names["bos_token"]) if names["bos_token"] else before), after


def _token_text(value: Any) -> str:
    return str(value["content"]) if isinstance(value, dict) else str(value or "")


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _words(tokenizer: Any) -> tuple[str, ...]:
    """Words with a leading space that are one token each, in the order of their ids."""
    ids = sorted(tokenizer.get_vocab(with_added_tokens=False).values())
    texts = tokenizer.decode_batch([[i] for i in ids], skip_special_tokens=False)
    candidates = [
        (i, text)
        for i, text in zip(ids, texts, strict=True)
        if len(text) > 2 and text[0] == " " and text[1:].isascii() and text[1:].isalpha()
    ]
    encoded = tokenizer.encode_batch([text for _, text in candidates], add_special_tokens=False)
    words = tuple(text for (i, text), e in zip(candidates, encoded, strict=True) if e.ids == [i])
    if len(words) < 100:
        raise DrawError("the tokenizer has fewer than 100 words that are one token each; give another checkpoint")
    return words


@dataclass(frozen=True)
class Draw:
    """An endless, seeded sequence of prompts for one purpose; iterate it anew for the same prompts."""

    rendering: Rendering
    workload: WorkloadConfig
    sampling: Sampling
    forced: bool
    seed: tuple[object, ...]
    prefix_seed: tuple[object, ...]

    def prompts(self) -> Iterator[Prompt]:
        """Lengths and words by `seed`; shared openings, where the workload has them, by `prefix_seed`."""
        chance = random.Random(repr(self.seed))
        prefixes = self._prefixes()
        while True:
            yield from self._batch(chance, prefixes)

    def _batch(self, chance: random.Random, prefixes: Mapping[str, int]) -> list[Prompt]:
        """BATCH prompts whose tokens are counted together, which is faster than one by one."""
        wanted = [self._lengths(chance) for _ in range(BATCH)]
        openings = [chance.choice(list(prefixes)) for _ in wanted]
        texts = [
            self._text(chance, opening, total - prefixes[opening])
            for (total, _), opening in zip(wanted, openings, strict=True)
        ]
        counts = self.rendering.tokens_of_all(texts)
        return [
            self._prompt(
                text if count == total else self._mended(chance, opening, total, prefixes[opening]), total, answer
            )
            for text, count, opening, (total, answer) in zip(texts, counts, openings, wanted, strict=True)
        ]

    def _lengths(self, chance: random.Random) -> tuple[int, int]:
        asked, answered = self.workload.input_tokens, self.workload.output_tokens
        return chance.randint(asked.low, asked.high), chance.randint(answered.low, answered.high)

    def _prompt(self, text: str, total: int, answer: int) -> Prompt:
        return Prompt(text, total, answer, self.forced, self.sampling)

    def _prefixes(self) -> Mapping[str, int]:
        """Openings, with the tokens that each takes together with the template around it.

        They fill, with the template before them, exactly the shared tokens.
        """
        shared = self.workload.shared_prefix
        chance = random.Random(repr(self.prefix_seed))
        words = max(1, shared.tokens - self.rendering.tokens(self.rendering.before)) if shared else 0
        openings = [
            "".join(chance.choices(self.rendering.words, k=words)) for _ in range(shared.count if shared else 1)
        ]
        return {opening: self.rendering.tokens(self.rendering.render(opening)) for opening in openings}

    def _text(self, chance: random.Random, opening: str, words: int) -> str:
        return self.rendering.render(opening + "".join(chance.choices(self.rendering.words, k=max(1, words))))

    def _mended(self, chance: random.Random, opening: str, total: int, fixed: int) -> str:
        """More or fewer words until the rendered prompt has `total` tokens. Raises DrawError if it cannot."""
        wanted = total - fixed
        for _ in range(MOST_TRIES):
            if wanted < 1:
                break
            text = self._text(chance, opening, wanted)
            missing = total - self.rendering.tokens(text)
            if missing == 0:
                return text
            wanted += missing
        raise DrawError(
            f"workloads.{self.workload.name}.input_tokens: no prompt of {total} tokens could be made "
            f"(the chat template and the shared opening alone take {fixed}); ask for more"
        )


def fingerprint(prompts: list[Prompt]) -> str:
    """Hash of texts and lengths: equal for contenders that were asked the same."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(f"{prompt.input_tokens} {prompt.max_tokens} {prompt.text}\n".encode())
    return digest.hexdigest()[:16]
