# SPDX-License-Identifier: Apache-2.0
"""The command line from outside."""

import subprocess
import sys
from pathlib import Path

BAKEOFF = (sys.executable, "-m", "runners")


def bakeoff(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BAKEOFF, *arguments], capture_output=True, text=True, cwd=folder, check=False)


def test_help_names_every_command() -> None:
    done = bakeoff("--help")
    assert done.returncode == 0
    for command in ("compare", "plan", "verify", "table", "engines"):
        assert command in done.stdout


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, runners.cli\n"
        "heavy = {'pandas', 'pydantic', 'httpx', 'numpy', 'yaml', 'scipy', 'tokenizers', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_refusal_is_one_message_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: x\nblcoks: 1\n")
    done = bakeoff("compare", "bad.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert "bad.yaml: blcoks: unknown key; take it out" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_table_of_nothing(tmp_path: Path) -> None:
    done = bakeoff("table", str(tmp_path))
    assert done.returncode == 1
    assert "is no results folder" in done.stderr


def test_engines_says_what_can_run() -> None:
    done = bakeoff("engines")
    assert done.returncode == 0
    for name in ("vllm_openai", "triton_vllm", "llamacpp_openai", "triton_llamacpp", "tensorrt-llm"):
        assert name in done.stdout
