# SPDX-License-Identifier: Apache-2.0
"""The decision report: its numbers are the records', nothing in it comes from elsewhere or can be run."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pytest
import yaml

from runners.bundle import write_bundle
from runners.config import Bakeoff, ConfigError
from runners.report.decisions import decide_run
from runners.report.headlines import headlines
from runners.report.opened import read_results
from runners.report.page.render import VEGA_LITE
from runners.report.published import published_rows
from runners.report.record import CellRecord
from runners.report_command import make_report
from tests.results_folder import make_folder
from tests.test_verdicts import STEADY, run, scaled

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """Tables of a page by id: headings, and rows of (text, data-value)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, str | None]]]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._table: list[list[tuple[str, str | None]]] | None = None
        self._cell: list[str] | None = None
        self._value: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag == "table":
            self._table = self.tables.setdefault(str(found["id"]), [])
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th"):
            self._cell, self._value = [], found.get("data-value")

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._table is not None and self._cell is not None:
            self._table[-1].append(("".join(self._cell), self._value))
            self._cell = None

    def column(self, table: str, title: str) -> list[tuple[str, str | None]]:
        head, *rows = self.tables[table]
        number = [text for text, _ in head].index(title)
        return [row[number] for row in rows]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "a run")


def made(folder: Path, out: Path | None = None) -> str:
    make_report(folder, out, "The lab", ())
    return (out or folder / "report.html").read_text()


def test_the_numbers_are_those_of_the_records(folder: Path) -> None:
    """Read back at full length: `b` is at level 1 at 150, 158, 146 and 153 tokens a second."""
    page = Page(made(folder))
    rows = [row for row in published_rows(read_results(folder)) if row["level"] is not None]
    for table, title, name, scale in (
        ("table-speed", "tok/s per GPU", "output_tokens_per_s_per_gpu", 1),
        ("table-speed", "TTFT p50 ms", "ttft_visible_p50_s", 1e3),
        ("table-speed", "requests", "requests_due", 1),
        ("table-verdicts", "ratio", "ratio", 1),
        ("table-cache", "cache hits", "cache_hit_rate", 1),
    ):
        found = [value for _, value in page.column(table, title)][: len(rows)]
        wanted = [None if row[name] is None else row[name] * scale for row in rows]
        assert [None if value is None else float(value) for value in found] == wanted
    b = page.column("table-speed", "tok/s per GPU")[1]
    assert float(b[1] or 0) == pytest.approx((150 * 158 * 146 * 153) ** 0.25)
    assert b[0].startswith("152 [")


def test_plots_have_the_records_figures_in_them(folder: Path) -> None:
    text = made(folder)
    specs = dict(re.findall(r'<script type="application/json" id="spec-([^"]+)">(.*?)</script>', text, re.S))
    wanted = ("pareto-w-concurrency", "ttft-w-concurrency", "tpot-w-concurrency", "blocks-w-concurrency")
    inside = ("breakdown-w-concurrency", "cache", "acceptance")
    assert {*wanted, *inside, "distribution-w-c1", "distribution-w-c2"} == specs.keys()
    bars = values_of(json.loads(specs["breakdown-w-concurrency"]))
    assert [bar["ms"] for bar in bars[:4]] == pytest.approx([200.0, 100.0, 200.0, 1500.0])
    pareto = json.loads(specs["pareto-w-concurrency"])
    values = values_of(pareto)
    assert [v["rate"] for v in values if (v["contender"], v["level"]) == ("a", 2)] == [
        pytest.approx(2 * (100 * 104 * 98 * 102) ** 0.25)
    ]
    first = values_of(json.loads(specs["distribution-w-c1"]))
    assert {v["ms"] for v in first} == {500.0}
    assert max(v["share"] for v in first) == 1.0


def values_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a plot."""
    found: list[dict[str, Any]] = next(iter(spec["datasets"].values()))
    return found


def test_sections_come_in_the_order_in_which_they_are_asked_for(folder: Path) -> None:
    page = Page(made(folder))
    order = (
        *("verdicts", "matrix-section", "plots", "figures", "decisions", "ledger-section"),
        *("gate-section", "failures", "client-section", "environment", "commands", "definitions", "raw"),
    )
    assert [tag.get("id") for kind, tag in page.elements if kind == "section"] == list(order)
    assert len(set(page.ids)) == len(page.ids)


def test_nothing_comes_from_elsewhere(folder: Path) -> None:
    text = made(folder)
    page = Page(text)
    assert len(text.encode()) < 5e6
    for tag, found in page.elements:
        assert not found.get("src")
        assert tag not in ("link", "iframe", "object", "embed", "form", "base")
    policy = next(f["content"] for t, f in page.elements if t == "meta" and f.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "connect-src" not in policy


def test_links_lead_to_what_is_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for out in (folder / "report.html", tmp_path / "elsewhere" / "r.html"):
        page = Page(made(folder, out))
        inside = [link[1:] for link in page.links if link.startswith("#")]
        assert set(inside) <= set(page.ids)
        files = [link for link in page.links if not link.startswith("#")]
        assert len(files) == 2 + 8 * (3 + 4)
        for link in files:
            assert (out.parent / link.replace("%20", " ")).is_file()


def spoil(folder: Path) -> None:
    """HTML in whatever a stranger may have written: an engine's log lines, notes, ledger, prompts, files, machine."""
    for path in folder.glob("lives/*/*.json"):
        value = json.loads(path.read_text())
        if path.name == "life.json":
            value["ledger"] = [{"name": SCRIPT, "value": SCRIPT, "source": SCRIPT, "kind": "must match"}]
        elif path.name == "launch.json":
            value["files"] = {SCRIPT: SCRIPT}
            value["serve"]["argv"].append(SCRIPT)
        else:
            value["summary"]["flags"] = [{"code": SCRIPT, "detail": SCRIPT, "no_verdict": True}]
            value["engine_version"] = value["front_end"] = SCRIPT
        path.write_text(json.dumps(value))
    environment = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps({**environment, "cpu": SCRIPT}))
    unsupported = folder / "unsupported" / "lame.json"
    unsupported.write_text(json.dumps({**json.loads(unsupported.read_text()), "reason": SCRIPT}))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "checkpoint": SCRIPT}))


