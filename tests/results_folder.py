# SPDX-License-Identifier: Apache-2.0
"""A small results folder with every kind of file, from records that are made by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from engines.launch import Command, Launch
from runners.report.record import CellRecord, Delays, LifeRecord, Looks, Unsupported, write_launch
from runners.report.trace_table import write_traces
from runners.report.written import write_model, write_once
from tests.test_config import GOOD
from tests.test_published import CHECK, GPU, HOST
from tests.test_records import TRACES, life, record

RATES: Mapping[str, Sequence[float]] = {"a": (100.0, 104.0, 98.0, 102.0), "b": (150.0, 158.0, 146.0, 153.0)}
"""Tokens per second by contender and block, at both levels."""


DELAYS = Delays(queue_s=0.1, prefill_s=0.2, decode_s=1.5, ttft_s=0.5, e2e_s=2.0)


def make_folder(folder: Path, rates: Mapping[str, Sequence[float]] = RATES, **changes: Any) -> Path:
    """Two contenders, two levels, a block for each rate; a third contender that cannot run."""
    contenders = [{"name": name, "engine": "llamacpp_openai", "gpus": [0]} for name in rates]
    lame = {"name": "lame", "engine": "llamacpp_openai", "gpus": [0]}
    config = {**GOOD, "contenders": [*contenders, lame], "blocks": len(next(iter(rates.values()))), **changes}
    write_once(folder / "config.yaml", yaml.safe_dump(config))
    write_once(folder / "environment.json", json.dumps(host()))
    write_model(folder / "client-check.json", CHECK)
    write_model(folder / "looks.json", Looks(after_blocks=(4, 6)))
    write_model(
        folder / "unsupported/lame.json", Unsupported(contender="lame", engine_kind="x", reason="never heard of")
    )
    write_once(folder / "table.md", "| a |\n")
    for name, of_one in rates.items():
        for block, rate in enumerate(of_one, start=1):
            _write_life(folder / "lives" / f"b{block:02d}-{name}", name, block, rate)
    return folder


def host() -> dict[str, Any]:
    return {
        **HOST,
        "python": "3.11.7",
        "libc": "glibc 2.36",
        "load_average": 0.1,
        "gpus": [{**GPU, "used_bytes": 0}],
        "checkpoint": {"sha256": "4a99" * 16, "revision": None},
    }


def _write_life(folder: Path, name: str, block: int, rate: float) -> None:
    cells = [placed(record(name, block, rate * level, level), block) for level in (1, 2)]
    url = "http://127.0.0.1:18600"
    serve = Command(("serve", "--port", "18600"), {"PYTHONHASHSEED": "0"})
    write_launch(
        folder / "launch.json", Launch({"engine.yaml": "x: 1\n"}, {}, (), serve, url, url, "/health", (18600,))
    )
    write_once(folder / "engine" / "server.log", "ready\n")
    for cell in cells:
        write_model(folder / f"w-c{cell.level}.json", cell)
        write_traces(folder / f"w-c{cell.level}.parquet", TRACES)
    write_model(folder / "life.json", life_of(cells[0]))


def placed(cell: CellRecord, block: int) -> CellRecord:
    """Contenders take turns at being first; every figure that can be drawn is there."""
    told = cell.summary.model_copy(
        update={"delays": DELAYS, "cache_expected": 0.5, "acceptance_by_position": (0.9, 0.5)}
    )
    return cell.model_copy(update={"position": 1 + (block + (cell.contender == "b")) % 2, "summary": told})


def life_of(cell: CellRecord) -> LifeRecord:
    return life(cell).model_copy(update={"position": cell.position, "cells": ("w-c1", "w-c2")})
