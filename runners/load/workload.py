# SPDX-License-Identifier: Apache-2.0
"""Draws prompts: seeded, the same for every contender, each used once in a server life.

Prompts are words of the checkpoint's own vocabulary that survive decode-encode, so that their
length in tokens is known; they are rendered with the checkpoint's chat template, once, and the same
bytes go to every engine. A leading BOS is stripped: each engine adds its own.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engines.contract import Prompt, Sampling
from runners.config_workload import WorkloadConfig
from runners.load.rendering import DrawError, Rendering

MOST_TRIES = 12
BATCH = 64


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
