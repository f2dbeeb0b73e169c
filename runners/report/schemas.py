# SPDX-License-Identifier: Apache-2.0
"""Which kind of record each file of a results folder is, and the JSON schemas of all kinds."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import TypeAdapter

from engines.launch import Launch
from runners.config import Bakeoff
from runners.report.bundle_record import BundleRecord
from runners.report.host import HostRecord
from runners.report.record import CellRecord, LifeRecord, Looks, Unsupported
from runners.self_check import SelfCheck

KINDS: Final[Mapping[str, type[Any]]] = {
    "config": Bakeoff,
    "environment": HostRecord,
    "looks": Looks,
    "client-check": SelfCheck,
    "unsupported": Unsupported,
    "launch": Launch,
    "life": LifeRecord,
    "cell": CellRecord,
    "bundle": BundleRecord,
}
PATTERNS: Final = (
    ("config.yaml", "config"),
    ("environment*.json", "environment"),
    ("looks.json", "looks"),
    ("client-check*.json", "client-check"),
    ("bundle.json", "bundle"),
    ("unsupported/*.json", "unsupported"),
    ("lives/*/launch.json", "launch"),
    ("lives/*/life.json", "life"),
    ("lives/*/*.json", "cell"),
)
"""The first that fits; a cell is what no other record of a life is."""


def kind_of(name: str) -> str | None:
    """By its path in the folder; None for what is no record (tables, logs, traces)."""
    path = PurePosixPath(name)
    fitting = (k for pattern, k in PATTERNS if len(path.parts) == pattern.count("/") + 1 and path.match(pattern))
    return next(fitting, None)


def words_of_records() -> frozenset[str]:
    """Every word that a record is built of: keys, and the values that have a fixed set."""
    return frozenset(re.findall(r"[A-Za-z0-9_.-]+", " ".join(schema_texts().values())))


def schema_texts() -> dict[str, str]:
    """The JSON schema of each kind by the name of its file under results/schemas."""
    return {
        f"{kind}.schema.json": json.dumps(TypeAdapter(model).json_schema(), indent=2, sort_keys=True) + "\n"
        for kind, model in KINDS.items()
    }


if __name__ == "__main__":
    for name, text in schema_texts().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
