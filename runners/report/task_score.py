# SPDX-License-Identifier: Apache-2.0
"""The score of the gate's task, and whether one contender's is decidedly below another's.

The interval is Wilson's (Journal of the American Statistical Association 22, 1927). Two scores are compared over the
same questions by the exact form of McNemar's test (Psychometrika 12, 1947): of the questions that only one of them
answered right, half are expected of either. A second start asks the same questions, so that it adds none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runners.report.gate_record import GateRecord

ALPHA: Final = 0.05


@dataclass(frozen=True)
class TaskScore:
    """Questions answered right in the first start, of `asked`; the share's 95% interval."""

    right: int
    asked: int
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.right / self.asked


def score_of(starts: Sequence[GateRecord]) -> TaskScore | None:
    """None without a task."""
    if not starts or not starts[0].task:
        return None
    from scipy.stats import binomtest

    right, asked = sum(answer.right for answer in starts[0].task), len(starts[0].task)
    interval = binomtest(right, asked).proportion_ci(0.95, method="wilson")
    return TaskScore(right, asked, float(interval.low), float(interval.high))


def decidedly_worse(mine: Sequence[GateRecord], theirs: Sequence[GateRecord]) -> str | None:
    """In words, where the first answered fewer questions right than the second, at 5% on this side."""
    if not mine or not theirs:
        return None
    by_line = {answer.line: answer.right for answer in theirs[0].task}
    both = [(answer.right, by_line[answer.line]) for answer in mine[0].task if answer.line in by_line]
    only_mine, only_theirs = both.count((True, False)), both.count((False, True))
    if not only_mine + only_theirs:
        return None
    from scipy.stats import binomtest

    p = float(binomtest(only_theirs, only_mine + only_theirs, 0.5, alternative="greater").pvalue)
    if p > ALPHA:
        return None
    return f"task: {only_theirs} questions right for the reference only, {only_mine} for it only (p {p:.3f})"
