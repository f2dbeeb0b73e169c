# SPDX-License-Identifier: Apache-2.0
"""Tokenizes; without an end token, the checkpoint's own."""

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
        text = pb_utils.get_input_tensor_by_name(request, "QUERY").as_numpy().flatten()[0].decode("utf-8")
        length = pb_utils.get_input_tensor_by_name(request, "REQUEST_OUTPUT_LEN").as_numpy()
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        tensors = {
            "INPUT_ID": [ids],
            "REQUEST_INPUT_LEN": [[len(ids)]],
            "REQUEST_OUTPUT_LEN": length,
            "OUT_END_ID": [[1]],
            "OUT_PAD_ID": [[4]],
        }
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.array(value, dtype=np.int32)) for name, value in tensors.items()]
        )
