# SPDX-License-Identifier: Apache-2.0
"""The parts of the OpenAI completions protocol that engines share: end markers, errors, usage."""

import json
from collections.abc import Mapping
from typing import Any, Final

from engines import event_json
from engines.contract import Answer, EngineTimes, EventData, Evidence, Prompt

DONE: Final = b"[DONE]"
SPANS: Final = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")
"""Of vLLM: queued to scheduled, from there to the first token, from there to the last, by the engine core's own clock.
vllm/entrypoints/generate/base/serving.py, 0.32.0."""


def base_body(prompt: Prompt, model: str) -> dict[str, Any]:
    """The fields of a streaming completion that every OpenAI-compatible engine understands."""
    return {
        "model": model,
        "prompt": prompt.text,
        "max_tokens": prompt.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": prompt.sampling.temperature,
        "top_p": prompt.sampling.top_p,
        "top_k": prompt.sampling.top_k,
        "min_p": 0.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "seed": prompt.sampling.seed,
    }


def served(evidence: Evidence) -> Mapping[str, Any]:
    """The first model that `/v1/models` lists; nothing where it did not answer."""
    listed = json.loads(evidence.answers.get("models") or "{}").get("data") or [{}]
    first: Mapping[str, Any] = listed[0]
    return first


def parse_event(answer: Answer, data: EventData) -> Mapping[str, Any] | None:
    """The event's object, or None where there is nothing more to fold.

    `[DONE]` ends the answer; vLLM sends it after an error event, too.
    """
    if data == DONE:
        answer.ended = True
        return None
    return event_json.parse_event(answer, data)


def fold_any(answer: Answer, data: EventData) -> None:
    """Completions and chat of a server of which nothing is known: tokens by the usage so far where each event
    has it, else one for each event with text."""
    event = parse_event(answer, data)
    if event is None:
        return
    fold_running_usage(answer, event)
    for choice in event.get("choices") or ():
        before = len(answer.text)
        fold_choice(answer, choice)
        if len(answer.text) > before and not event.get("usage"):
            answer.tokens, answer.uncounted = answer.tokens + 1, True
    fold_usage(answer, event, missing_cached=None)
    fold_spans(answer, event)


def fold_choice(answer: Answer, choice: Mapping[str, Any]) -> None:
    """Text and finish reason of the only choice."""
    answer.text += choice.get("text") or _delta_text(choice.get("delta"))
    answer.finish_reason = choice.get("finish_reason") or answer.finish_reason


def _delta_text(delta: Mapping[str, Any] | None) -> str:
    """Text of a chat's delta, with its reasoning under either of its names."""
    if not delta:
        return ""
    reasoning = delta.get("reasoning") or delta.get("reasoning_content") or ""
    return reasoning + (delta.get("content") or "")


def fold_running_usage(answer: Answer, event: Mapping[str, Any]) -> None:
    """Tokens so far, where each event says them (`continuous_usage_stats`)."""
    so_far = (event.get("usage") or {}).get("completion_tokens")
    if so_far and event.get("choices"):
        answer.tokens = max(answer.tokens, so_far)


def fold_spans(answer: Answer, event: Mapping[str, Any]) -> None:
    """vLLM's metrics of one request, which come with its usage where the server was told to give them."""
    told = event.get("metrics") or {}
    spans_ms = [span for name in SPANS if (span := told.get(name)) is not None]
    if len(spans_ms) == len(SPANS):
        answer.engine_times = EngineTimes.of_spans(*(round(span * 1e6) for span in spans_ms))


def fold_usage(answer: Answer, event: Mapping[str, Any], *, missing_cached: int | None) -> None:
    """The engine's own counts. `missing_cached` stands for an absent count of cached tokens."""
    usage = event.get("usage")
    if not usage:
        return
    details = usage.get("prompt_tokens_details")
    answer.server_tokens = usage["completion_tokens"]
    answer.prompt_tokens = usage["prompt_tokens"]
    answer.cached_tokens = details.get("cached_tokens", missing_cached) if details else missing_cached
