# SPDX-License-Identifier: Apache-2.0
"""What plots share: a figure with its numbers behind it, colours that are told apart by everybody, axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from runners.config_workload import LevelKind
from runners.report.markdown import Grid

if TYPE_CHECKING:
    import altair as alt

COLOURS: Final = ("#2f7fc1", "#d9622b", "#1f9e78", "#b565a7", "#c08a00", "#4aa8d8", "#8a6d3b", "#7a7f87")
"""After Okabe and Ito, of a lightness that stands out from white and from black. Shapes differ with them."""
SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "stroke")
HEIGHT: Final = 280
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """`spec` is vega-lite's, `alt` says in words what is to be seen, `numbers` is the table behind the plot."""

    id: str
    title: str
    caption: str
    alt: str
    spec: dict[str, Any]
    numbers: Grid


def chart(rows: Sequence[Row]) -> "alt.Chart":
    """A chart as wide as the page lets it be, with its rows in it."""
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(rows)))


def spec_of(layered: Any) -> dict[str, Any]:
    """As JSON, checked against vega-lite's schema. Colours and fonts come with the page, which may be dark."""
    found: dict[str, Any] = layered.properties(width="container", height=HEIGHT).to_dict()
    found.pop("config", None)
    return found


def by_contender(contenders: Sequence[str]) -> "alt.Color":
    """The same colour for a contender in every plot."""
    import altair as alt

    colours = [COLOURS[i % len(COLOURS)] for i in range(len(contenders))]
    return alt.Color(
        "contender:N", scale=alt.Scale(domain=list(contenders), range=colours), legend=alt.Legend(title=None)
    )


def shaped(contenders: Sequence[str]) -> "alt.Shape":
    import altair as alt

    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(contenders))]
    return alt.Shape(
        "contender:N", scale=alt.Scale(domain=list(contenders), range=shapes), legend=alt.Legend(title=None)
    )


def load_axis(kind: LevelKind, levels: Sequence[float]) -> "alt.X":
    """Levels on a logarithmic scale, with a tick at each."""
    import altair as alt

    title = "requests in flight" if kind == "concurrency" else "requests per second"
    axis = alt.Axis(title=title, values=sorted(set(levels)), grid=False)
    return alt.X("level:Q", scale=alt.Scale(type="log", base=2, nice=False, padding=12), axis=axis)
