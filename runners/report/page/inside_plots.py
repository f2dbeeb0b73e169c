# SPDX-License-Identifier: Apache-2.0
"""Plots of what is inside: where the time went, cache hits, accepted drafts, how lives of one contender differ."""

import math
from collections.abc import Sequence
from statistics import fmean

from runners.config_workload import Level
from runners.report.breakdown import Breakdown
from runners.report.figures import percentage, significant
from runners.report.headlines import METRICS
from runners.report.markdown import Grid
from runners.report.page.figure import Figure, by_contender, chart, shaped, spec_of
from runners.report.primary import block_logs, primary_of
from runners.report.record import CellRecord, Run
from runners.report.table import Row as TableRow

LAYERS = ("front end", "engine queue", "prefill", "decode")
LAYER_COLOURS = ("#8c8c8c", "#c08a00", "#2f7fc1", "#1f9e78")
FEWEST_TO_SEE = 2
BAR_HEIGHT, AXES_HEIGHT = 26, 70


def time_breakdown(found: Sequence[Breakdown]) -> list[Figure]:
    """A bar for each contender and load, in layers that add up to the mean end-to-end time."""
    figures = []
    for workload, kind in dict.fromkeys((b.workload, b.level_kind) for b in found):
        here = [b for b in found if (b.workload, b.level_kind) == (workload, kind)]
        figures.append(_breakdown(workload, here))
    return figures


def _breakdown(workload: str, found: Sequence[Breakdown]) -> Figure:
    import altair as alt

    rows = [
        {"bar": _bar(b), "layer": layer, "order": LAYERS.index(layer), "ms": 1e3 * seconds}
        for b in found
        for layer, seconds in zip(LAYERS, _seconds(b), strict=True)
    ]
    bars = [_bar(b) for b in found]
    scale = alt.Scale(domain=list(LAYERS), range=list(LAYER_COLOURS))
    drawn = (
        chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title="ms of an average request", stack="zero"),
            y=alt.Y("bar:N", title=None, sort=bars),
            color=alt.Color("layer:N", scale=scale, legend=alt.Legend(title=None)),
            order="order:Q",
        )
    )
    numbers = tuple(
        (
            b.contender,
            str(Level(b.level_kind, b.level)),
            *(significant(x, scale=1e3) for x in (*_seconds(b), b.e2e_s)),
            b.of,
        )
        for b in found
    )
    columns = ("contender", "load", "front end ms", "queue ms", "prefill ms", "decode ms", "in all ms", "by")
    return Figure(
        id=f"breakdown-{workload}-{found[0].level_kind}",
        title=f"{workload}: where the time of a request went",
        caption="Queue, prefill and decode are the engine's own; the front end is what the client saw beyond them.",
        alt=f"{len(bars)} bars in four layers; the table behind has their lengths.",
        spec=spec_of(drawn) | {"height": BAR_HEIGHT * len(bars) + AXES_HEIGHT},
        numbers=Grid(columns, numbers, ()),
    )


def _bar(found: Breakdown) -> str:
    return f"{found.contender} at {Level(found.level_kind, found.level)}"


def _seconds(found: Breakdown) -> tuple[float, ...]:
    """In the order of LAYERS."""
    return found.front_end.mean_s, found.queue.mean_s, found.prefill.mean_s, found.decode.mean_s


def cache_hits(rows: Sequence[TableRow], contenders: Sequence[str]) -> list[Figure]:
    """Measured hit rates against those that the workload's construction implies."""
    import altair as alt

    drawn = [
        {
            "contender": row["engine"],
            "load": f"{row['workload']} at {Level(row['level_kind'], row['level'])}",
            "expected": row["cache_expected"],
            "hits": row["cache_hit_rate"],
        }
        for row in rows
        if row.get("cache_expected") is not None and row.get("cache_hit_rate") is not None
    ]
    if not drawn:
        return []
    percent = alt.Axis(format="%")
    x = alt.X("expected:Q", title="constructed", scale=alt.Scale(domain=[0, 1]), axis=percent)
    y = alt.Y("hits:Q", title="measured", scale=alt.Scale(domain=[0, 1]), axis=percent)
    points = (
        chart(drawn)
        .mark_point(size=70, filled=True)
        .encode(
            x=x,
            y=y,
            color=by_contender(contenders),
            shape=shaped(contenders),
            tooltip=["contender:N", "load:N", "expected:Q", "hits:Q"],
        )
    )
    line = chart([{"expected": 0, "hits": 0}, {"expected": 1, "hits": 1}]).mark_line(strokeDash=[4, 4], color="#888888")
    numbers = tuple((d["contender"], d["load"], percentage(d["expected"]), percentage(d["hits"])) for d in drawn)
    return [
        Figure(
            id="cache",
            title="Cache hits against the constructed rate",
            caption="On the line, the prefix cache reuses all that the workload has to reuse, in whole blocks.",
            alt=f"{len(drawn)} points; the table behind has each.",
            spec=spec_of(alt.layer(line.encode(x=x, y=y), points)),
            numbers=Grid(("contender", "load", "constructed", "measured"), numbers, ()),
        )
    ]


