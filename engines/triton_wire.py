# SPDX-License-Identifier: Apache-2.0
"""Triton's HTTP generate extension with the tensors of its vLLM backend, and how Triton says what it is.

Tensor names and their meaning: triton-inference-server/vllm_backend 8de0c14, README and src/model.py;
the extension: triton-inference-server/server e1db8a6, docs/protocol/extension_generate.md. Three
tensors are ours, on models that this tool places: num_cached_tokens, engine_metrics, and engine_spans_ns with the
lengths of queue, prefill and decode.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from engines.contract import Answer, Call, Capabilities, EngineTimes, EventData, Evidence, Probe, Prompt
from engines.event_json import parse_event

CACHED: Final = "num_cached_tokens"
ENGINE_PAGE: Final = "engine_metrics"
ENGINE_SPANS: Final = "engine_spans_ns"
STREAM: Final = "/v2/models/{name}/generate_stream"


def probes() -> tuple[Probe, ...]:
    """Server, model, and the embedded engine's own metrics page, fetched through the model."""
    ask = {"text_input": "", "return_engine_metrics": True}
    return (
        Probe("server", "/v2"),
        Probe("config", "/v2/models/{name}/config"),
        Probe("engine", "/v2/models/{name}/generate", body=ask),
        Probe("triton", "/metrics", port="metrics"),
    )


def engine_page(evidence: Evidence) -> str:
    """The embedded engine's metrics page; empty where the model has none to give."""
    answer = json.loads(evidence.answers.get("engine") or "{}")
    page = answer.get(ENGINE_PAGE) if isinstance(answer, dict) else None
    return page if isinstance(page, str) else ""


def capabilities(
    evidence: Evidence,
    *,
    engine_version: str | None,
    max_model_len: int | None,
    speculates: bool,
    notes: tuple[str, ...] = (),
) -> Capabilities:
    """What server and model answer about themselves; the served name is the model's."""
    server = json.loads(evidence.answers.get("server") or "{}")
    config = json.loads(evidence.answers.get("config") or "{}")
    outputs = {output["name"] for output in config.get("output", ())}
    return Capabilities(
        model=config.get("name", ""),
        engine_version=engine_version,
        front_end=front_end(server),
        max_model_len=max_model_len,
        tokens_per_event="num_output_tokens" in outputs,
        forces_length=True,
        reports_cached_tokens=CACHED in outputs,
        speculates=speculates,
        notes=notes,
    )


def front_end(server: Mapping[str, Any]) -> str:
    """Triton's name by its own account; how requests travel is told apart."""
    return f"Triton {server.get('version', '?')}"


def stream_call(model: str, body: Mapping[str, Any]) -> Call:
    """A request of the generate extension whose answer is streamed."""
    return Call(STREAM.replace("{name}", model), json.dumps(body).encode())


def fold_reason(answer: Answer, event: Mapping[str, Any]) -> bool:
    """The finish reason, if the event has one. Python models write "None" for one that is still open."""
    reason = event.get("finish_reason")
    if reason is None or reason == "None":
        return False
    answer.finish_reason = reason
    return True


def encode(prompt: Prompt, capabilities: Capabilities, sampling: Mapping[str, Any]) -> Call:
    """A streaming request. All of `sampling` goes into one tensor, as JSON: keys of the body that
    match no tensor would be dropped or taken for sampling fields, depending on the model."""
    body = generate_body(prompt.text, sampling)
    if capabilities.reports_cached_tokens:
        body["return_num_cached_tokens"] = True
    return stream_call(capabilities.model, body)


def generate_body(text: str, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """A streaming request with every count that the vLLM backend can give."""
    return {
        "text_input": text,
        "stream": True,
        "exclude_input_in_output": True,
        "sampling_parameters": json.dumps(sampling),
        "return_finish_reason": True,
        "return_num_input_tokens": True,
        "return_num_output_tokens": True,
    }


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Text and num_output_tokens are deltas. There is no end marker: the finish reason is the end."""
    event = parse_event(answer, data)
    if event is None:
        return
    text, added = event.get("text_output", ""), event.get("num_output_tokens")
    answer.text += text
    if added is not None:
        answer.tokens += added
        answer.server_tokens = answer.tokens
    elif text:
        answer.tokens, answer.uncounted = answer.tokens + 1, True
    answer.prompt_tokens = event.get("num_input_tokens", answer.prompt_tokens)
    answer.cached_tokens = event.get(CACHED, answer.cached_tokens)
    answer.ended |= fold_reason(answer, event)
    if ENGINE_SPANS in event:
        answer.engine_times = EngineTimes.of_spans(*event[ENGINE_SPANS])
