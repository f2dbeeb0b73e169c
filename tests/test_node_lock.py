# SPDX-License-Identifier: Apache-2.0
"""One measurement at a time on a node, whoever starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.node_lock import BusyError, node_held, node_holder

HOLD = """
import sys
from runners.node_lock import node_held
with node_held(sys.argv[1], print, wait="wait" in sys.argv):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_NODE_LOCK", str(tmp_path / "lock"))


def hold(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", HOLD, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_who_comes_second_is_told_who_was_first_and_a_killed_one_holds_nothing() -> None:
    assert node_holder() is None
    with hold("mine.yaml") as first:
        assert line_of(first) == "held"
        found = node_holder()
        assert found is not None and (found.pid, found.what) == (first.pid, "mine.yaml")
        told = rf"process {first.pid} has been measuring mine.yaml .* \(--wait\)"
        with pytest.raises(BusyError, match=told), node_held("other.yaml", print):
            pass
        first.kill()
    assert node_holder() is None
    with node_held("other.yaml", print):
        found = node_holder()
        assert found is not None and found.pid == os.getpid()
    assert node_holder() is None


def test_who_waits_gets_it_next() -> None:
    with hold("first") as first:
        assert line_of(first) == "held"
        with hold("second", "wait") as second:
            assert line_of(second).startswith(f"waiting: process {first.pid} has been measuring first")
            first.communicate("")
            assert line_of(second) == "held"
            second.communicate("")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        node_holder()
    assert not (tmp_path / "elsewhere").exists()