def acceptance(cells: Sequence[CellRecord], contenders: Sequence[str]) -> list[Figure]:
    """Share of drafts whose first, second ... token was accepted: means over blocks and loads."""
    import altair as alt

    rows = [row for w, c in dict.fromkeys((x.workload, x.contender) for x in cells) for row in _accepted(cells, w, c)]
    if not rows:
        return []
    x = alt.X("position:O", title="position in the draft", axis=alt.Axis(labelAngle=0))
    y = alt.Y("share:Q", title="accepted", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    colour = by_contender(contenders)
    dash = alt.StrokeDash("workload:N", legend=alt.Legend(title=None))
    base = chart(rows)
    layers = alt.layer(
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, detail="series:N"),
        base.mark_point(size=60, filled=True).encode(x=x, y=y, color=colour, shape=shaped(contenders)),
    )
    numbers = tuple((str(r["contender"]), str(r["workload"]), str(r["position"]), f"{r['share']:.1%}") for r in rows)
    return [
        Figure(
            id="acceptance",
            title="Accepted drafts by position",
            caption="Share of drafts whose token at that position was accepted.",
            alt="Falling curves of acceptance; the table behind has each position.",
            spec=spec_of(layers),
            numbers=Grid(("contender", "workload", "position", "accepted"), numbers, ()),
        )
    ]


def _accepted(cells: Sequence[CellRecord], workload: str, contender: str) -> list[dict[str, str | int | float]]:
    """By position, as far as every cell goes."""
    mine = [c.summary.acceptance_by_position for c in cells if (c.workload, c.contender) == (workload, contender)]
    told = [of_one for of_one in mine if of_one]
    return [
        {
            "contender": contender,
            "workload": workload,
            "series": f"{contender} in {workload}",
            "position": position + 1,
            "share": fmean(of_one[position] for of_one in told),
        }
        for position in range(min((len(of_one) for of_one in told), default=0))
    ]


def block_scatter(run: Run, contenders: Sequence[str]) -> list[Figure]:
    """The primary metric of each life against its contender's mean: what starts differ by."""
    import altair as alt

    figures = []
    for workload, kind in dict.fromkeys((c.workload, c.level_kind) for c in run.cells):
        cells = [c for c in run.cells if (c.workload, c.level_kind) == (workload, kind)]
        rows = []
        for contender in contenders:
            mine = [c for c in cells if c.contender == contender]
            logs = block_logs(mine, {c.level for c in mine})
            rows += [
                {"contender": contender, "block": block, "change": math.expm1(log - fmean(logs.values()))}
                for block, log in logs.items()
            ]
        if len({row["block"] for row in rows}) < FEWEST_TO_SEE:
            continue
        x = alt.X("block:O", title="block", axis=alt.Axis(labelAngle=0))
        y = alt.Y("change:Q", title="against its own mean", axis=alt.Axis(format="+.1%"))
        colour = by_contender(contenders)
        base = chart(rows)
        layers = alt.layer(
            base.mark_rule(strokeDash=[4, 4], color="#888888").encode(y=alt.datum(0)),
            base.mark_line(opacity=0.5).encode(x=x, y=y, color=colour),
            base.mark_point(size=70, filled=True).encode(
                x=x, y=y, color=colour, shape=shaped(contenders), tooltip=["contender:N", "block:O", "change:Q"]
            ),
        )
        metric = METRICS[primary_of(cells[0]).name]
        numbers = tuple((str(r["contender"]), str(r["block"]), f"{r['change']:+.1%}") for r in rows)
        figures.append(
            Figure(
                id=f"blocks-{workload}-{kind}",
                title=f"{workload}: from start to start",
                caption=f"Each point is one server life: {metric}, mean over loads, against the contender's own mean.",
                alt="Points scattered about their contenders' means; the table behind has each.",
                spec=spec_of(layers),
                numbers=Grid(("contender", "block", "against its mean"), numbers, ()),
            )
        )
    return figures
