# SPDX-License-Identifier: Apache-2.0
"""What `bakeoff check` says of folders, bundles and tables that anybody may have made."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.bundle import write_bundle
from runners.report.check_records import Finding, check_records
from runners.report.check_table import COLUMNS, check_table
from runners.report.opened import read_results
from runners.report.published import published_rows
from runners.report.published_notes import notes
from runners.report.published_text import published_csv
from tests.results_folder import make_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "run")


@pytest.fixture
def table(folder: Path, tmp_path: Path) -> Path:
    results = read_results(folder)
    path = tmp_path / "table.csv"
    path.write_text(published_csv(published_rows(results), notes(results)))
    return path


def texts(findings: tuple[Finding, ...], state: str) -> list[str]:
    return [finding.text for finding in findings if finding.state == state]


def test_a_folder_that_is_whole_is_told_what_it_lacks(folder: Path) -> None:
    found = check_records(folder)
    assert texts(found, "wrong") == []
    assert texts(found, "lacks") == ["greedy answers: whether contenders say the same", "energy of the GPUs"]


def test_what_is_missing_is_named(folder: Path) -> None:
    for name in ("environment.json", "client-check.json", "lives/b01-a/launch.json", "lives/b02-b/w-c2.parquet"):
        (folder / name).unlink()
    lacking = texts(check_records(folder), "lacks")
    assert "environment.json: on which machine it ran" in lacking
    assert "client-check.json: whether the client was the limit" in lacking
    assert "lives/b01-a: launch.json" in lacking
    assert "lives/b02-b: w-c2.parquet" in lacking


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_a_record_that_was_improved_by_hand_is_found_out(folder: Path) -> None:
    """Its traces still have 13 requests of four tokens."""
    edit(folder / "lives/b01-a/w-c1.json", lambda cell: cell["summary"].update(output_tokens=5200))  # type: ignore[attr-defined]
    edit(folder / "lives/b02-a/w-c1.json", lambda cell: cell.update(contender="b"))
    wrong = texts(check_records(folder), "wrong")
    assert "lives/b01-a/w-c1.json: output_tokens is 5200, its traces have 52" in wrong
    assert "lives/b02-a/w-c1.json: is of block 2, b, which is not its life's" in wrong


def test_every_unreadable_record_is_named(folder: Path) -> None:
    (folder / "lives/b01-a/w-c1.json").write_text("{")
    edit(folder / "lives/b02-b/life.json", lambda life: life.update(block="two"))
    first, second = texts(check_records(folder), "wrong")
    assert first.startswith("lives/b01-a/w-c1.json: no whole JSON")
    assert second.startswith("lives/b02-b/life.json: block: input should be a valid integer")


def test_the_command_on_a_bundle(folder: Path, tmp_path: Path) -> None:
    write_bundle(folder, tmp_path / "b.zip", None)
    command = [sys.executable, "-m", "runners", "check", str(tmp_path / "b.zip")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("b.zip: 0 wrong, 2 lacking\n")


def test_a_published_table_of_ours_lacks_nothing(table: Path) -> None:
    assert check_table(table) == ()


def changed(table: Path, old: str, new: str) -> tuple[Finding, ...]:
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))
    return check_table(table)


def test_columns_and_notes_that_a_table_lacks(table: Path) -> None:
    assert texts(changed(table, ",power_w,", ",watts,"), "lacks") == ["column power_w"]
    assert texts(changed(table, "# Stale: ", "# Fresh: "), "lacks") == ["column power_w", "note 'Stale'"]


def test_a_table_from_elsewhere_is_told_all_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("engine,tok/s\nfast,1000\n")
    found = check_table(path)
    assert texts(found, "wrong") == []
    assert texts(found, "lacks")[: len(COLUMNS) - 1] == [f"column {name}" for name in COLUMNS if name != "engine"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,10,9,2,1.0,0.9,1.1,reference", "9 done and 2 failed of 10 due"),
        ("a,10,10,0,1.5,0.9,1.1,reference", "ratio 1.5 lies outside its interval"),
        ("a,10,10,0,1.0,0.9,1.1,by far the best", "verdict 'by far the best' is none"),
        ("a,10,10,0,nan,0.9,1.1,reference", "nan is no figure"),
        ("a,10,10", "more or fewer cells than the header"),
    ],
)
def test_rows_that_contradict_themselves(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "t.csv"
    header = "engine,requests_due,requests_done,requests_failed,ratio,ratio_low,ratio_high,verdict"
    path.write_text(f"{header}\n{row}\n")
    assert any(message in text for text in texts(check_table(path), "wrong"))
