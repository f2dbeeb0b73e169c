# SPDX-License-Identifier: Apache-2.0
"""The LLM API model of the generation of 1.2."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))
import helpers
from llmapi_twin import LlmApiTwin


class TritonPythonModel(LlmApiTwin):
    newer = False
    version = helpers.VERSION
