# SPDX-License-Identifier: Apache-2.0
"""The protocols that `bakeoff drive` can speak to a server of which nothing else is known.

Where a server says nothing of tokens, an event with new text counts as one, and the answer as
`uncounted`; the engine's own total, where it comes at the end, stands beside it.

Triton's LLM API model: triton_backend/all_models/llmapi of NVIDIA/TensorRT-LLM; its text is the whole so
far from 1.3 on, and one event up to 1.2.x. The ensemble: inflight_batcher_llm, text in deltas.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engines import openai_wire, triton_wire
from engines.contract import Answer, Call, EventData, Prompt
from engines.event_json import parse_event


@dataclass(frozen=True)
class Dialect:
    """A protocol: how a request is put, and how an event changes the answer.

    `encode` takes prompt, model and request id; `fold` is as an engine's. `gives_reason`: an answer without
    a finish reason is broken off; elsewhere the body's own end is the end. `tensors`: Triton's, over gRPC too.
    """

    name: str
    summary: str
    encode: Callable[[Prompt, str, str], Call]
    fold: Callable[[Answer, EventData], None]
    gives_reason: bool
    tensors: bool


def _openai(prompt: Prompt, model: str, _request_id: str) -> Call:
    return Call("/v1/completions", json.dumps(_openai_body(prompt, model) | {"prompt": prompt.text}).encode())


def _openai_chat(prompt: Prompt, model: str, _request_id: str) -> Call:
    messages = [{"role": "user", "content": prompt.text}]
    body = _openai_body(prompt, model) | {"messages": messages}
    return Call("/v1/chat/completions", json.dumps(body).encode())


def _openai_body(prompt: Prompt, model: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": prompt.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": prompt.sampling.temperature,
    }
    return body | ({"ignore_eos": True} if prompt.forced else {})


def _triton_llmapi(prompt: Prompt, model: str, request_id: str) -> Call:
    body = {
        "id": request_id,
        "text_input": prompt.text,
        "streaming": True,
        "sampling_param_max_tokens": prompt.max_tokens,
        "sampling_param_temperature": prompt.sampling.temperature,
        "sampling_param_exclude_input_from_output": True,
        "return_finish_reason": True,
    }
    return triton_wire.stream_call(model, body)


def _triton_ensemble(prompt: Prompt, model: str, request_id: str) -> Call:
    body = {
        "id": request_id,
        "text_input": prompt.text,
        "stream": True,
        "max_tokens": prompt.max_tokens,
        "temperature": prompt.sampling.temperature,
        "exclude_input_in_output": True,
    }
    return triton_wire.stream_call(model, body)


def _triton_vllm(prompt: Prompt, model: str, request_id: str) -> Call:
    """`id` goes along only since the sampling tensor does: else it would be taken for a sampling field."""
    sampling = {
        "max_tokens": prompt.max_tokens,
        "temperature": prompt.sampling.temperature,
        "ignore_eos": prompt.forced,
    }
    return triton_wire.stream_call(model, {"id": request_id} | triton_wire.generate_body(prompt.text, sampling))


def _fold_deltas(answer: Answer, data: EventData) -> None:
    _fold_triton(answer, data, whole_text=False)


def _fold_whole(answer: Answer, data: EventData) -> None:
    _fold_triton(answer, data, whole_text=True)


def _fold_triton(answer: Answer, data: EventData, *, whole_text: bool) -> None:
    """Triton has no end mark: what has been folded when the body ends is the answer."""
    event = parse_event(answer, data)
    if event is None:
        return
    sent = event.get("text_output") or ""
    new = sent[len(answer.text) :] if whole_text and sent.startswith(answer.text) else sent
    answer.text += new
    added = event.get("num_output_tokens")
    if added is not None:
        answer.tokens += int(added)
        answer.server_tokens = answer.tokens
    elif new:
        answer.tokens, answer.uncounted = answer.tokens + 1, True
    answer.prompt_tokens = event.get("num_input_tokens", answer.prompt_tokens)
    triton_wire.fold_reason(answer, event)
    answer.ended = True


DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        Dialect("openai", "completions", _openai, openai_wire.fold_any, True, False),
        Dialect("openai-chat", "chat completions", _openai_chat, openai_wire.fold_any, True, False),
        Dialect("triton-llmapi", "TensorRT-LLM's LLM API model", _triton_llmapi, _fold_whole, False, True),
        Dialect("triton-ensemble", "TensorRT-LLM's compiled ensemble", _triton_ensemble, _fold_deltas, False, True),
        Dialect("triton-vllm", "Triton's vLLM backend", _triton_vllm, _fold_deltas, False, True),
    )
}
