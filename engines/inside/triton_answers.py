# SPDX-License-Identifier: Apache-2.0
"""Requests and responses of the Triton models placed by bakeoff: tensors to values and back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


@dataclass(frozen=True)
class Asked:
    """One request in plain values; `sampling` is the JSON of the sampling_parameters tensor."""

    text: str
    stream: bool
    sampling: dict[str, Any]
    finish_reason: bool
    input_tokens: bool
    output_tokens: bool
    cached_tokens: bool
    engine_metrics: bool


def asked(request: Any) -> Asked:
    """Read a request's tensors. Raises ValueError on a sampling_parameters that is not JSON."""
    return Asked(
        text=_text(request, "text_input", ""),
        stream=_flag(request, "stream"),
        sampling=json.loads(_text(request, "sampling_parameters", "{}")),
        finish_reason=_flag(request, "return_finish_reason"),
        input_tokens=_flag(request, "return_num_input_tokens"),
        output_tokens=_flag(request, "return_num_output_tokens"),
        cached_tokens=_flag(request, "return_num_cached_tokens"),
        engine_metrics=_flag(request, "return_engine_metrics"),
    )


def answer(
    want: Asked,
    text: str,
    *,
    finish_reason: str | None,
    input_tokens: int | None,
    output_tokens: int,
    cached_tokens: int | None,
    spans_ns: Sequence[int] | None = None,
) -> Any:
    """One response with the tensors that were asked for, and how long the engine took, where it says so: in the queue,
    for the prefill, for the decode. `output_tokens` is a delta."""
    tensors = [_strings("text_output", text)]
    if want.finish_reason:
        tensors.append(_strings("finish_reason", str(finish_reason)))
    if want.output_tokens:
        tensors.append(_numbers("num_output_tokens", output_tokens))
    if want.input_tokens and input_tokens is not None:
        tensors.append(_numbers("num_input_tokens", input_tokens))
    if want.cached_tokens and cached_tokens is not None:
        tensors.append(_numbers("num_cached_tokens", cached_tokens))
    if spans_ns is not None:
        tensors.append(pb_utils.Tensor("engine_spans_ns", np.array(spans_ns, dtype=np.int64)))
    return pb_utils.InferenceResponse(output_tensors=tensors)


def metrics_answer(page: str) -> Any:
    """The response to a request for the engine's own metrics page."""
    return pb_utils.InferenceResponse(output_tensors=[_strings("text_output", ""), _strings("engine_metrics", page)])


def failure(error: Exception) -> Any:
    """A response that says what went wrong."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"{type(error).__name__}: {error}"))


def engine_args(arguments: dict[str, str]) -> dict[str, Any]:
    """The engine's arguments out of the model's configuration."""
    config = json.loads(arguments["model_config"])
    parsed: dict[str, Any] = json.loads(config["parameters"]["engine_args"]["string_value"])
    return parsed


def _first(request: Any, name: str) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().flatten()[0]


def _text(request: Any, name: str, default: str) -> str:
    value = _first(request, name)
    return default if value is None else value.decode()


def _flag(request: Any, name: str) -> bool:
    return bool(_first(request, name))


def _strings(name: str, value: str) -> Any:
    return pb_utils.Tensor(name, np.array([value.encode()], dtype=np.object_))


def _numbers(name: str, value: int) -> Any:
    return pb_utils.Tensor(name, np.array([value], dtype=np.uint32))
