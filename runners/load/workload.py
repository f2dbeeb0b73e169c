# SPDX-License-Identifier: Apache-2.0
"""Draws prompts: seeded, the same for every contender, each used once in a server life.

Prompts are words of the checkpoint's own vocabulary that survive decode-encode, so that their
length in tokens is known; they are rendered with the checkpoint's chat template, once, and the same
bytes go to every engine. A leading BOS is stripped: each engine adds its own.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice
from math import floor

from engines.contract import Prompt, Sampling
from runners.config_workload import WorkloadConfig
from runners.load.conversation import Conversations
from runners.load.prompt_file import Line
from runners.load.rendering import DrawError, Rendering, in_common
from runners.load.words import said

MOST_TRIES = 12
BATCH = 64


@dataclass(frozen=True)
class Opening:
    """How prompts start behind the template's own opening. It takes `taken` tokens with the template around it; their
    first `reused` tokens are those of every prompt that starts so."""

    text: str
    taken: int
    reused: int


@dataclass(frozen=True)
class Draw:
    """A seeded sequence of prompts for one purpose; iterate it anew for the same prompts. `alive` conversations are
    under way at once."""

    rendering: Rendering
    workload: WorkloadConfig
    sampling: Sampling
    forced: bool
    seed: tuple[object, ...]
    prefix_seed: tuple[object, ...]
    alive: int = 2
    lines: tuple[Line, ...] = ()

    def prompts(self) -> Iterator[Prompt]:
        """The lines of a file, else lengths and words by `seed`; shared openings, where the workload has them, by
        `prefix_seed`. Endless, but for lines that are not repeated."""
        if self.lines:
            return self._of_lines()
        return self._drawn() if self.workload.turns == 1 else self.conversations.prompts()

    @property
    def conversations(self) -> Conversations:
        """Those of a workload with turns."""
        return Conversations(self.rendering, self.workload, self.sampling, self.forced, self.seed, self.alive)

    def _of_lines(self) -> Iterator[Prompt]:
        lines = cycle(self.lines) if self.workload.repeat else self.lines
        for line in lines:
            yield Prompt(line.text, line.input_tokens, line.max_tokens, self.forced, self.sampling, line.reused_tokens)

    def _drawn(self) -> Iterator[Prompt]:
        chance = random.Random(repr(self.seed))
        openings = self._openings(chance)
        while True:
            yield from self._batch(chance, openings)

    def primers(self) -> list[Prompt]:
        """What has to be sent before it can be reused: one short prompt for each shared opening, and the turns before
        those that conversations start with."""
        if self.workload.turns > 1:
            return self.conversations.primers()
        chance = random.Random(repr((*self.seed, "primers")))
        shortest = self.workload.lengths[0].low
        return [
            self._prompt(self._mended(chance, opening, shortest), opening, shortest, 1) for opening in self._shared()
        ]

    def _batch(self, chance: random.Random, openings: Iterator[Opening]) -> list[Prompt]:
        """BATCH prompts whose tokens are counted together, which is faster than one by one."""
        wanted = [self._lengths(chance) for _ in range(BATCH)]
        chosen = list(islice(openings, BATCH))
        texts = [
            self._text(chance, opening, total - opening.taken)
            for (total, _), opening in zip(wanted, chosen, strict=True)
        ]
        counts = self.rendering.tokens_of_all(texts)
        return [
            self._prompt(text if count == total else self._mended(chance, opening, total), opening, total, answer)
            for text, count, opening, (total, answer) in zip(texts, counts, chosen, wanted, strict=True)
        ]

    def _lengths(self, chance: random.Random) -> tuple[int, int]:
        asked, answered = self.workload.lengths
        return chance.randint(asked.low, asked.high), chance.randint(answered.low, answered.high)

    def _prompt(self, text: str, opening: Opening, total: int, answer: int) -> Prompt:
        return Prompt(text, total, answer, self.forced, self.sampling, opening.reused)

    def _openings(self, chance: random.Random) -> Iterator[Opening]:
        """The opening of each prompt, the template's own alone where it shares no other."""
        plain, shared, config = self._opening(""), self._shared(), self.workload.shared_prefix
        in_turn = cycle(shared)
        for number in count():
            if config is None:
                yield plain
            elif config.order == "drawn":
                yield chance.choice(shared) if chance.random() < config.share else plain
            else:
                due = floor((number + 1) * config.share) > floor(number * config.share)
                yield next(in_turn) if due else plain

    def _shared(self) -> list[Opening]:
        """The shared openings. They fill, with the template before them, exactly the shared tokens."""
        shared = self.workload.shared_prefix
        if shared is None:
            return []
        chance = random.Random(repr(self.prefix_seed))
        words = max(1, shared.tokens - self.rendering.tokens(self.rendering.before))
        return [self._opening("".join(chance.choices(self.rendering.words, k=words))) for _ in range(shared.count)]

    def _opening(self, text: str) -> Opening:
        """Two ways to go on tell how many tokens they have in common."""
        one, other = (self.rendering.ids(self.rendering.render(text + word)) for word in self.rendering.words[:2])
        taken = self.rendering.tokens(self.rendering.render(text))
        return Opening(text, taken, in_common(one, other))

    def _text(self, chance: random.Random, opening: Opening, words: int) -> str:
        said_after = said(self.rendering.words, self.workload.text, chance, max(1, words))
        return self.rendering.render(opening.text + said_after)

    def _mended(self, chance: random.Random, opening: Opening, total: int) -> str:
        """More or fewer words until the rendered prompt has `total` tokens. Raises DrawError if it cannot."""
        wanted = total - opening.taken
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
            f"(the chat template and the shared opening alone take {opening.taken}); ask for more"
        )


def fingerprint(prompts: list[Prompt]) -> str:
    """Hash of texts and lengths: equal for contenders that were asked the same."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(f"{prompt.input_tokens} {prompt.max_tokens} {prompt.text}\n".encode())
    return digest.hexdigest()[:16]
