# SPDX-License-Identifier: Apache-2.0
"""What several tests need: the demo checkpoint, once; a node of their own."""

import os
import tempfile
from pathlib import Path

import pytest

from runners.demo_checkpoint import make_demo_checkpoint
from runners.demo_shapes import SHAPES
from runners.load.rendering import Rendering, load_rendering

os.environ["BAKEOFF_NODE_LOCK"] = str(Path(tempfile.gettempdir()) / f"bakeoff-tests-{os.getpid()}.lock")
"""Test runs beside each other on one machine do not wait for each other."""


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    make_demo_checkpoint(folder, SHAPES["demo"])
    return folder


@pytest.fixture(scope="session")
def rendering(demo_folder: Path) -> Rendering:
    return load_rendering(demo_folder)
