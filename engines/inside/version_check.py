# SPDX-License-Identifier: Apache-2.0
"""Whether NVIDIA's files are those of the installed TensorRT-LLM: version_check.py APP VERSION

In an image they are by construction; a checkout says its version in tensorrt_llm/version.py.
"""

import re
import sys
from pathlib import Path


def main(app: Path, installed: str) -> None:
    for folder in (app, app.parent):
        file = folder / "tensorrt_llm" / "version.py"
        if not file.exists():
            continue
        told = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", file.read_text("utf-8"))
        if told and told.group(1) != installed:
            sys.exit(
                f"{folder} is a checkout of {told.group(1)}, TensorRT-LLM {installed} is installed: "
                f"check out the tag v{installed}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
