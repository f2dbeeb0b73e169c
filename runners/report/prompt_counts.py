# SPDX-License-Identifier: Apache-2.0
"""What prompt-token counts give away: a BOS more, a template twice, another tokenizer.

`added` are the tokens by which an engine counts each prompt longer than the checkpoint's tokenizer does, which adds no
special tokens. Special tokens and a template add the same to each; another tokenizer does not.
"""

from collections.abc import Sequence
from typing import Final

ANOTHER: Final = "not the checkpoint's tokenizer"


def told(added: Sequence[int], bos: str | None) -> str:
    """In words.

    >>> told([1, 1], "<s>"), told([0, 0], "<s>"), told([9, 9], None), told([-3, 0, 14], "<s>")
    ('1: a BOS', '0', '9: special tokens or a template', "-3 to 14: not the checkpoint's tokenizer")
    """
    least, most = min(added), max(added)
    if least != most:
        return f"{least} to {most}: {ANOTHER}"
    if most < 0:
        return f"{most}: another template"
    return f"{most}: {_what(most, bos)}" if most else "0"


def against(mine: Sequence[int], theirs: Sequence[int], bos: str | None, reference: str) -> str | None:
    """Why two contenders did not read the same prompts, or None. An empty sequence was not told.

    >>> against([1, 1], [0, 0], "<s>", "a")
    'adds 1 token to each prompt: a BOS'
    >>> against([0, 0], [1, 1], "<s>", "a")
    'a adds 1 token to each prompt: a BOS'
    >>> against([-3, 14], [0, 0], "<s>", "a")
    "counts prompts -3 to 14 tokens longer: not the checkpoint's tokenizer"
    """
    for who, added in (("", mine), (f"{reference} ", theirs)):
        if added and min(added) != max(added):
            return f"{who}counts prompts {min(added)} to {max(added)} tokens longer: {ANOTHER}"
        if added and added[0] < 0:
            return f"{who}counts each prompt {_tokens(-added[0])} shorter: another template"
    more = mine[0] - theirs[0] if mine and theirs else 0
    if not more:
        return None
    who, number = ("", more) if more > 0 else (f"{reference} ", -more)
    return f"{who}adds {_tokens(number)} to each prompt: {_what(number, bos)}"


def _what(number: int, bos: str | None) -> str:
    """One more is the BOS, where the checkpoint has one: it is what engines add by themselves."""
    if number > 1:
        return "special tokens or a template"
    return "a BOS" if bos else "a special token"


def _tokens(number: int) -> str:
    return f"{number} token{'s' if number > 1 else ''}"
