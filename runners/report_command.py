# SPDX-License-Identifier: Apache-2.0
"""`bakeoff report`: what an architect takes into the meeting."""

import os
from collections.abc import Sequence
from pathlib import Path

from runners.report.opened import read_results
from runners.report.page.render import render
from runners.report.unpack import opened


def make_report(path: Path, out: Path | None, by: str | None, accepted: Sequence[str]) -> None:
    """`bakeoff report`: one HTML file, in the results folder unless told otherwise."""
    results = read_results(path, accepted)
    out = out or (path / "report.html" if path.is_dir() else Path(f"{path.stem}.html"))
    beside = os.path.relpath(path, out.parent) if path.is_dir() else None
    with opened(path) as folder:
        text = render(results, folder, beside, by)
    out.write_text(text, encoding="utf-8")
    print(f"{out}: {len(text.encode()) / 1e6:.1f} MB; open it in a browser, it needs nothing else")
