# SPDX-License-Identifier: Apache-2.0
"""Drives tokenizer, engine and detokenizer itself; with accumulate_tokens the text is all so far, each time."""

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

THROUGH = {
    "temperature": "temperature",
    "top_k": "runtime_top_k",
    "exclude_input_in_output": "exclude_input_in_output",
    "return_perf_metrics": "return_perf_metrics",
    "return_num_input_tokens": "return_num_input_tokens",
    "return_num_output_tokens": "return_num_output_tokens",
    "stream": "streaming",
}
METRICS = ("kv_cache_reused_blocks", "kv_cache_alloc_new_blocks", "kv_cache_alloc_total_blocks", "acceptance_rate")
METRICS += ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns")
METRICS += ("total_accepted_draft_tokens", "total_draft_tokens", "num_input_tokens", "num_output_tokens")


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        self.accumulates = parameters["accumulate_tokens"]["string_value"] == "true"
        self.engine = parameters["tensorrt_llm_model_name"]["string_value"]

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self._serve(request)

    def _serve(self, request: Any) -> None:
        sender = request.get_response_sender()
        prepared = _call(
            "preprocessing", {"QUERY": _of(request, "text_input"), "REQUEST_OUTPUT_LEN": _of(request, "max_tokens")}
        )
        inputs = {
            "input_ids": _of(prepared, "INPUT_ID"),
            "input_lengths": _of(prepared, "REQUEST_INPUT_LEN"),
            "request_output_len": _of(prepared, "REQUEST_OUTPUT_LEN"),
        }
        inputs |= {name: tensor for own, name in THROUGH.items() if (tensor := _of(request, own)) is not None}
        called = pb_utils.InferenceRequest(
            model_name=self.engine,
            requested_output_names=["output_ids", "sequence_length", *METRICS],
            inputs=[_named(name, tensor) for name, tensor in inputs.items()],
        )
        ids: list[int] = []
        for response in called.exec(decoupled=True):
            tokens = _of(response, "output_ids")
            if response.has_error() or tokens is None:
                continue
            new = [int(i) for i in tokens.flatten()]
            ids = ids + new if self.accumulates else new
            self._send(sender, response, ids)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _send(self, sender: Any, response: Any, ids: list[int]) -> None:
        batch = {
            "TOKENS_BATCH": np.array([[ids]], dtype=np.int32),
            "SEQUENCE_LENGTH": np.array([[len(ids)]], dtype=np.int32),
        }
        text = _of(_call("postprocessing", batch), "OUTPUT")
        metrics = {name: tensor for name in METRICS if (tensor := _of(response, name)) is not None}
        tensors = [_named("text_output", text), *(_named(name, tensor) for name, tensor in metrics.items())]
        sender.send(pb_utils.InferenceResponse(tensors))


def _call(model: str, inputs: dict[str, Any]) -> Any:
    wanted = ["OUTPUT"] if model == "postprocessing" else ["INPUT_ID", "REQUEST_INPUT_LEN", "REQUEST_OUTPUT_LEN"]
    request = pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=wanted,
        inputs=[_named(name, tensor) for name, tensor in inputs.items()],
    )
    return request.exec()


def _of(holder: Any, name: str) -> Any:
    """A tensor of a request or a response as an array, or None."""
    find = (
        pb_utils.get_output_tensor_by_name if hasattr(holder, "output_tensors") else pb_utils.get_input_tensor_by_name
    )
    tensor = find(holder, name)
    return None if tensor is None else tensor.as_numpy()


def _named(name: str, array: Any) -> Any:
    return pb_utils.Tensor(name, array)
