# SPDX-License-Identifier: Apache-2.0
"""Decodes each chunk of tokens by itself."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        from tokenizers import Tokenizer

        parameters = json.loads(args["model_config"])["parameters"]
        folder = Path(parameters["tokenizer_dir"]["string_value"])
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        ids = pb_utils.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy().flatten()
        text = self.tokenizer.decode([int(i) for i in ids])
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([[text.encode()]], dtype=np.object_))])
