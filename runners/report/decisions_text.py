# SPDX-License-Identifier: Apache-2.0
"""The decisions of a run in Markdown: verdicts first, what must be known last. A dash is unknown, never 0."""

import math
from collections.abc import Sequence
from itertools import groupby

from runners.config_workload import Level, LevelKind
from runners.report import markdown
from runners.report.attribution import Part
from runners.report.breakdown import breakdown_lines
from runners.report.capacities import CapacityEstimate
from runners.report.compare import Estimate, Further
from runners.report.costs import Cost
from runners.report.curves import Front, Point
from runners.report.decisions import Decisions
from runners.report.equivalence_text import equivalence_lines
from runners.report.figures import number
from runners.report.limits import Requirement, overall
from runners.report.scatter import Scatter
from runners.report.verdicts import Comparison, Crossing

MILLISECONDS = 1e3


def decisions_markdown(decisions: Decisions) -> str:
    """Only sections that the run has something for."""
    lines = ["\n".join([f"## {title}", "", *of_one]) for title, of_one in sections(decisions).items()]
    return "\n\n".join(lines) + "\n"


def sections(decisions: Decisions) -> dict[str, list[str]]:
    """Lines of Markdown by title, in the order in which they are read."""
    found = {
        "Verdicts": _verdicts(decisions),
        "Equivalence": equivalence_lines(decisions.equivalence),
        "Requirements": _requirements(decisions.requirements),
        "Capacity under the limits": _capacities(decisions.capacities),
        "Attribution": _attribution(decisions.attribution),
        "Where the time went": breakdown_lines(decisions.breakdown),
        "Curves": _curves(decisions.curves),
        "Cost": _costs(decisions.costs),
        "Lives": _lives(decisions.scatter),
        "To know": [f"- {remark}" for remark in decisions.remarks],
    }
    return {title: lines for title, lines in found.items() if lines}


