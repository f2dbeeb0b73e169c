# SPDX-License-Identifier: Apache-2.0
"""What a run says in sentences: for each workload and contender the verdict that was declared ahead, and around it what
an architect asks next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from runners.config import Bakeoff
from runners.config_workload import Level, LevelKind
from runners.report.compare import Estimate
from runners.report.costs import Cost
from runners.report.decisions import FEWEST_BLOCKS, Decisions
from runners.report.decisions_text import further_text
from runners.report.figures import interval
from runners.report.limits import overall
from runners.report.verdicts import Comparison

State = Literal["faster", "slower", "equal", "undecided", "no verdict"]
SMALLEST_MARGIN: Final = 0.0005
METRICS: Final = {"output_tokens_per_s": "output tokens per second", "ttft_visible_p95_s": "time to first token (p95)"}


@dataclass(frozen=True)
class Headline:
    """`sentence` is the verdict; `facts` are what stands around it, each with its name."""

    workload: str
    level_kind: LevelKind
    contender: str
    reference: str
    state: State
    sentence: str
    facts: tuple[tuple[str, str], ...]


def headlines(decisions: Decisions, bakeoff: Bakeoff) -> tuple[Headline, ...]:
    """One for each declared comparison, in the order of the config."""
    return tuple(_headline(c, decisions, bakeoff) for c in decisions.comparisons if c.level is None)


def sentences(found: Sequence[Headline]) -> list[str]:
    """Each with its interval, and why it may not stand for long."""
    return [f"{h.sentence} {dict(h.facts).get('Interval', 'No block has both figures')}." for h in found]


def state_of(comparison: Comparison) -> State:
    """The verdict in a word."""
    states: tuple[State, ...] = ("faster", "slower", "equal", "undecided")
    return next((state for state in states if comparison.verdict.startswith(state)), "no verdict")


def _headline(c: Comparison, decisions: Decisions, bakeoff: Bakeoff) -> Headline:
    found = [
        ("Interval", _interval(c, decisions.margin)),
        ("By load", _by_level(c, decisions.comparisons)),
        ("Crossover", _crossover(c, decisions)),
        ("Limits", _limits(c, decisions)),
        ("Capacity", _capacity(c, decisions)),
        ("Cost", _cost(c, decisions)),
        ("What would change it", _change(c, decisions, bakeoff)),
    ]
    return Headline(
        workload=c.workload,
        level_kind=c.level_kind,
        contender=c.contender,
        reference=c.reference,
        state=state_of(c),
        sentence=_sentence(c, decisions.margin),
        facts=tuple((name, text) for name, text in found if text),
    )


def _sentence(c: Comparison, margin: float) -> str:
    state, of = state_of(c), f"in {c.workload}, by {METRICS[c.metric]}"
    if state == "equal":
        return f"{c.contender} and {c.reference} are equal within {margin:.0%} {of}."
    if state in ("faster", "slower"):
        return f"{c.contender} is {c.verdict.replace(' by ', f' than {c.reference} by ', 1)} {of}."
    if state == "undecided":
        return f"Whether {c.contender} or {c.reference} is faster {of} is undecided."
    return f"No verdict on {c.contender} against {c.reference} {of}: {c.verdict.partition(': ')[2]}."


def _interval(c: Comparison, margin: float) -> str:
    if c.ratio is None:
        return ""
    blocks = f"{c.ratio.n} block{'s' if c.ratio.n != 1 else ''}"
    if c.ratio.low is None:
        return f"Ratio {c.ratio.value:.3f}, above 1 is better; {blocks}, without a spread"
    p = "" if c.p_holm is None else f", p Holm {c.p_holm:.3f}"
    return (
        f"Ratio {c.ratio.value:.3f}, above 1 is better; {c.confidence:.1%} interval {c.ratio.low:.3f} to "
        f"{c.ratio.high:.3f} over {blocks}{p}; margin {margin:.0%}"
    )


def _by_level(c: Comparison, comparisons: Sequence[Comparison]) -> str:
    """Levels alone, beside the declared comparison."""
    beside = [x for x in comparisons if x.level is not None and _same(x, c)]
    if len(beside) < 2:
        return ""
    return "; ".join(f"{Level(x.level_kind, x.level or 0.0)}: {x.verdict}" for x in beside)


def _same(one: Comparison, other: Comparison) -> bool:
    keys = ((x.workload, x.level_kind, x.contender) for x in (one, other))
    return len(set(keys)) == 1


def _crossover(c: Comparison, decisions: Decisions) -> str:
    here = (c.workload, c.level_kind, c.contender)
    found = [x.crossover.text() for x in decisions.crossovers if (x.workload, x.level_kind, x.contender) == here]
    unit = "requests per second" if c.level_kind == "rate" else "requests in flight"
    return f"{'; '.join(found)}, in {unit}" if found else ""


def _limits(c: Comparison, decisions: Decisions) -> str:
    """What all limits of a contender come to, by level."""
    told = []
    for name in (c.contender, c.reference):
        mine = [r for r in decisions.requirements if (r.workload, r.contender) == (c.workload, name)]
        levels = dict.fromkeys(r.level for r in mine)
        outcomes = [f"{level} {overall([r for r in mine if r.level == level])}" for level in levels]
        told += [f"{name}: {', '.join(outcomes)}"] if outcomes else []
    return "; ".join(told)


def _capacity(c: Comparison, decisions: Decisions) -> str:
    found = [x for x in decisions.capacities if x.workload == c.workload and x.contender in (c.contender, c.reference)]
    return "; ".join(f"{x.contender}: {x.text()}" for x in found)


def _cost(c: Comparison, decisions: Decisions) -> str:
    """Where each is cheapest, and what energy a token takes there."""
    told = []
    for name in (c.contender, c.reference):
        mine = [
            x for x in decisions.costs if (x.workload, x.contender, x.level_kind) == (c.workload, name, c.level_kind)
        ]
        priced = [x for x in mine if x.per_million_output is not None]
        if priced:
            told.append(f"{name}: {_cheapest(priced)}")
    return "; ".join(told)


def _cheapest(priced: Sequence[Cost]) -> str:
    best = min(priced, key=lambda x: x.per_million_output.value if x.per_million_output else math.inf)
    at = "capacity" if best.level is None else str(Level(best.level_kind, best.level))
    joules = best.joules_per_output_token
    energy = f", {_told(joules)} J per output token" if joules else ""
    return f"{_told(best.per_million_output)} per million output tokens at {at}{energy}"


def _told(estimate: Estimate | None) -> str:
    return interval(estimate.value, estimate.low, estimate.high) if estimate else "-"


def _change(c: Comparison, decisions: Decisions, bakeoff: Bakeoff) -> str:
    """What may turn the verdict: blocks, the margin, the load, what is against any verdict."""
    state, found = state_of(c), []
    if state == "no verdict":
        found.append("removing what is against it, above")
    if state == "undecided":
        found.append(f"further blocks ({further_text(c.further)} more, were the ratio what it looks like)")
    if c.ratio is not None and c.ratio.low is not None and c.ratio.high is not None:
        widest = max(abs(math.log(c.ratio.low)), abs(math.log(c.ratio.high)))
        if state == "equal" and widest > SMALLEST_MARGIN:
            found.append(f"a margin below {math.expm1(widest):.1%}")
        elif state in ("faster", "slower"):
            found.append(f"a margin of {math.expm1(widest):.1%} or more, at which this counts as equal")
    turned = [
        x for x in decisions.comparisons if x.level is not None and _same(x, c) and state_of(x) != state and x.decided
    ]
    if turned:
        found.append(
            "another mix of loads: "
            + ", ".join(f"{Level(x.level_kind, x.level or 0.0)} alone is {x.verdict}" for x in turned)
        )
    if decisions.blocks < FEWEST_BLOCKS:
        found.append(f"more blocks: {decisions.blocks} of them, under {FEWEST_BLOCKS}, are a demo")
    found.append(
        "another release, checkpoint, load or machine"
        if bakeoff.checkpoint != "demo"
        else "a real checkpoint: the demo says nothing of kernels"
    )
    return "; ".join(found) + "."
