# SPDX-License-Identifier: Apache-2.0
"""Files of prompts: every line that is wrong is named, and what lines have in common is known."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.load.prompt_file import PromptFile, PromptFileError, read_prompts
from runners.load.rendering import Rendering
from runners.session import open_session
from tests.test_config import written


def saved(folder: Path, *lines: dict[str, Any] | str | bytes) -> Path:
    path = folder / "prompts.jsonl"
    texts = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    path.write_bytes(b"".join((t.encode() if isinstance(t, str) else t) + b"\n" for t in texts))
    return path


def read(path: Path, rendering: Rendering, cells: int = 1, *, repeat: bool = False) -> PromptFile:
    return read_prompts(path, rendering, 128, cells, repeat=repeat)


GOOD = {"prompt": "what is it", "max_tokens": 8}


def test_prompts_are_rendered_and_counted(tmp_path: Path, rendering: Rendering) -> None:
    talk = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    path = saved(tmp_path, GOOD, {"messages": [*talk, {"role": "user", "content": "three"}], "max_tokens": 9})
    found = read(path, rendering)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    single, several = found.portions[0]
    assert single.text == rendering.render("what is it")
    assert several.text == (
        "<|start|>user\none<|end|>\n<|start|>assistant\ntwo<|end|>\n<|start|>user\nthree<|end|>\n<|start|>assistant\n"
    )
    assert (single.input_tokens, single.max_tokens) == (rendering.tokens(single.text), 8)


def test_cells_take_turns_at_the_lines(tmp_path: Path, rendering: Rendering) -> None:
    lines = [{"prompt": f"question {n}", "max_tokens": 8 + n} for n in range(5)]
    found = read(saved(tmp_path, *lines), rendering, cells=2)
    assert [[line.max_tokens for line in portion] for portion in found.portions] == [[8, 10, 12], [9, 11]]
    again = read(saved(tmp_path, GOOD, GOOD), rendering, cells=2, repeat=True)
    assert [[line.reused_tokens for line in portion] for portion in again.portions] == [[None, None]] * 2


def test_what_lines_start_with_alike(tmp_path: Path, rendering: Rendering) -> None:
    """By the order in which they are sent: the first cell's lines, then the second's."""
    long = " the of and to in is that for it as" * 2
    texts = [f"{long} one", "something else", f"{long} two", f"{long} one more"]
    found = read(saved(tmp_path, *({"prompt": t, "max_tokens": 4} for t in texts)), rendering, cells=2)
    template = rendering.tokens(rendering.before)
    shared = rendering.tokens(rendering.before + long)
    assert [[line.reused_tokens for line in portion] for portion in found.portions] == [
        [template, shared],
        [template, shared + 1],
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "{",
            'line 2: not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); write {"',
        ),
        ("", "line 2: not JSON"),
        ("[]", 'line 2: no object; write {"prompt"'),
        ({"prompt": "x"}, "line 2: max_tokens: missing"),
        ({"max_tokens": 3}, "line 2: give either prompt or messages"),
        ({"prompt": 7, "max_tokens": 3}, "line 2: prompt: Input should be a valid string"),
        ({"prompt": "x", "max_tokens": "3"}, "line 2: max_tokens: Input should be a valid integer"),
        ({"prompt": "x", "max_tokens": 0}, "line 2: max_tokens: Input should be greater than 0"),
        ({"prompt": "", "max_tokens": 3}, "line 2: prompt: String should have at least 1 character"),
        ({"prompt": "x", "max_tokens": 3, "stop": "x"}, "line 2: stop: unknown key"),
        ({"messages": [{"role": "me", "content": "x"}], "max_tokens": 3}, "line 2: messages.0.role: Input should be"),
        ({"messages": [{"role": "user"}], "max_tokens": 3}, "line 2: messages.0.content: "),
        ({"prompt": "x", "messages": [], "max_tokens": 3}, "line 2: messages: List should have at least 1 item"),
        ({"prompt": " the" * 100, "max_tokens": 30}, "line 2: prompt and answer take 110 + 30 tokens, more than knobs"),
        (GOOD, "line 2: the prompt of line 1; take it out or set repeat: true"),
        (b'{"prompt": "\xff", "max_tokens": 3}', "line 2: not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, rendering: Rendering, line: dict[str, Any] | str | bytes, message: str
) -> None:
    path = saved(tmp_path, GOOD, line)
    with pytest.raises(PromptFileError) as caught:
        read(path, rendering)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_all_bad_lines_are_told_at_once(tmp_path: Path, rendering: Rendering) -> None:
    with pytest.raises(PromptFileError) as caught:
        read(saved(tmp_path, *["{"] * 23), rendering)
    told = str(caught.value).splitlines()
    assert len(told) == 21
    assert told[-1] == "and 3 more"


def test_no_file_and_too_few_lines(tmp_path: Path, rendering: Rendering) -> None:
    with pytest.raises(PromptFileError, match=r"nowhere.jsonl: cannot be read \(No such file or directory\); give"):
        read(tmp_path / "nowhere.jsonl", rendering)
    with pytest.raises(PromptFileError, match="0 prompts for 1 levels; write one a line"):
        read(saved(tmp_path), rendering)
    with pytest.raises(PromptFileError, match="1 prompts for 2 levels; write one a line"):
        read(saved(tmp_path, GOOD), rendering, cells=2)


def test_the_command_says_it_once(tmp_path: Path) -> None:
    path = saved(tmp_path, GOOD, "{")
    config = tmp_path / "t.yaml"
    config.write_text(written(workloads=[{"name": "own", "file": str(path), "concurrency": [1]}]))
    command = [sys.executable, "-m", "runners", "compare", str(config), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"bakeoff: {config}: workloads.own.file: {path}: line 2: not JSON (")
    assert done.stderr.count("line 2") == 1
    assert not (tmp_path / "out").exists()


def test_a_config_with_a_bad_file_starts_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, GOOD, "{")
    workload = {"name": "own", "file": str(path), "concurrency": [1]}
    with pytest.raises(Exception, match=rf"t.yaml: workloads.own.file: {path}: line 2: not JSON"):
        open_session(written(workloads=[workload]), "t.yaml", print, starts=False)
    saved(tmp_path, GOOD, {"prompt": "another one that is longer", "max_tokens": 20})
    session = open_session(written(workloads=[workload]), "t.yaml", print, starts=False)
    asked, answered = session.bakeoff.workloads[0].lengths
    assert asked.low <= asked.high
    assert (answered.low, answered.high) == (8, 20)
    assert session.lives[0].cells[0].workload.lengths == (asked, answered)
