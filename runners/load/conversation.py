# SPDX-License-Identifier: Apache-2.0
"""Conversations under way side by side, turn by turn, for a load generator that knows nothing of them.

So many of them are alive at once, in seats that take turns: prompt number n is of seat n mod alive, and the turn
before a prompt is the one `alive` prompts earlier. In closed loop, with twice as many seats as requests in flight, a
turn is sent before the last one was answered only if that took longer than the others' two rounds; how often it
happened is counted afterwards. Seats start at different turns, so that prompts of all lengths mix from the first on;
the turns that they start behind are primed.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from engines.contract import Prompt, Sampling
from runners.config_workload import WorkloadConfig
from runners.load.rendering import DrawError, Rendering, in_common
from runners.load.words import said


@dataclass(frozen=True)
class Conversations:
    """Prompts of conversations by `seed`, of which `alive` are under way at once."""

    rendering: Rendering
    workload: WorkloadConfig
    sampling: Sampling
    forced: bool
    seed: tuple[object, ...]
    alive: int

    def prompts(self) -> Iterator[Prompt]:
        """Endless; a conversation that has ended is followed by another in its seat."""
        under_way: dict[int, list[Prompt]] = {}
        for number in count():
            visit, seat = divmod(number, self.alive)
            conversation, turn = divmod(visit + seat % self.workload.turns, self.workload.turns)
            if turn == 0 or seat not in under_way:
                under_way[seat] = self.turns(seat, conversation)
            yield under_way[seat][turn]

    def primers(self) -> list[Prompt]:
        """The turn before the first one of each seat that starts within a conversation."""
        turns = self.workload.turns
        begun = ((seat, seat % turns) for seat in range(self.alive) if seat % turns)
        return [replace(self.turns(seat, 0)[turn - 1], max_tokens=1) for seat, turn in begun]

    def turns(self, seat: int, conversation: int) -> list[Prompt]:
        """All prompts of one conversation. Raises DrawError where the user has nothing to say."""
        chance = random.Random(repr((*self.seed, seat, conversation)))
        asked, answered = self.workload.lengths
        around = self.rendering.tokens(self.rendering.render(""))
        messages: list[dict[str, str]] = []
        ids = self.rendering.ids(self.rendering.before)
        prompts = []
        for _ in range(self.workload.turns):
            words, answer = chance.randint(asked.low, asked.high) - around, chance.randint(answered.low, answered.high)
            if words < 1:
                raise DrawError(
                    f"workloads.{self.workload.name}.input_tokens: the chat template alone takes {around}; ask for more"
                )
            messages.append({"role": "user", "content": self._said(chance, words)})
            text = self.rendering.conversation(messages)
            before, ids = ids, self.rendering.ids(text)
            prompts.append(Prompt(text, len(ids), answer, self.forced, self.sampling, in_common(before, ids)))
            messages.append({"role": "assistant", "content": self._said(chance, answer)})
        return prompts

    def _said(self, chance: random.Random, words: int) -> str:
        return said(self.rendering.words, self.workload.text, chance, words)


def sent_early(sent_s: list[float | None], end_s: list[float], alive: int) -> int:
    """How many prompts were sent before the one `alive` prompts earlier, the same conversation's last, was answered.

    >>> sent_early([0.0, 0.1, 1.0, 1.1], [0.9, 1.5, 2.0, 2.1], alive=2)
    1
    """
    pairs = zip(sent_s[alive:], end_s, strict=False)
    return sum(sent is not None and sent < ended for sent, ended in pairs)
