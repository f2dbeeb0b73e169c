# SPDX-License-Identifier: Apache-2.0
"""Folds the raw bytes of an exchange into a `Trace`, and decides whether the request succeeded.

Where events do not say how many tokens they add, the text does: the final text is tokenized once, and an
event has all tokens that end within the text so far. A token whose text is not whole yet counts with the
event that completes it, so unstable text never counts twice.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engines.contract import Answer, EventData
from engines.event_json import error_text
from runners.load.event_stream import events
from runners.load.load import Driven
from runners.load.trace import Exchange, Timeline, Trace
from runners.load.transport import Split

BAD_REASONS = ("abort", "error", "cancelled")
MOST_REFUSAL = 1 << 16


Fold = Callable[[Answer, EventData], None]
"""An engine's `fold`, its capabilities given."""
TokenEnds = Callable[[str], Sequence[int]]
"""Where each token of a text ends, in characters."""


def ends_by(tokenizer: Any) -> TokenEnds:
    """By a tokenizer of the `tokenizers` package, special tokens left out."""
    return lambda text: [end for _, end in tokenizer.encode(text, add_special_tokens=False).offsets]


@dataclass(frozen=True)
class Folding:
    """How answers are read. `token_ends` is the checkpoint's tokenizer, None without one. Where a
    protocol has no finish reasons (`needs_reason` is False), the end of the body is the end.
    """

    fold: Fold
    token_ends: TokenEnds | None = None
    needs_reason: bool = True
    keeps_text: bool = False


def fold_all(driven: Driven, folding: Folding) -> list[Trace]:
    """All requests of a cell, whose bytes are let go of one after the other."""
    try:
        return [fold_exchange(exchange, folding, driven.split) for exchange in driven.exchanges]
    finally:
        driven.spool.close()


def fold_exchange(exchange: Exchange, folding: Folding, split: Split = events) -> Trace:
    """One request's timeline, counts and verdict; the exchange lets go of its bytes."""
    answer, timeline, body = Answer(), Timeline(), bytes(exchange.body)
    fold, can_count = folding.fold, folding.token_ends is not None
    visible_s: float | None = None
    number = coalesced = counted = 0
    last_read = -1
    ends, kernel_s, user_s = (exchange.reads[i::3] for i in range(3))
    unstamped = sum(map(math.isnan, kernel_s))
    at_s = [u if math.isnan(k) else k for k, u in zip(kernel_s, user_s, strict=True)] if unstamped else kernel_s
    for data, read in split(body, ends) if exchange.status == 200 else ():
        number += 1
        coalesced += read == last_read
        last_read = read
        fold(answer, data)
        count = len(answer.text) if can_count and answer.uncounted else answer.tokens
        if count > counted:
            counted = count
            timeline.add(at_s[read], user_s[read], count)
        if visible_s is None and answer.text:
            visible_s = at_s[read]
    token_ends = _token_ends(answer, folding.token_ends)
    if answer.uncounted and token_ends is not None:
        timeline = _by_text(timeline, token_ends)
    trace = Trace(
        index=exchange.index,
        slot=exchange.slot,
        request_id=exchange.request_id,
        due_s=exchange.due_s,
        sent_s=exchange.sent_s,
        end_s=exchange.end_s if exchange.end_s is not None else exchange.last_activity_s,
        input_tokens=exchange.prompt.input_tokens,
        max_tokens=exchange.prompt.max_tokens,
        timeline=timeline,
        visible_s=visible_s,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        drafted_tokens=answer.drafted_tokens,
        accepted_tokens=answer.accepted_tokens,
        engine_times=answer.engine_times,
        server_tokens=answer.server_tokens,
        client_tokens=None if token_ends is None else len(token_ends),
        finish_reason=answer.finish_reason,
        status=exchange.status,
        error=_failure(exchange, answer, body, needs_reason=folding.needs_reason),
        events=number,
        coalesced=coalesced,
        received_bytes=len(body),
        reads=len(ends),
        stamped_reads=len(ends) - unstamped,
        text=answer.text if folding.keeps_text else None,
        reused_tokens=exchange.prompt.reused_tokens,
    )
    exchange.let_go()
    return trace


def _token_ends(answer: Answer, token_ends: TokenEnds | None) -> list[int] | None:
    """Ends of the final text's tokens, one more where the answer ended by a token that is not shown.

    Text with a replacement character was cut inside a character: it has no tokens of its own.
    """
    if token_ends is None or not answer.text or "\ufffd" in answer.text:
        return None
    ends = list(token_ends(answer.text))
    return [*ends, len(answer.text)] if answer.finish_reason == "stop" else ends


def _by_text(timeline: Timeline, token_ends: Sequence[int]) -> Timeline:
    """From a timeline of characters to one of tokens; events that completed none fall out."""
    counted = Timeline()
    for at_s, user_s, characters in zip(timeline.at_s, timeline.user_s, timeline.tokens, strict=True):
        tokens = bisect_right(token_ends, characters)
        if tokens > (counted.tokens[-1] if counted else 0):
            counted.add(at_s, user_s, tokens)
    return counted


def _failure(exchange: Exchange, answer: Answer, body: bytes, *, needs_reason: bool) -> str | None:
    """Why the request failed, or None. HTTP 200 proves nothing."""
    if exchange.error:
        return exchange.error
    if exchange.status != 200:
        return f"HTTP {exchange.status}: {_refusal(body)}"
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
    """Events that were taken for tokens prove nothing here: one may hold several."""
    wanted = exchange.prompt.max_tokens
    tokens = answer.server_tokens if answer.server_tokens is not None else answer.tokens
    if exchange.prompt.forced and tokens != wanted:
        return f"{tokens} tokens, though exactly {wanted} were asked for"
    if answer.finish_reason == "length" and tokens < wanted and not answer.uncounted:
        return f"finish reason length after {tokens} of {wanted} tokens"
    return None


def _refusal(body: bytes) -> str:
    text = body[:MOST_REFUSAL].decode("utf-8", "replace").strip()
    try:
        value = json.loads(text.removeprefix("data:"))
    except ValueError:
        return text[:300] or "empty body"
    if isinstance(value, dict) and value.get("error"):
        return error_text(value["error"])[:300]
    return error_text(value)[:300]
