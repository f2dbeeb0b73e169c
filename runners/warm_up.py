# SPDX-License-Identifier: Apache-2.0
"""Warms an engine up at one level with prompts of its own, until request times settle, and fills its prefix cache."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from engines.contract import Prompt
from runners.errors import MendableError
from runners.load.drive import Encode, drive
from runners.load.load import Load
from runners.load.transport import Transport

MOST_ROUNDS = 3
SETTLED = 0.15


class WarmUpError(MendableError):
    """Requests fail before anything is measured."""


def warm_up(load: Load, prompts: Iterator[Prompt], encode: Encode, transport: Transport) -> float:
    """Rounds of one request a slot, three at least, until the mean request time of a round is within SETTLED of the
    round before; returns that mean in seconds. Raises WarmUpError where every request of a round fails.
    """
    previous, spread_s = None, 0.0
    for _ in range(MOST_ROUNDS):
        mean_s = _round(replace(load, spread_s=spread_s, requests=max(3, load.level)), prompts, encode, transport)
        if previous is not None and abs(mean_s - previous) <= SETTLED * previous:
            break
        previous = spread_s = mean_s
    return mean_s


def prime(load: Load, prompts: Sequence[Prompt], encode: Encode, transport: Transport) -> None:
    """Each prompt once, so that what later prompts share with it is known. Raises WarmUpError where one fails."""
    if not prompts:
        return
    driven = drive(replace(load, spread_s=0.0, requests=len(prompts)), iter(prompts), encode, transport)
    failed = [e for e in driven.exchanges if e.error is not None or e.status != 200]
    if failed or len(driven.exchanges) < len(prompts):
        first = f"; the first: {failed[0].error or f'HTTP {failed[0].status}'}" if failed else ""
        raise WarmUpError(f"{len(failed)} of {len(prompts)} prompts that fill the prefix cache failed{first}")


def _round(load: Load, prompts: Iterator[Prompt], encode: Encode, transport: Transport) -> float:
    driven = drive(load, prompts, encode, transport)
    good = [e for e in driven.exchanges if e.error is None and e.status == 200 and e.sent_s is not None]
    if not good:
        first = driven.exchanges[0]
        raise WarmUpError(f"every warm-up request failed; the first: {first.error or f'HTTP {first.status}'}")
    return fmean(e.end_s - e.due_s for e in good if e.end_s is not None)
