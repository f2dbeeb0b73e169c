# SPDX-License-Identifier: Apache-2.0
"""Folds the raw bytes of an exchange into a `Trace`, and decides whether the request succeeded."""

import json
import math
from collections.abc import Callable

from engines.contract import Answer
from engines.event_json import error_text
from runners.load.event_stream import events
from runners.load.trace import Exchange, Tick, Trace

BAD_REASONS = ("abort", "error", "cancelled")


def fold_exchange(
    exchange: Exchange,
    fold: Callable[[Answer, str], Answer],
    count_tokens: Callable[[str], int | None],
    *,
    needs_reason: bool = True,
) -> Trace:
    """One request's timeline, counts and verdict.

    `fold` is an engine's; `count_tokens` counts by the checkpoint's tokenizer, None without one. Where a
    protocol has no finish reasons (`needs_reason` is False), the end of the body is the end.
    """
    answer = Answer()
    timeline: list[Tick] = []
    visible_s: float | None = None
    number = coalesced = 0
    last_read = -1
    ends, kernel_s, user_s = (exchange.reads[i::3] for i in range(3))
    for data, read in events(bytes(exchange.body), ends) if exchange.status == 200 else ():
        number += 1
        coalesced += read == last_read
        last_read = read
        tokens_before, answer = answer.tokens, fold(answer, data)
        if answer.tokens > tokens_before or (visible_s is None and answer.text):
            tick = Tick(None if math.isnan(kernel_s[read]) else kernel_s[read], user_s[read], answer.tokens)
            if answer.tokens > tokens_before:
                timeline.append(tick)
            if visible_s is None and answer.text:
                visible_s = tick.at_s
    return Trace(
        index=exchange.index,
        slot=exchange.slot,
        request_id=exchange.request_id,
        due_s=exchange.due_s,
        sent_s=exchange.sent_s,
        end_s=exchange.end_s if exchange.end_s is not None else exchange.last_activity_s,
        input_tokens=exchange.prompt.input_tokens,
        max_tokens=exchange.prompt.max_tokens,
        timeline=tuple(timeline),
        visible_s=visible_s,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        server_tokens=answer.server_tokens,
        client_tokens=_client_tokens(answer, count_tokens),
        finish_reason=answer.finish_reason,
        error=_failure(exchange, answer, needs_reason=needs_reason),
        events=number,
        coalesced=coalesced,
    )


def _client_tokens(answer: Answer, count_tokens: Callable[[str], int | None]) -> int | None:
    """Tokens of the final text; one more where the answer ended by a token that is not shown.

    Text with a replacement character was cut inside a character: it has no count of its own.
    """
    if not answer.text or "\ufffd" in answer.text:
        return None
    counted = count_tokens(answer.text)
    return None if counted is None else counted + (answer.finish_reason == "stop")


def _failure(exchange: Exchange, answer: Answer, *, needs_reason: bool) -> str | None:
    """Why the request failed, or None. HTTP 200 proves nothing."""
    if exchange.error:
        return exchange.error
    if exchange.status != 200:
        return f"HTTP {exchange.status}: {_refusal(exchange)}"
    if answer.error:
        return answer.error
    if answer.tokens == 0 and not needs_reason:
        return "the stream ended without a token"
    if answer.finish_reason is None and needs_reason:
        return f"the stream ended without a finish reason after {answer.tokens} tokens"
    if not answer.ended:
        return f"the stream ended without its end mark after {answer.tokens} tokens"
    if answer.finish_reason in BAD_REASONS:
        return f"finish reason {answer.finish_reason}"
    return _wrong_length(exchange, answer)


def _wrong_length(exchange: Exchange, answer: Answer) -> str | None:
    wanted = exchange.prompt.max_tokens
    tokens = answer.server_tokens if answer.server_tokens is not None else answer.tokens
    if exchange.prompt.forced and tokens != wanted:
        return f"{tokens} tokens, though exactly {wanted} were asked for"
    if answer.finish_reason == "length" and tokens < wanted:
        return f"finish reason length after {tokens} of {wanted} tokens"
    return None


def _refusal(exchange: Exchange) -> str:
    body = exchange.body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(body.removeprefix("data:"))
    except ValueError:
        return body[:300] or "empty body"
    if isinstance(value, dict) and value.get("error"):
        return error_text(value["error"])[:300]
    return error_text(value)[:300]
