# SPDX-License-Identifier: Apache-2.0
"""Which folder results go to."""

from datetime import date
from pathlib import Path

import pytest

from runners.results import ResultsError, changed, choose_folder, open_folder

DAY = date(2026, 1, 2)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_dated_and_numbered() -> None:
    first = choose_folder(None, "cpu", DAY, resume=False)
    assert first == Path("results/2026-01-02-cpu")
    first.mkdir(parents=True)
    assert choose_folder(None, "cpu", DAY, resume=False) == Path("results/2026-01-02-cpu.2")
    assert choose_folder(None, "cpu", DAY, resume=True) == first


def test_nothing_to_resume() -> None:
    with pytest.raises(ResultsError, match="nothing named cpu to resume"):
        choose_folder(None, "cpu", DAY, resume=True)
    with pytest.raises(ResultsError, match="there is nothing to resume"):
        open_folder(Path("x"), "a: 1\n", {}, resume=True)


def test_a_folder_in_use_is_refused() -> None:
    open_folder(Path("x"), "a: 1\n", {}, resume=False)
    with pytest.raises(ResultsError, match="x is not empty"):
        choose_folder(Path("x"), "cpu", DAY, resume=False)
    assert choose_folder(Path("x"), "cpu", DAY, resume=True) == Path("x")


def test_another_config_is_refused() -> None:
    open_folder(Path("x"), "a: 1\n", {}, resume=False)
    with pytest.raises(ResultsError, match="is another config than this one"):
        open_folder(Path("x"), "a: 2\n", {}, resume=True)
    open_folder(Path("x"), "a: 1\n", {}, resume=True)
    assert sorted(p.name for p in Path("x").iterdir()) == ["config.yaml", "environment.2.json", "environment.json"]


def test_another_environment_is_refused() -> None:
    """The load, free memory and which GPU of the same kind it is may change."""

    def host(driver: str, load: float) -> dict[str, object]:
        gpu = {"index": 0, "uuid": f"GPU-{load}", "name": "H200", "driver": driver, "memory_bytes": 1, "used_bytes": 2}
        return {"load_average": load, "gpus": [gpu]}

    open_folder(Path("x"), "a: 1\n", host("580", 0.5), resume=False)
    open_folder(Path("x"), "a: 1\n", host("580", 1.5), resume=True)
    with pytest.raises(ResultsError, match="x was begun in another environment: gpus "):
        open_folder(Path("x"), "a: 1\n", host("590", 1.5), resume=True)


def test_what_differs_is_named_by_its_key() -> None:
    assert changed({"a": {"b": [1], "c": 2}}, {"a": {"b": [2], "c": 2}, "d": 1}) == {"a.b": ([1], [2]), "d": (None, 1)}
