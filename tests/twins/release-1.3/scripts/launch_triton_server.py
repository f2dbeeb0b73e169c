# SPDX-License-Identifier: Apache-2.0
"""The launcher has not changed between the generations."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[2] / "release-1.2" / "scripts" / Path(__file__).name), run_name="__main__")
