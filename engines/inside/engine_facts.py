# SPDX-License-Identifier: Apache-2.0
"""What a compiled engine was built by and on: engine_facts.py write|check ENGINE VERSION GPU

An engine runs only under the TensorRT-LLM version and on the GPU architecture it was built with; Triton finds out
late and says it badly.
"""

import json
import sys
from pathlib import Path

FILE = "built_on.json"


def write(engine: Path, version: str, gpu: str) -> None:
    (engine / FILE).write_text(json.dumps({"version": version, "gpu": gpu}) + "\n", encoding="utf-8")


def check(engine: Path, version: str, gpu: str) -> None:
    """Ends with a sentence where the engine cannot run here."""
    config = engine / "config.json"
    if not config.exists():
        sys.exit(f"{engine} holds no engine: config.json is missing; correct engine_dir or take it out")
    built_by = json.loads(config.read_text("utf-8")).get("version")
    if built_by is not None and built_by != version:
        sys.exit(f"{engine} was built by TensorRT-LLM {built_by}, here is {version}; build it anew")
    note = engine / FILE
    if not note.exists():
        print(f"{engine} does not say on which GPU it was built; Triton will find out")
        return
    built_on = json.loads(note.read_text("utf-8"))["gpu"]
    if built_on != gpu:
        sys.exit(f"{engine} was built on {built_on or 'no GPU'}, here is {gpu or 'no GPU'}; build it anew on this one")


if __name__ == "__main__":
    verb, folder, version, gpu = sys.argv[1:]
    {"write": write, "check": check}[verb](Path(folder), version, gpu)
