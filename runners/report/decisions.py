# SPDX-License-Identifier: Apache-2.0
"""All that a run decides, from the blocks that count."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from runners.cells import balanced
from runners.config import Bakeoff
from runners.report.attribution import Part, attribution
from runners.report.blocks import exclusions, without_excluded
from runners.report.breakdown import Breakdown, breakdown
from runners.report.capacities import CapacityEstimate, capacities
from runners.report.costs import Cost, costs
from runners.report.curves import Point, points
from runners.report.equivalence import Equivalence, equivalence_of, refusals
from runners.report.ledger import ComparedRow, footnotes, incomparable, ledger_of, remedy
from runners.report.lengths import length_differences, withhold_latency
from runners.report.limits import Requirement, requirements
from runners.report.record import Run
from runners.report.scatter import Scatter, scatter
from runners.report.verdicts import Comparison, Crossing, crossings, judge, withhold

FEWEST_BLOCKS: Final = 4
"""Below this a comparison is a demo: its intervals are too wide to decide anything usual."""
DRIFT_SHOWS: Final = 0.01


@dataclass(frozen=True)
class Decisions:
    """All that rests on the blocks that count. `excluded` maps blocks to reasons."""

    blocks: int
    margin: float
    looks: tuple[int, ...]
    excluded: dict[int, str]
    comparisons: tuple[Comparison, ...]
    equivalence: tuple[Equivalence, ...]
    crossovers: tuple[Crossing, ...]
    requirements: tuple[Requirement, ...]
    capacities: tuple[CapacityEstimate, ...]
    attribution: tuple[Part, ...]
    curves: tuple[Point, ...]
    breakdown: tuple[Breakdown, ...]
    costs: tuple[Cost, ...]
    scatter: tuple[Scatter, ...]
    remarks: tuple[str, ...]


def decide_run(run: Run) -> Decisions:
    """Pure; needs no server."""
    bakeoff = Bakeoff.model_validate(run.config)
    kept = without_excluded(run)
    equivalence, ledger = equivalence_of(run), ledger_of(kept)
    refused = without_verdict(equivalence, ledger)
    lengths = length_differences(kept)
    comparisons, scattered = withhold_latency(withhold(judge(kept), refused), lengths), scatter(kept)
    return Decisions(
        blocks=len({cell.block for cell in run.cells}),
        margin=bakeoff.margin,
        looks=run.looks,
        excluded=exclusions(run),
        comparisons=comparisons,
        equivalence=equivalence,
        crossovers=tuple(c for c in crossings(kept) if c.contender not in refused),
        requirements=requirements(kept),
        capacities=capacities(kept),
        attribution=() if refused.keys() & _corners(bakeoff) else attribution(kept),
        curves=points(kept),
        breakdown=breakdown(kept),
        costs=costs(kept),
        scatter=scattered,
        remarks=(
            *_unequal_remarks(ledger, bakeoff),
            *_answer_remarks(equivalence),
            *(difference.remark for difference in lengths),
            *_remarks(run, kept, bakeoff, comparisons, scattered),
        ),
    )


def without_verdict(equivalence: Sequence[Equivalence], ledger: Sequence[ComparedRow]) -> dict[str, str]:
    """Contenders that may have no verdict, each with all that is against one."""
    against = (incomparable(ledger), refusals(equivalence))
    names = dict.fromkeys(name for reasons in against for name in reasons)
    return {name: "; ".join(reasons[name] for reasons in against if name in reasons) for name in names}


def _corners(bakeoff: Bakeoff) -> set[str]:
    """Contenders of which a difference would be made up."""
    return set(bakeoff.square.corners().values()) if bakeoff.square else set()


def _remarks(
    run: Run, kept: Run, bakeoff: Bakeoff, comparisons: Sequence[Comparison], scattered: Sequence[Scatter]
) -> list[str]:
    """What a reader of the verdicts must know."""
    said = [f"block {block} is excluded, for all contenders: {reason}" for block, reason in exclusions(run).items()]
    blocks = {cell.block for cell in kept.cells}
    if len(blocks) < FEWEST_BLOCKS:
        said.append(f"a demo: {len(blocks)} blocks decide little and cannot tell position from chance")
    elif not balanced(len(bakeoff.contenders), len(blocks)):
        said.append(f"{len(blocks)} blocks of {len(bakeoff.contenders)} contenders: positions are not balanced")
    for name in (c.name for c in bakeoff.contenders):
        missing = sorted(blocks - {cell.block for cell in kept.cells if cell.contender == name})
        if missing:
            said.append(f"{name} has no finished life in block {_listed(missing)}: paired blocks only")
    said += [
        f"{name} was never restarted: its blocks are parts of one server life and show nothing of starts"
        for name in dict.fromkeys(cell.contender for cell in kept.cells if cell.runner == "attach")
    ]
    said += [s.remark for s in scattered if s.remark]
    said += [
        f"{c.contender} over {c.reference} in {c.workload} drifts by {math.expm1(c.drift):+.1%} a block "
        f"(p {c.drift_p:.3f})"
        for c in comparisons
        if c.level is None and c.drift is not None and c.drift_p is not None and c.drift_p <= DRIFT_SHOWS
    ]
    return said


def _answer_remarks(found: Sequence[Equivalence]) -> list[str]:
    """What the gate says of contenders that did not pass it."""
    others = [e for e in found if e.contender != e.reference]
    said = [
        f"{e.contender} does not give {e.reference}'s answers, so that nothing here compares the two: {e.reason}"
        for e in others
        if e.passed is False
    ]
    return said + [f"{e.contender}: the gate is undecided: {e.reason}" for e in others if e.passed is None]


def _unequal_remarks(rows: Sequence[ComparedRow], bakeoff: Bakeoff) -> list[str]:
    """What forbids verdicts, with its remedy; and what is unequal with leave."""
    reference, allowed = bakeoff.reference_name, [row for row in rows if not row.forbids]
    said = []
    for name in (c.name for c in bakeoff.contenders if c.name != reference):
        refusal = remedy(rows, name, reference)
        said += [refusal] if refusal else []
        said += [f"{name} differs from {reference} in {told}" for told in footnotes(allowed, name, reference)]
    return said


def _listed(blocks: Sequence[int]) -> str:
    return ", ".join(str(block) for block in blocks)


def decisions_json(decisions: Decisions) -> str:
    """Log ratios, positions and drifts are natural logarithms, shares are of 1."""
    return json.dumps(asdict(decisions), indent=2, allow_nan=False) + "\n"
