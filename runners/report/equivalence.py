# SPDX-License-Identifier: Apache-2.0
"""Whether contenders give the reference's answers: greedy, one prompt at a time, token by token.

Two answers agree up to the first token in which they differ; their agreement is the tokens before it, as a share of the
longer answer. Low precision makes near ties fall either way, so that no engine is held to more than a part of what the
reference reaches with itself across two starts (`gate.at_least`): another template, checkpoint or sampling loses the
thread in the first tokens, rounding later.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean, median

from runners.config import Bakeoff
from runners.config_gate import GateConfig
from runners.report import prompt_counts
from runners.report.gate_record import GateAnswer, GateRecord
from runners.report.record import Run
from runners.report.task_score import TaskScore, decidedly_worse, score_of

Pair = tuple[GateAnswer, GateAnswer]


@dataclass(frozen=True)
class Agreement:
    """Of pairs of answers to the same prompts: the share that is identical, and the mean share of an answer before the
    first difference. `first_divergence` is the median index of the first token that differs, from 0, over those that
    do."""

    identical: float
    agreed: float
    first_divergence: float | None


@dataclass(frozen=True)
class Equivalence:
    """One contender's answers beside the reference's; the reference itself has a row, without a comparison.

    `identical`, `agreed` and `first_divergence` are as in Agreement, of every start of the contender with every start
    of the reference; `reference_*` of the reference with itself across two starts and `own_*` of the contender with
    itself, None where there is one start. `length_ratio` is tokens of its answers / of the reference's. `passed` is
    None where it could not be decided, and of the reference.
    """

    contender: str
    reference: str
    prompts: int
    starts: int
    identical: float | None
    reference_identical: float | None
    agreed: float | None
    reference_agreed: float | None
    own_identical: float | None
    own_agreed: float | None
    first_divergence: float | None
    length_ratio: float | None
    finish_reasons: Mapping[str, int]
    task: TaskScore | None
    passed: bool | None
    reason: str

    @property
    def task_score(self) -> float | None:
        """Share of the task's questions that were answered right."""
        return self.task.share if self.task else None

    @property
    def task_interval(self) -> tuple[float, float] | None:
        return (self.task.low, self.task.high) if self.task else None


def equivalence_of(run: Run) -> tuple[Equivalence, ...]:
    """Each contender, in the order of the config; nothing where no life was asked."""
    bakeoff = Bakeoff.model_validate(run.config)
    starts = {c.name: _starts(run, c.name) for c in bakeoff.contenders}
    if bakeoff.gate is None or not any(starts.values()):
        return ()
    reference = bakeoff.reference_name
    return tuple(_held(name, reference, starts[name], starts[reference], bakeoff.gate) for name in starts)


def refusals(found: Sequence[Equivalence]) -> dict[str, str]:
    """Why a contender may have no verdict, by its name."""
    return {e.contender: f"not {e.reference}'s answers ({e.reason})" for e in found if e.passed is False}


def _starts(run: Run, contender: str) -> list[GateRecord]:
    lives = sorted((life for life in run.lives if life.contender == contender), key=lambda life: life.block)
    return [life.gate for life in lives if life.gate is not None]


def _held(
    name: str, reference: str, mine: Sequence[GateRecord], theirs: Sequence[GateRecord], gate: GateConfig
) -> Equivalence:
    is_reference = name == reference
    across = [] if is_reference else [pair for one, other in product(mine, theirs) for pair in _pairs(one, other)]
    agreement, own, itself = _agreement(across), _with_itself(mine), _with_itself(theirs)
    task = score_of(mine)
    passed, reason = (
        (None, "the reference") if is_reference else _outcome(mine, theirs, agreement, own, itself, reference, gate)
    )
    return Equivalence(
        contender=name,
        reference=reference,
        prompts=len(mine[0].answers) if mine else 0,
        starts=len(mine),
        identical=agreement.identical if agreement else None,
        reference_identical=itself.identical if itself else None,
        agreed=agreement.agreed if agreement else None,
        reference_agreed=itself.agreed if itself else None,
        own_identical=own.identical if own else None,
        own_agreed=own.agreed if own else None,
        first_divergence=agreement.first_divergence if agreement else None,
        length_ratio=_length_ratio(across),
        finish_reasons=dict(Counter(a.finish_reason or "not given" for start in mine for a in start.answers)),
        task=task,
        passed=passed,
        reason=reason,
    )


