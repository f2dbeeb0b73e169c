# SPDX-License-Identifier: Apache-2.0
"""Plots of speed: throughput against a user's speed, latency against load, how TTFT is distributed."""

from collections.abc import Sequence
from typing import Any

from runners.config_workload import Level, LevelKind
from runners.report.compare import Estimate
from runners.report.curves import Point
from runners.report.figures import interval, significant
from runners.report.markdown import Grid
from runners.report.page.distributions import Distribution
from runners.report.page.figure import Figure, Row, by_contender, chart, load_axis, shaped, spec_of
from runners.report.table import Row as TableRow

MILLISECONDS = 1e3
METRICS = (("ttft", "ttft_visible", "time to first token"), ("tpot", "tpot", "time per output token"))
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def pareto(points: Sequence[Point], contenders: Sequence[str]) -> list[Figure]:
    """One for each workload and kind of level with two points or more."""
    found = []
    for workload, kind in dict.fromkeys((p.workload, p.level_kind) for p in points):
        here = [p for p in points if (p.workload, p.level_kind) == (workload, kind)]
        rows = [_point(p) for p in here if p.output_tokens_per_s_per_gpu and p.user_tokens_per_s]
        if len(rows) > 1:
            found.append(_pareto(workload, kind, rows, contenders))
    return found


def _point(p: Point) -> dict[str, Any]:
    front = p.by_user_speed
    return {
        "contender": p.contender,
        "level": p.level,
        "load": str(Level(p.level_kind, p.level)),
        **_bounds("rate", p.output_tokens_per_s_per_gpu),
        **_bounds("user", p.user_tokens_per_s),
        "front": "on its front" if front and front.on else "beaten by another load",
        "share": "-" if front is None else f"{front.in_blocks} of {front.blocks} blocks",
    }


def _bounds(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    return {
        name: estimate.value if estimate else None,
        f"{name}_low": estimate.low if estimate else None,
        f"{name}_high": estimate.high if estimate else None,
    }


def _pareto(workload: str, kind: LevelKind, rows: Sequence[Row], contenders: Sequence[str]) -> Figure:
    import altair as alt

    x = alt.X("user:Q", title="output tokens/s of one user", scale=alt.Scale(zero=True))
    y = alt.Y("rate:Q", title="output tokens/s per GPU", scale=alt.Scale(zero=True))
    colour = by_contender(contenders)
    base = chart(rows)
    rule = base.mark_rule(opacity=0.45, strokeWidth=1.5)
    bars = [
        rule.encode(x="user_low:Q", x2="user_high:Q", y=y, color=colour),
        rule.encode(y="rate_low:Q", y2="rate_high:Q", x=x, color=colour),
    ]
    layers = alt.layer(
        *(bars if any(row["rate_low"] is not None and row["user_low"] is not None for row in rows) else ()),
        base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour, order="level:Q"),
        base.mark_point(size=70, filled=True).encode(
            x=x,
            y=y,
            color=colour,
            shape=shaped(contenders),
            opacity=alt.condition("datum.front == 'on its front'", alt.value(1.0), alt.value(0.35)),
            tooltip=["contender:N", "load:N", "rate:Q", "user:Q", "front:N", "share:N"],
        ),
        base.mark_text(align="left", dx=8, dy=-8, fontSize=11).encode(x=x, y=y, text="load:N", color=colour),
    )
    numbers = tuple(_in_numbers(row) for row in rows)
    return Figure(
        id=f"pareto-{workload}-{kind}",
        title=f"{workload}: throughput against the speed that a user sees",
        caption="Up and to the right is better. Labels are loads, bars 95% intervals over blocks; pale points are "
        "beaten by another load of the same contender, so that nobody would run it there.",
        alt=f"Curves of {len(contenders)} contenders over {len(rows)} loads in all; the table behind has each point.",
        spec=spec_of(layers),
        numbers=Grid(
            (
                "contender",
                "load",
                "output tokens/s per GPU [95%]",
                "output tokens/s of a user [95%]",
                "front",
                "on it in",
            ),
            numbers,
            (),
        ),
    )


