# SPDX-License-Identifier: Apache-2.0
"""When requests are due in open loop: arithmetic, decided before anything is sent.

Gaps of a gamma process with shape `burstiness` and mean 1 / rate: 1 is Poisson, below 1 burstier, above
1 more regular.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise


def constant(rate: float) -> Iterator[float]:
    """Due times in seconds, evenly spaced, the first at 0.

    >>> times = constant(4.0)
    >>> [next(times) for _ in range(3)]
    [0.0, 0.25, 0.5]
    """
    number = 0
    while True:
        yield number / rate
        number += 1


def gamma(rate: float, burstiness: float, seed: object) -> Iterator[float]:
    """Due times in seconds, the first after one gap; the same for the same seed (anything with a repr)."""
    chance = random.Random(repr(("arrivals", seed)))
    due_s = 0.0
    while True:
        due_s += chance.gammavariate(burstiness, 1.0 / (burstiness * rate))
        yield due_s


def poisson(rate: float, seed: int) -> Iterator[float]:
    """Due times in seconds of a Poisson process."""
    return gamma(rate, 1.0, seed)


def replay(timestamps: Sequence[float]) -> Iterator[float]:
    """Due times of a trace, moved to start at 0. Raises ValueError where they are not in order."""
    if any(later < earlier for earlier, later in pairwise(timestamps)):
        raise ValueError("the trace's timestamps are not in order; sort them")
    return (stamp - timestamps[0] for stamp in timestamps)
