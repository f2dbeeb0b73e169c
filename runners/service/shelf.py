# SPDX-License-Identifier: Apache-2.0
"""What is made of a run's records to be shown, kept while the records stay the same."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from runners.report.blocks import read_run
from runners.report.decisions import Decisions, decide_run
from runners.report.ledger import ComparedRow, ledger_of
from runners.report.opened import read_results
from runners.report.redact import Redactor
from runners.report.table import Row, tabulate

T = TypeVar("T")
KEPT: Final = 24
MOST_LOG: Final = 2**20
LOGS: Final = ("server.log", "prepare.log")


@dataclass(frozen=True)
class Content:
    """Of a run with at least one finished life."""

    rows: Sequence[Row]
    decisions: Decisions
    ledger: tuple[ComparedRow, ...]
    cells: tuple[dict[str, Any], ...]


class Shelf:
    """What was made last, by what it is, run and the signature of its folder."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, str, str], object] = OrderedDict()
        self._lock = threading.Lock()

    def content(self, folder: Path, signature: str) -> Content:
        """Takes a second where it is not kept. Raises what `read_run` raises."""
        return self._found(_content, folder, signature)

    def report(self, folder: Path, signature: str) -> str:
        """The page that `bakeoff report` makes, without links to what does not lie beside it. Raises the same."""
        return self._found(_report, folder, signature)

    def _found(self, make: Callable[[Path], T], folder: Path, signature: str) -> T:
        key = (make, folder.name, signature)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast(T, self._kept[key])
        found = make(folder)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


def _report(folder: Path) -> str:
    from runners.report.page.render import render

    return render(read_results(folder), folder, None, None)


def _content(folder: Path) -> Content:
    run = read_run(folder)
    cells = tuple(cell.model_dump(mode="json") for cell in run.cells)
    return Content(tabulate(run), decide_run(run), ledger_of(run), cells)


def logs_of(folder: Path) -> dict[str, Path]:
    """The logs of a run's lives by name, as `b01-vllm/server.log`. No name is ever made into a path."""
    return {
        f"{path.parents[1].name}/{path.name}": path
        for path in sorted(folder.glob("lives/*/engine/*.log"))
        if path.name in LOGS and not path.is_symlink()
    }


def log_text(path: Path) -> str:
    """The end of a log, without secrets."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_LOG))
        return redacted(file.read().decode("utf-8", "replace"))


def redacted(text: str) -> str:
    """Credentials, private addresses and home folders become words."""
    redactor = Redactor([], [str(Path.home())])
    redactor.learn(text)
    return redactor(text)


def plain_name(wanted: str) -> str:
    """A name as folders of runs have it, from one that anybody gave."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip(".-_")[:80] or "bundle"
