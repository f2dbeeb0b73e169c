# SPDX-License-Identifier: Apache-2.0
"""What prompts say: words drawn one by one, or a phrase that comes again and again."""

import random
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Final, Literal

PHRASE_WORDS: Final = 8
"""Twice as long as the longest n-gram that is looked up."""


def said(words: Sequence[str], text: Literal["random", "repeating"], chance: random.Random, count: int) -> str:
    """So many words."""
    if text == "random":
        return "".join(chance.choices(words, k=count))
    return "".join(islice(cycle(chance.choices(words, k=PHRASE_WORDS)), count))
