# SPDX-License-Identifier: Apache-2.0
"""`bakeoff table --publish`: the table to be quoted by."""

from collections.abc import Sequence
from pathlib import Path

from runners.report.opened import read_results
from runners.report.published import published_rows
from runners.report.published_notes import notes
from runners.report.published_text import published_csv, published_markdown
from runners.results import ResultsError


def print_published(folder: Path, form: str, by: str | None, accepted: Sequence[str] = ()) -> None:
    """Raises ResultsError for a form that it has not."""
    results = read_results(folder, accepted)
    rows, told = published_rows(results), notes(results, by)
    if form == "md":
        print(published_markdown(results.run.config["name"], rows, told), end="")
    elif form == "csv":
        print(published_csv(rows, told), end="")
    else:
        raise ResultsError(f"--format {form}: a published table is md or csv")
