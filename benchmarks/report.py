# SPDX-License-Identifier: Apache-2.0
"""How long a report of 200 cells takes, and a bundle of a million token events: python -m benchmarks.report FOLDER.

Contenders, levels and blocks are multiplied from the first cell of each contender in FOLDER, a results folder of ours;
figures are changed a little from block to block, and each cell has traces of 5,000 events.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from runners.bundle import write_bundle
from runners.load.trace import Timeline, Trace
from runners.report.opened import read_results
from runners.report.record import Run
from runners.report.trace_table import write_traces
from runners.report.written import write_model
from runners.report_command import make_report

LEVELS = tuple(range(1, 21))
BLOCKS = 5
REQUESTS = 50
TOKENS = 100


def multiplied(source: Path, folder: Path) -> tuple[int, int]:
    """A folder of many cells; how many, and their token events."""
    run = Run.load(source)
    config = dict(run.config) | {"blocks": BLOCKS}
    config["workloads"] = [{**config["workloads"][0], "concurrency": list(LEVELS), "limits": [], "capacity": None}]
    config["contenders"] = config["contenders"][:2]
    config["reference"] = config["contenders"][0]["name"]
    config["square"] = None
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "environment.json").write_bytes((source / "environment.json").read_bytes())
    traces = [_trace(index) for index in range(REQUESTS)]
    cells = 0
    for contender in (c["name"] for c in config["contenders"]):
        life = next(x for x in run.lives if x.contender == contender)
        cell = next(x for x in run.cells if x.contender == contender)
        for block in range(1, BLOCKS + 1):
            here = folder / "lives" / f"b{block:02d}-{contender}"
            names = tuple(f"{cell.workload}-c{level}" for level in LEVELS)
            for level, name in zip(LEVELS, names, strict=True):
                rate = (cell.summary.output_tokens_per_s or 1.0) * level * (1 + 0.01 * block)
                summary = cell.summary.model_copy(update={"output_tokens_per_s": rate})
                changed = {"block": block, "level": level, "level_kind": "concurrency", "summary": summary}
                write_model(here / f"{name}.json", cell.model_copy(update=changed))
                write_traces(here / f"{name}.parquet", traces)
                cells += 1
            write_model(here / "life.json", life.model_copy(update={"block": block, "cells": names}))
    return cells, cells * REQUESTS * TOKENS


def _trace(index: int) -> Trace:
    timeline = Timeline()
    for token in range(TOKENS):
        at_s = 0.05 * index + 0.1 + 0.01 * token
        timeline.add(at_s, at_s + 1e-4, token + 1)
    made: dict[str, Any] = dict.fromkeys(Trace.__dataclass_fields__)
    counts = dict.fromkeys(("slot", "events", "coalesced", "received_bytes", "reads", "stamped_reads"), TOKENS)
    return Trace(
        **made
        | counts
        | {"index": index, "request_id": str(index), "due_s": 0.05 * index, "end_s": 0.05 * index + 2.0}
        | {
            "input_tokens": 100,
            "max_tokens": TOKENS,
            "timeline": timeline,
            "visible_s": 0.05 * index + 0.1 + index / 1e3,
        }
    )


def timed(name: str, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    work()
    print(f"| {name} | {time.perf_counter() - began:.2f} |")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bakeoff-report-") as made:
        folder = Path(made) / "many"
        cells, events = multiplied(Path(sys.argv[1]), folder)
        bundle = Path(made) / "many.zip"
        print(f"{cells} cells, {events} token events\n\n| what | s |\n|---|--:|")
        timed("report", lambda: make_report(folder, None, None, ()))
        timed("report again", lambda: make_report(folder, None, None, ()))
        timed("bundle", lambda: write_bundle(folder, bundle, None))
        timed("opening the bundle", lambda: read_results(bundle))
        size = (folder / "report.html").stat().st_size
        print(json.dumps({"report_bytes": size, "bundle_bytes": bundle.stat().st_size}))


if __name__ == "__main__":
    main()
