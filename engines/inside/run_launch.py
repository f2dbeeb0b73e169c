# SPDX-License-Identifier: Apache-2.0
"""Runs a launch inside a container, where files and links lie already: run_launch.py LAUNCH.json

Commands that make a file run only where it is not there, whole; how long they took is written beside it. Then this
process becomes the server.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def prepare(command: dict[str, Any], folder: Path) -> None:
    made = command["creates"]
    note = Path(f"{made}.seconds") if made else None
    if note is not None and note.exists() and Path(made).exists():
        return
    if made:
        Path(made).parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    code = subprocess.run(command["argv"], cwd=folder, env=environment(command), check=False).returncode
    if code != 0:
        sys.exit(f"{' '.join(command['argv'])} ended with code {code}")
    if note is not None:
        note.write_text(f"{time.monotonic() - began:.3f}\n", encoding="utf-8")


def environment(command: dict[str, Any]) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8", **command["env"]}


def main(path: Path) -> None:
    launch = json.loads(path.read_text("utf-8"))
    for command in launch["prepare"]:
        prepare(command, path.parent)
    os.chdir(path.parent)
    serve = launch["serve"]
    os.execvpe(serve["argv"][0], serve["argv"], environment(serve))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
