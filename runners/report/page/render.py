# SPDX-License-Identifier: Apache-2.0
"""Puts the report together: everything in one file, nothing from elsewhere, no script but its own."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from runners.config import Bakeoff
from runners.places import cache_folder
from runners.report import markdown
from runners.report.blocks import without_excluded
from runners.report.decisions import Decisions, decide_run
from runners.report.decisions_text import sections
from runners.report.headlines import headlines
from runners.report.layout import SUPERSEDED
from runners.report.ledger import ledger_of
from runners.report.opened import Results
from runners.report.page import inside_plots, speed_plots, tables
from runners.report.page.distributions import distributions
from runners.report.page.figure import Figure
from runners.report.page.tables import Table
from runners.report.published import published_rows
from runners.report.published_notes import notes
from runners.report.published_text import CONTENDERS, COST, SPEED, VERDICTS
from runners.report.table import Row

if TYPE_CHECKING:
    from markupsafe import Markup

HERE: Final = Path(__file__).parent
GATE: Final = "Equivalence"
VEGA_LITE: Final = "6.4"
"""The release whose schema altair checks specs against."""


@dataclass(frozen=True)
class RawLink:
    """A file of the results folder; `href` is None where the report does not lie beside it."""

    cell: str
    name: str
    href: str | None


def render(results: Results, folder: Path, beside: str | None, by: str | None) -> str:
    """The whole page. `folder` has the traces; `beside` is the way from the report to the results folder, None where
    there is none."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    run = results.run
    bakeoff = Bakeoff.model_validate(run.config)
    kept, decisions, rows = without_excluded(run), decide_run(run), published_rows(results)
    names = [c.name for c in bakeoff.contenders if any(cell.contender == c.name for cell in run.cells)]
    script, runtime = (HERE / "report.js").read_text("utf-8"), vega_runtime()
    page = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return page.get_template("report.html.j2").render(
        run=run,
        bakeoff=bakeoff,
        decisions=decisions,
        days=results.days,
        hosts=results.hosts,
        checks=results.checks,
        headlines=headlines(decisions, bakeoff),
        matrix=tables.matrix(rows, names),
        parts=[tables.from_part(part, rows) for part in (VERDICTS, SPEED, COST, CONTENDERS)],
        decided=_decided(decisions),
        figures=_figures(results, folder, decisions, rows, names),
        ledger=tables.ledger_table(ledger_of(kept), names),
        gate=tables.from_grid("gate", GATE, markdown.grid(sections(decisions).get(GATE, ()))),
        superseded=sorted(path.name for path in folder.glob(f"lives/*{SUPERSEDED}*")),
        flags=tables.flags_table(run.cells),
        client=tables.client_table(run.cells),
        commands=tables.commands_of(run, results.launches),
        notes=notes(results, by),
        raw=_raw(results, beside),
        style=(HERE / "report.css").read_text("utf-8"),
        script=script,
        runtime=runtime,
        hashes=[_hash(runtime), _hash(script)],
        as_json=_as_json,
        table_of=tables.from_grid,
    )


def _decided(decisions: Decisions) -> list[Table]:
    """What `bakeoff verdicts` tells, section by section, but for what has a place of its own."""
    found = {title: markdown.grid(lines) for title, lines in sections(decisions).items()}
    return [
        tables.from_grid(f"decided-{number}", title, grid)
        for number, (title, grid) in enumerate(found.items())
        if title not in ("Curves", "To know", GATE)
    ]


def _figures(
    results: Results, folder: Path, decisions: Decisions, rows: Sequence[Row], names: Sequence[str]
) -> list[Figure]:
    """In the order in which they are asked for."""
    kept = without_excluded(results.run)
    return [
        *speed_plots.pareto(decisions.curves, names),
        *speed_plots.latency(rows, names),
        *speed_plots.distribution_figures(distributions(kept, folder), names),
        *inside_plots.time_breakdown(decisions.breakdown),
        *inside_plots.cache_hits(rows, names),
        *inside_plots.acceptance(kept.cells, names),
        *inside_plots.block_scatter(kept, names),
    ]


def _raw(results: Results, beside: str | None) -> list[RawLink]:
    """Records, traces and logs of each life."""
    run = results.run
    found = [RawLink("the run", name, _href(beside, name)) for name in ("config.yaml", "environment.json")]
    for life in run.lives:
        folder = f"lives/{life.name}"
        for name in ("life.json", "launch.json", "engine/server.log"):
            found.append(RawLink(f"block {life.block}, {life.contender}", name, _href(beside, f"{folder}/{name}")))
        for cell in (c for c in run.cells if (c.block, c.contender) == (life.block, life.contender)):
            for end in ("json", "parquet"):
                name = f"{cell.name}.{end}"
                found.append(RawLink(f"block {life.block}, {life.contender}", name, _href(beside, f"{folder}/{name}")))
    return found


def _href(beside: str | None, name: str) -> str | None:
    return None if beside is None else quote(f"{beside}/{name}")


def _as_json(value: Any) -> "Markup":
    """JSON that ends no script element and opens none."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def vega_runtime() -> str:
    """Vega, vega-lite and vega-embed as one script, put together once and kept."""
    import vl_convert

    kept = cache_folder() / "vega" / f"{version('vl-convert-python')}-{VEGA_LITE}.js"
    if not kept.is_file():
        text = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]
        text = text.replace("</script", "<\\/script")
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(kept)
    return kept.read_text("utf-8")
