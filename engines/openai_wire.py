# SPDX-License-Identifier: Apache-2.0
"""The parts of the OpenAI completions protocol that engines share: end markers, errors, usage."""

from typing import Any, Final

from engines import event_json
from engines.contract import Answer, Prompt

DONE: Final = "[DONE]"


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


def parse_event(answer: Answer, data: str) -> tuple[Answer, dict[str, Any] | None]:
    """The event's object, or None where there is nothing to fold beyond the answer returned.

    `[DONE]` ends the answer; vLLM sends it after an error event, too.
    """
    if data == DONE:
        return answer._replace(ended=True), None
    return event_json.parse_event(answer, data)


def fold_choice(answer: Answer, event: dict[str, Any]) -> Answer:
    """Text and finish reason of the only choice; an event with no choices changes neither."""
    choices = event.get("choices") or []
    if not choices:
        return answer
    return answer._replace(
        text=answer.text + (choices[0].get("text") or ""),
        finish_reason=choices[0].get("finish_reason") or answer.finish_reason,
    )


def fold_usage(answer: Answer, event: dict[str, Any], *, missing_cached: int | None) -> Answer:
    """The engine's own counts. `missing_cached` stands for an absent count of cached tokens."""
    usage = event.get("usage")
    if not usage:
        return answer
    details = usage.get("prompt_tokens_details") or {}
    return answer._replace(
        server_tokens=usage["completion_tokens"],
        prompt_tokens=usage["prompt_tokens"],
        cached_tokens=details.get("cached_tokens", missing_cached),
    )