def _in_numbers(row: Row) -> tuple[str, ...]:
    figures = (interval(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in ("rate", "user"))
    return (row["contender"], row["load"], *figures, row["front"], row["share"])


def latency(rows: Sequence[TableRow], contenders: Sequence[str]) -> list[Figure]:
    """TTFT and TPOT against load, for each workload and kind of level."""
    found = []
    measured = [row for row in rows if row.get("level") is not None]
    for workload, kind in dict.fromkeys((row["workload"], row["level_kind"]) for row in measured):
        here = [row for row in measured if (row["workload"], row["level_kind"]) == (workload, kind)]
        for name, metric, title in (
            ("ttft", "ttft_visible", "time to first token"),
            ("tpot", "tpot", "time per output token"),
        ):
            drawn = [r for p in ("p50", "p95", "p99") for row in here if (r := _latency(row, metric, p)) is not None]
            if drawn:
                found.append(
                    _latency_figure(
                        f"{name}-{workload}-{kind}", f"{workload}: {title} against load", kind, drawn, contenders
                    )
                )
    return found


def _latency(row: TableRow, metric: str, percentile: str) -> dict[str, Any] | None:
    value = row[f"{metric}_{percentile}_s"]
    if value is None:
        return None
    low, high = row[f"{metric}_{percentile}_low_s"], row[f"{metric}_{percentile}_high_s"]
    return {
        "contender": row["engine"],
        "level": row["level"],
        "load": str(Level(row["level_kind"], row["level"])),
        "percentile": percentile,
        "series": f"{row['engine']} {percentile}",
        "ms": value * MILLISECONDS,
        "low": None if low is None else low * MILLISECONDS,
        "high": None if high is None else high * MILLISECONDS,
    }


def _latency_figure(name: str, title: str, kind: LevelKind, rows: Sequence[Row], contenders: Sequence[str]) -> Figure:
    import altair as alt

    x = load_axis(kind, [row["level"] for row in rows])
    y = alt.Y("ms:Q", title="ms", scale=alt.Scale(zero=True))
    colour = by_contender(contenders)
    dash = alt.StrokeDash(
        "percentile:N",
        scale=alt.Scale(domain=["p50", "p95", "p99"], range=[[1, 0], [6, 3], [2, 3]]),
        legend=alt.Legend(title=None),
    )
    base = chart(rows)
    band = base.mark_area(opacity=0.15).encode(x=x, y="low:Q", y2="high:Q", color=colour, detail="series:N")
    layers = alt.layer(
        *([band] if any(row["low"] is not None for row in rows) else ()),
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, detail="series:N"),
        base.mark_point(size=55, filled=True).encode(
            x=x, y=y, color=colour, shape=shaped(contenders), tooltip=["contender:N", "load:N", "percentile:N", "ms:Q"]
        ),
    )
    numbers = tuple((r["contender"], r["load"], r["percentile"], interval(r["ms"], r["low"], r["high"])) for r in rows)
    return Figure(
        id=name,
        title=title,
        caption="Lower is better. Bands are 95% intervals over blocks. Percentiles of too few requests are not drawn.",
        alt=f"Curves of {len(contenders)} contenders by percentile; the table behind has each point.",
        spec=spec_of(layers),
        numbers=Grid(("contender", "load", "percentile", "ms [95%]"), numbers, ()),
    )


def distribution_figures(found: Sequence[Distribution], contenders: Sequence[str]) -> list[Figure]:
    """How TTFT is distributed, one for each workload and load, loads ascending."""
    places = dict.fromkeys((d.workload, d.level_kind, d.level) for d in found)
    workloads = [workload for workload, *_ in places]
    ordered = sorted(places, key=lambda place: (workloads.index(place[0]), place[1], place[2]))
    of_place = ([d for d in found if (d.workload, d.level_kind, d.level) == place] for place in ordered)
    return [_distribution(of_one, contenders) for of_one in of_place]


def _distribution(found: Sequence[Distribution], contenders: Sequence[str]) -> Figure:
    import altair as alt

    rows = [
        {"contender": d.contender, "ms": value * MILLISECONDS, "share": share}
        for d in found
        for share, value in zip(d.shares, d.ttft_s, strict=True)
    ]
    first = found[0]
    load = str(Level(first.level_kind, first.level))
    x = alt.X("ms:Q", title="time to first token, ms", scale=alt.Scale(type="log", nice=False, padding=8))
    y = alt.Y("share:Q", title="share of requests", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    line = chart(rows).mark_line(interpolate="step-after", strokeWidth=2)
    numbers = tuple(
        (
            d.contender,
            str(d.requests),
            str(d.failed),
            *(significant(d.at(q), scale=MILLISECONDS) for q in SHARES),
        )
        for d in found
    )
    return Figure(
        id=f"distribution-{first.workload}-{Level(first.level_kind, first.level).name}",
        title=f"{first.workload} at {load}: how the time to first token is distributed",
        caption="Further left is better; a curve that does not reach 100% has failed requests. All requests of all "
        "blocks, ramp and drain included.",
        alt="Cumulative shares of requests by their time to first token; the table behind has quantiles.",
        spec=spec_of(line.encode(x=x, y=y, color=by_contender(contenders))),
        numbers=Grid(("contender", "requests", "failed", *(f"{q:.0%} ms" for q in SHARES)), numbers, ()),
    )
