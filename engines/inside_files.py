# SPDX-License-Identifier: Apache-2.0
"""Where the programs lie that run inside an engine's environment, and their text."""

from pathlib import Path


def inside_path(name: str) -> str:
    """Path of a program of `engines/inside`."""
    return str(Path(__file__).parent / "inside" / name)


def inside_text(name: str) -> str:
    """Text of a program of `engines/inside`, for files that are placed elsewhere."""
    return Path(inside_path(name)).read_text(encoding="utf-8")