def _table(columns: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """`columns` are separated by bars. No rows, no table."""
    return markdown.table(columns.split(" | "), rows) if rows else []


def comparisons_table(comparisons: Sequence[Comparison]) -> list[str]:
    """Lines of the table of verdicts; none without comparisons."""
    columns = (
        "contender | workload | level | blocks | ratio | interval | p Holm | verdict | further blocks | "
        "one place later | drift a block"
    )
    return _table(columns, [_comparison(c) for c in comparisons])


def _verdicts(decisions: Decisions) -> list[str]:
    lines = comparisons_table(decisions.comparisons)
    if not lines:
        return []
    lines += ["", _legend(decisions)]
    return lines + ([""] if decisions.crossovers else []) + [_crossing(c) for c in decisions.crossovers]


def _legend(decisions: Decisions) -> str:
    first = decisions.comparisons[0]
    metrics = ", ".join(dict.fromkeys(f"`{c.metric}`" for c in decisions.comparisons))
    text = (
        f"Ratios of {metrics} to {first.reference}, above 1 is better; {first.confidence:.1%} intervals; margin "
        f"{decisions.margin:.0%}. `all` is the mean log ratio over levels, the comparison declared ahead."
    )
    if decisions.looks:
        looks = ", ".join(str(look) for look in decisions.looks)
        text += f" Looks after {looks} blocks, each at its share of the error."
    return text


def _comparison(c: Comparison) -> list[str]:
    return [
        c.contender,
        c.workload,
        _all_or(c.level, c.level_kind),
        str(c.ratio.n if c.ratio else 0),
        number(c.ratio.value if c.ratio else None, 3),
        _bounds(c.ratio, 3),
        number(c.p_holm, 3),
        c.verdict,
        further_text(c.further) if c.verdict == "undecided" else "-",
        _slope(c.position, c.position_p) + (" in the model" if c.with_position else ""),
        _slope(c.drift, c.drift_p),
    ]


def further_text(further: Further | None) -> str:
    if further is None:
        return "hundreds"
    if further.most is None:
        return f"{further.least} or many more"
    return f"{further.least} to {further.most}" if further.least < further.most else str(further.most)


def _crossing(c: Crossing) -> str:
    unit = "requests/s" if c.level_kind == "rate" else "in flight"
    return f"Crossover of {c.contender} with {c.reference} in {c.workload}, {unit}: {c.crossover.text()}"


def _requirements(found: Sequence[Requirement]) -> list[str]:
    rows = []
    for (workload, level, contender), group in groupby(found, key=lambda r: (r.workload, r.level, r.contender)):
        of_one = list(group)
        rows += [_requirement(r) for r in of_one]
        if len(of_one) > 1:
            rows.append([contender, workload, level, "all of them", "-", "-", overall(of_one), "-"])
    return _table("contender | workload | level | limit | value | interval | outcome | where the time goes", rows)


def _requirement(r: Requirement) -> list[str]:
    value = "-" if r.value is None else f"{r.value:.3g}"
    bounds = r.reason or (f"[{r.low:.3g}, {r.high:.3g}]" if r.low is not None and r.high is not None else "-")
    return [r.contender, r.workload, r.level, r.limit, value, bounds, r.outcome, r.delay or "-"]


def _capacities(found: Sequence[CapacityEstimate]) -> list[str]:
    rows = [[c.contender, c.workload, str(c.blocks), c.text(), _estimate(c.output_tokens_per_s, 0)] for c in found]
    return _table("contender | workload | blocks | capacity [95%] | tok/s there [95%]", rows)


def _attribution(parts: Sequence[Part]) -> list[str]:
    rows = [
        [
            p.name,
            p.of,
            p.workload,
            _all_or(p.level, p.level_kind),
            str(p.ratio.n),
            _estimate(p.ratio, 3),
        ]
        for p in parts
    ]
    return _table("part | of | workload | level | blocks | ratio [95%]", rows)


def _curves(found: Sequence[Point]) -> list[str]:
    rows = [
        [
            p.contender,
            p.workload,
            str(Level(p.level_kind, p.level)),
            _estimate(p.output_tokens_per_s_per_gpu, 0),
            _estimate(p.user_tokens_per_s, 1),
            _estimate(p.ttft_visible_p50_s, 1, MILLISECONDS),
            _front(p.by_user_speed),
            _front(p.by_ttft),
        ]
        for p in found
    ]
    columns = (
        "contender | workload | level | tok/s per GPU [95%] | tok/s of a user [95%] | TTFT p50 ms [95%] | "
        "on the front by user speed | on the front by TTFT"
    )
    return _table(columns, rows) if len(rows) > 1 else []


def _front(front: Front | None) -> str:
    return "-" if front is None else f"{'yes' if front.on else 'no'} ({front.in_blocks} of {front.blocks} blocks)"


def _costs(found: Sequence[Cost]) -> list[str]:
    """Nothing where nothing has a price, an energy or a build."""
    if not any(c.per_million_output or c.joules_per_output_token or c.build_s for c in found):
        return []
    rows = [
        [
            c.contender,
            c.workload,
            "capacity" if c.level is None else str(Level(c.level_kind, c.level)),
            _estimate(c.per_million_output, 3),
            _estimate(c.per_million_input, 3),
            _estimate(c.joules_per_output_token, 3),
            number(c.start_up_s, 1),
            number(c.build_s, 1),
            number(c.caught_up_s, 0),
        ]
        for c in found
    ]
    columns = (
        "contender | workload | level | per 1M output tokens [95%] | per 1M input tokens [95%] | "
        "J per output token [95%] | start s | build s | caught up after s"
    )
    return [
        *_table(columns, rows),
        "",
        "Either kind of token is charged the whole cost. `caught up`: when a contender that had to be built first has "
        "made as many tokens as the reference.",
    ]


def _lives(found: Sequence[Scatter]) -> list[str]:
    rows = [[s.contender, s.workload, str(len(s.blocks)), _spread(s.spread), _slope(s.drift, s.drift_p)] for s in found]
    return _table("contender | workload | lives | spread from start to start | drift a block", rows)


def _spread(log: float | None) -> str:
    return "-" if log is None else f"{math.expm1(log):.1%}"


def _slope(log: float | None, p: float | None) -> str:
    return "-" if log is None or p is None else f"{math.expm1(log):+.1%} (p {p:.2f})"


def _all_or(level: float | None, kind: LevelKind) -> str:
    return "all" if level is None else str(Level(kind, level))


def _bounds(estimate: Estimate | None, digits: int, scale: float = 1.0) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"[{estimate.low * scale:.{digits}f}, {estimate.high * scale:.{digits}f}]"


def _estimate(estimate: Estimate | None, digits: int, scale: float = 1.0) -> str:
    if estimate is None:
        return "-"
    bounds = _bounds(estimate, digits, scale)
    return f"{estimate.value * scale:.{digits}f}" + ("" if bounds == "-" else f" {bounds}")
