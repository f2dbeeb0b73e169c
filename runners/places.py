# SPDX-License-Identifier: Apache-2.0
"""Where the tool keeps what it makes once, and where it finds what it ships."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Environments, checkpoints and conversions: BAKEOFF_CACHE, else the user's cache folder."""
    chosen = os.environ.get("BAKEOFF_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bakeoff"


def shipped_configs() -> Path:
    """configs/ of the source tree, or its copy inside an installed package."""
    here = Path(__file__).parent
    tree = here.parent / "configs"
    return tree if (tree / "environments").is_dir() else here / "configs"