def _pairs(one: GateRecord, other: GateRecord) -> Iterator[Pair]:
    """Answers to the same prompts."""
    by_prompt = {answer.prompt: answer for answer in other.answers}
    return ((a, by_prompt[a.prompt]) for a in one.answers if a.prompt in by_prompt)


def _with_itself(starts: Sequence[GateRecord]) -> Agreement | None:
    return _agreement([pair for one, other in combinations(starts, 2) for pair in _pairs(one, other)])


def _agreement(pairs: Sequence[Pair]) -> Agreement | None:
    if not pairs:
        return None
    identical = [_identical(*pair) for pair in pairs]
    agreed = [_agreed(*pair) for pair in pairs]
    apart = [_agreed_tokens(*pair) for pair in pairs if not any(a.error for a in pair) and not _identical(*pair)]
    return Agreement(fmean(identical), fmean(agreed), median(apart) if apart else None)


def _identical(one: GateAnswer, other: GateAnswer) -> bool:
    return not one.error and not other.error and one.tokens == other.tokens


def _agreed(one: GateAnswer, other: GateAnswer) -> float:
    """1 for equal answers, also for two that are empty; 0 where one of them failed."""
    if one.error or other.error:
        return 0.0
    longer = max(len(one.tokens), len(other.tokens))
    return _agreed_tokens(one, other) / longer if longer else 1.0


def _agreed_tokens(one: GateAnswer, other: GateAnswer) -> int:
    """Tokens before the first that differs, which is the index of that one."""
    number = 0
    for mine, its in zip(one.tokens, other.tokens, strict=False):
        if mine != its:
            break
        number += 1
    return number


def _length_ratio(pairs: Sequence[Pair]) -> float | None:
    good = [(len(a.tokens), len(b.tokens)) for a, b in pairs if not a.error and not b.error]
    theirs = sum(its for _, its in good)
    return sum(mine for mine, _ in good) / theirs if theirs else None


def _outcome(
    mine: Sequence[GateRecord],
    theirs: Sequence[GateRecord],
    agreement: Agreement | None,
    own: Agreement | None,
    itself: Agreement | None,
    reference: str,
    gate: GateConfig,
) -> tuple[bool | None, str]:
    """The decision and its reason: what the prompts were first, then the answers, then the task."""
    if agreement is None:
        return None, f"{'it' if not mine else reference} has no answers to these prompts"
    counts = prompt_counts.against(_added(mine), _added(theirs), mine[0].bos, reference)
    if counts:
        return False, counts
    silent = [f"{who} reports no prompt counts" for who, of in (("it", mine), (reference, theirs)) if not _added(of)]
    failed = sum(a.error is not None for start in mine for a in start.answers)
    notes = silent + ([f"{failed} of its requests failed"] if failed else [])
    if itself is None:
        return None, "; ".join([f"one start of {reference} only: how far it agrees with itself is not known", *notes])
    if itself.agreed < gate.at_least:
        told = f"{reference}'s own answers agree in {itself.agreed:.0%} of their length from start to start: not greedy"
        return False, "; ".join([told, *notes])
    least = gate.at_least * itself.agreed
    if agreement.agreed < least:
        return False, "; ".join(
            [_below("its answers", agreement.agreed, f"{reference}'s", reference, itself.agreed), *notes]
        )
    if own is not None and own.agreed < least:
        told = _below("its answers", own.agreed, "those of its other start", reference, itself.agreed)
        return False, "; ".join([f"{told}: not greedy", *notes])
    worse = decidedly_worse(mine, theirs)
    if worse:
        return False, "; ".join([worse, *notes])
    return True, "; ".join(["the same answers" if agreement.identical == 1 else "close enough", *notes])


def _below(what: str, agreed: float, whose: str, reference: str, itself: float) -> str:
    return f"{what} agree with {whose} in {agreed:.0%} of their length, {reference} does with itself in {itself:.0%}"


def _added(starts: Sequence[GateRecord]) -> list[int]:
    """Tokens that the engine added to each prompt; none where it does not count them."""
    answers = [a for start in starts for a in start.answers if a.error is None]
    return [a.prompt_tokens - a.input_tokens for a in answers if a.prompt_tokens is not None]