def test_html_of_strangers_is_text(folder: Path) -> None:
    spoil(folder)
    text = made(folder)
    assert SCRIPT not in text
    assert text.count(html.escape(SCRIPT)) > 10
    scripts = [found for tag, found in Page(text).elements if tag == "script"]
    assert len([s for s in scripts if s.get("type") is None]) == 2
    assert not [tag for tag, found in Page(text).elements if tag == "img" or "onerror" in found]


def test_names_that_are_html_are_refused(folder: Path) -> None:
    """Contenders' and workloads' names become file names and have none of it."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["contenders"][0]["name"] = SCRIPT
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match=r"contenders\.0\.name"):
        made(folder)


def test_a_bundle_makes_the_same_report(folder: Path, tmp_path: Path) -> None:
    write_bundle(folder, tmp_path / "b.zip", None)
    mine, theirs = Page(made(folder)), Page(made(tmp_path / "b.zip", tmp_path / "r.html"))
    assert mine.tables == theirs.tables
    assert not [link for link in theirs.links if not link.startswith("#")]


def test_records_without_machine_check_or_traces_still_make_a_report(folder: Path) -> None:
    for path in (*folder.glob("*.json"), *folder.glob("lives/*/*.parquet"), *folder.glob("lives/*/launch.json")):
        path.unlink()
    text = made(folder)
    assert "The machine was not recorded." in text
    assert "The commands are not among the records." in text
    assert "distribution-w-c1" not in text


def told(rates: Any, **changes: Any) -> dict[str, str]:
    whole = run(rates, **changes)
    (headline,) = headlines(decide_run(whole), Bakeoff.model_validate(whole.config))
    return {"sentence": headline.sentence, "state": headline.state, **dict(headline.facts)}


def test_the_headline_of_a_difference() -> None:
    """Half width t(3) x 0.01 / sqrt(3) of log 0.15 +- 0.0184."""
    b = {1: scaled(0.16, 0.14, 0.14, 0.16), 2: scaled(0.16, 0.14, 0.14, 0.16, of=200.0)}
    found = told({"a": STEADY, "b": b}, price_per_gpu_hour=3.6)
    assert found["sentence"] == "b is faster than a by 16.2% in w, by output tokens per second."
    interval = "Ratio 1.162, above 1 is better; 95.0% interval 1.141 to 1.183 over 4 blocks, p Holm 0.000"
    assert found["Interval"].startswith(interval)
    assert found["By load"] == "1: faster by 16.2%; 2: faster by 16.2%"
    assert "a margin of 18.3% or more, at which this counts as equal" in found["What would change it"]
    assert found["Crossover"] == "none between 1 and 2, in requests in flight"


def test_the_headline_of_an_equality_and_of_none() -> None:
    """Mean 0.015, half width t(3) x 0.00577 / 2 = 0.0092: up to log 0.0242."""
    near = (0.01, 0.02, 0.02, 0.01)
    found = told({"a": STEADY, "b": {1: scaled(*near), 2: scaled(*near, of=200.0)}})
    assert found["sentence"] == "b and a are equal within 5% in w, by output tokens per second."
    assert "a margin below 2.4%" in found["What would change it"]
    wide = told({"a": STEADY, "b": {1: scaled(0.3, -0.2, 0.1, 0.0), 2: scaled(0.3, -0.2, 0.1, 0.0, of=200.0)}})
    assert wide["sentence"] == "Whether b or a is faster in w, by output tokens per second is undecided."
    assert wide["What would change it"].startswith("further blocks (")


def test_the_runtime_is_of_the_release_that_specs_are_checked_against() -> None:
    assert alt.SCHEMA_VERSION.startswith(f"v{VEGA_LITE}.")


def test_a_cell_of_a_record_can_be_found_by_hand(folder: Path) -> None:
    """The matrix's figure is the geometric mean of four records."""
    cells = [CellRecord.model_validate_json(path.read_text()) for path in folder.glob("lives/*-b/w-c2.json")]
    product = 1.0
    for cell in cells:
        product *= cell.summary.output_tokens_per_s or 0.0
    found = Page(made(folder)).column("matrix", "b")[1]
    assert float(found[1] or 0) == pytest.approx(product ** (1 / len(cells)))
    assert found[0].startswith("303 · ")
