# SPDX-License-Identifier: Apache-2.0
"""The view of a running comparison: what is done stands in the folder; without a terminal there are plain lines."""

import io
import threading
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from runners.cells import Life, expand
from runners.config import Bakeoff
from runners.live_view import LiveView, shown
from tests.results_folder import make_folder

NAMES = ("a", "b", "lame")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "run")


@pytest.fixture
def lives(folder: Path) -> tuple[Life, ...]:
    return expand(Bakeoff.model_validate(yaml.safe_load((folder / "config.yaml").read_text())))


def drawn(view: LiveView, width: int = 100) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(view.drawn())
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_plan_the_rates_and_what_is_left(folder: Path, lives: tuple[Life, ...]) -> None:
    """Block 4 of `b` has one of two cells; of twelve lives four cannot run and seven are done, six of them before."""
    (folder / "lives/b04-b/life.json").unlink()
    (folder / "lives/b04-b/w-c2.json").unlink()
    (folder / "lives/b04-a/life.json").rename(folder / "kept.json")
    clock = [100.0]
    view = LiveView(lives, NAMES, folder, lambda: clock[0])
    (folder / "kept.json").rename(folder / "lives/b04-a/life.json")
    clock[0] = 220.0
    view.add("block 4 of 4, b: start 2 of 2")
    lines = drawn(view)
    assert " ".join(lines[1].split()) == "1 2 3 4"
    assert [" ".join(line.split()) for line in lines[2:5]] == [
        "a done done done done",
        "b done done done 1/2",
        "lame - - - -",
    ]
    assert " ".join(lines[6].split()) == "w 1 w 2"
    assert [" ".join(line.split()) for line in lines[7:10]] == ["a 101 202", "b 152 303", "lame - -"]
    assert lines[10] == "7 of 8 server lives done, about 2 min left"
    assert lines[11] == "[02:00] block 4 of 4, b: start 2 of 2"


def test_long_plans_show_the_blocks_about_the_one_that_runs(folder: Path) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    lives = expand(Bakeoff.model_validate({**config, "blocks": 40}))
    assert " ".join(drawn(LiveView(lives, NAMES, folder, lambda: 0.0))[1].split()) == " ".join(map(str, range(1, 13)))
    for block in range(5, 31):
        for name in "ab":
            made = folder / "lives" / f"b{block:02d}-{name}"
            made.mkdir()
            (made / "life.json").write_text("{}")
    (folder / "unsupported/lame.json").unlink()
    lives = tuple(life for life in lives if life.contender.name != "lame")
    shown_blocks = drawn(LiveView(lives, NAMES, folder, lambda: 0.0))[1].split()
    assert shown_blocks == [str(block) for block in range(25, 37)]


def test_without_a_terminal_lines_stay_plain(folder: Path, lives: tuple[Life, ...]) -> None:
    said: list[str] = []
    with shown(lives, NAMES, folder, said.append, Console(file=io.StringIO())) as tell:
        tell("hello")
    assert said == ["hello"]


def test_on_a_terminal_nothing_runs_beside_the_comparison(folder: Path, lives: tuple[Life, ...]) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True)
    before = threading.active_count()
    with shown(lives, NAMES, folder, print, console) as tell:
        tell("driving for about 60 s")
        assert threading.active_count() == before
    assert "driving for about 60 s" in out.getvalue()


def test_an_interrupt_gives_the_terminal_back(folder: Path, lives: tuple[Life, ...]) -> None:
    out = io.StringIO()
    view = shown(lives, NAMES, folder, print, Console(file=out, force_terminal=True))
    view.__enter__()
    assert out.getvalue().count("\x1b[?25l") == 1
    assert not view.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert out.getvalue().endswith("\x1b[?25h")
