# SPDX-License-Identifier: Apache-2.0
"""What is given away: the table to be quoted by, and the bundle."""

from collections.abc import Sequence
from pathlib import Path

from runners.bundle import write_bundle
from runners.config import Bakeoff
from runners.report.decisions import decide_run
from runners.report.headlines import headlines, sentences
from runners.report.opened import Results, read_results
from runners.report.published import published_rows
from runners.report.published_notes import notes
from runners.report.published_text import published_csv, published_markdown
from runners.results import ResultsError


def print_published(folder: Path, form: str, by: str | None, accepted: Sequence[str] = ()) -> None:
    """Raises ResultsError for a form that it has not."""
    results = read_results(folder, accepted)
    rows, told = published_rows(results), notes(results, by)
    if form == "md":
        print(published_markdown(results.run.config["name"], _lead(results), rows, told), end="")
    elif form == "csv":
        print(published_csv(rows, told), end="")
    else:
        raise ResultsError(f"--format {form}: a published table is md or csv")


def _lead(results: Results) -> list[str]:
    bakeoff = Bakeoff.model_validate(results.run.config)
    return sentences(headlines(decide_run(results.run), bakeoff))


def make_bundle(folder: Path, out: Path | None, by: str | None) -> None:
    """`bakeoff bundle`."""
    out = out or Path(f"{folder.resolve().name}.zip")
    record = write_bundle(folder, out, by)
    told = ", ".join(f"{count} {kind}" for kind, count in record.redacted.items())
    print(f"{out}: redacted {told or 'nothing'}; left out {len(record.left_out)} files, see bundle.json in it")
    print("Look it through before you publish it: what no rule knows, such as names in prompts, is still there")
