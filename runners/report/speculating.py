# SPDX-License-Identifier: Apache-2.0
"""What drafting ahead yields, from raw counts: by the engine's counters over the whole cell, else by what each request
of the window told."""

from collections.abc import Sequence
from dataclasses import dataclass

from engines.contract import Counters
from runners.load.trace import Trace
from runners.report.metrics import difference, share, sum_of


@dataclass(frozen=True)
class Drafting:
    """`rate` is accepted / drafted tokens, `length` 1 + accepted / drafts, `tokens_per_step` the generated tokens / the
    steps of all requests, steps without a draft included. `by_position` is, for each place of a draft, the share of
    drafts whose token there was accepted. None was not reported, or there was no draft."""

    drafted_tokens: float | None
    rate: float | None
    length: float | None
    tokens_per_step: float | None
    by_position: tuple[float, ...] | None


def drafting(good: Sequence[Trace], before: Counters, after: Counters) -> Drafting:
    """`good` are the requests of the window that did not fail."""
    drafted = difference(after.drafted_tokens, before.drafted_tokens)
    accepted = difference(after.accepted_tokens, before.accepted_tokens)
    if drafted is None:
        told = [t for t in good if t.drafted_tokens is not None]
        drafted, accepted = sum_of(told, lambda t: t.drafted_tokens), sum_of(told, lambda t: t.accepted_tokens)
    drafts = difference(after.drafts, before.drafts)
    per_draft = share(accepted, drafts)
    return Drafting(
        drafted_tokens=drafted,
        rate=share(accepted, drafted),
        length=None if per_draft is None else 1.0 + per_draft,
        tokens_per_step=share(
            difference(after.generated_tokens, before.generated_tokens), difference(after.steps, before.steps)
        ),
        by_position=_by_position(before.accepted_by_position, after.accepted_by_position, drafts),
    )


def _by_position(
    before: tuple[float, ...] | None, after: tuple[float, ...] | None, drafts: float | None
) -> tuple[float, ...] | None:
    """A counter that appeared in between started at 0."""
    if after is None or not drafts:
        return None
    start = (before or ()) + (0.0,) * (len(after) - len(before or ()))
    return tuple((a - b) / drafts for a, b in zip(after, start, strict=True))
