# SPDX-License-Identifier: Apache-2.0
"""Whether the environment's `openai` package is new enough for TensorRT-LLM's server: openai_check.py

In Triton's images 26.03 to 26.07 it is not, and the start dies of a missing PartReasoningText
(triton-inference-server/server, docs/getting_started/llm.md e1db8a6).
"""

import importlib.util
import sys
from pathlib import Path


def main() -> None:
    found = importlib.util.find_spec("openai")
    if found is None or found.origin is None:
        return
    types = (Path(found.origin).parent / "types" / "responses").glob("*.py")
    if not any("PartReasoningText" in path.read_text("utf-8") for path in types):
        sys.exit("the openai package here is too old for TensorRT-LLM (no PartReasoningText): pip install -U openai")


if __name__ == "__main__":
    main()
