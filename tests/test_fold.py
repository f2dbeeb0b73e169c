# SPDX-License-Identifier: Apache-2.0
"""From raw pieces to a trace, and what counts as failed."""

import json
from typing import Any

import pytest

from engines import vllm_openai
from engines.contract import Capabilities, Prompt, Sampling
from runners.load.fold import fold_exchange
from runners.load.trace import Exchange, Tick, Trace

CAPABILITIES = Capabilities("m", "1", "f", 512, True, True, True, False)


def prompt(*, forced: bool = True, max_tokens: int = 3) -> Prompt:
    return Prompt("p", 5, max_tokens, forced, Sampling())


def event(text: str, tokens: int, reason: str | None = None) -> bytes:
    value = {"choices": [{"text": text, "token_ids": [0] * tokens, "finish_reason": reason}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":null}}\n\n'
DONE = b"data: [DONE]\n\n"


def folded(*pieces: tuple[float, float, bytes], **changes: Any) -> Trace:
    exchange = Exchange(0, 0, changes.pop("prompt", prompt()), 1.0, "id", 1.0, 200, complete=True)
    for kernel, user, data in pieces:
        exchange.body += data
        exchange.reads.extend((len(exchange.body), kernel, user))
    for name, value in changes.items():
        setattr(exchange, name, value)
    return fold_exchange(
        exchange, lambda answer, data: vllm_openai.fold(answer, data, CAPABILITIES), lambda text: len(text.split())
    )


def test_timeline_counts_tokens_and_not_events_or_text() -> None:
    """An event with a token and no text, one with two tokens, then usage and the end mark."""
    trace = folded(
        (1.5, 1.6, event("", 1)),
        (2.0, 2.1, event(" a b c", 2, "length")),
        (2.2, 2.3, USAGE + DONE),
    )
    assert trace.timeline == (Tick(1.5, 1.6, 1), Tick(2.0, 2.1, 3))
    assert trace.visible_s == 2.0
    assert (trace.tokens, trace.server_tokens, trace.client_tokens) == (3, 3, 3)
    assert (trace.events, trace.coalesced) == (4, 1)
    assert trace.error is None
    assert not trace.mismatch
    assert trace.cached_tokens == 0


def test_an_event_has_the_stamp_of_its_last_byte() -> None:
    whole = event(" a b c", 3, "length") + USAGE + DONE
    trace = folded((1.5, 1.6, whole[:10]), (1.7, 1.8, whole[10:]))
    assert trace.timeline == (Tick(1.7, 1.8, 3),)


GOOD = event(" a b c", 3, "length")


@pytest.mark.parametrize(
    ("body", "changes", "message"),
    [
        (GOOD + USAGE + DONE, {}, None),
        (GOOD + USAGE, {}, "the stream ended without its end mark after 3 tokens"),
        (event(" a b c", 3), {}, "the stream ended without a finish reason after 3 tokens"),
        (event(" a b c", 3) + DONE, {}, "the stream ended without a finish reason after 3 tokens"),
        (event(" a", 1, "length") + DONE, {}, "1 tokens, though exactly 3 were asked for"),
        (event(" a", 1, "stop") + DONE, {"prompt": prompt(forced=False)}, None),
        (
            event(" a", 1, "length") + DONE,
            {"prompt": prompt(forced=False)},
            "finish reason length after 1 of 3 tokens",
        ),
        (event(" a b c", 3, "abort") + DONE, {}, "finish reason abort"),
        (b'data: {"error":{"message":"boom"}}\n\n' + DONE, {}, "boom"),
        (b'{"error":{"message":"too long"}}', {"status": 400}, "HTTP 400: too long"),
        (b'{"error":"no model"}', {"status": 404}, "HTTP 404: no model"),
        (b'{"object":"error","message":"flat"}', {"status": 400}, "HTTP 400: flat"),
        (b"<html>bad gateway</html>", {"status": 502}, "HTTP 502: <html>bad gateway</html>"),
        (b"", {"status": 503}, "HTTP 503: empty body"),
        (GOOD, {"error": "stalled: nothing received for 9.0 s"}, "stalled: nothing received for 9.0 s"),
    ],
)
def test_what_counts_as_failed(body: bytes, changes: dict[str, Any], message: str | None) -> None:
    assert folded((2.0, 2.0, body), **changes).error == message


def test_hidden_end_token_is_counted() -> None:
    """Finish reason stop: the engine counted a token that has no text."""
    body = (
        event(" a", 1) + event("", 1, "stop") + USAGE.replace(b'"completion_tokens":3', b'"completion_tokens":2') + DONE
    )
    trace = folded((2.0, 2.0, body), prompt=prompt(forced=False))
    assert (trace.tokens, trace.server_tokens, trace.client_tokens) == (2, 2, 2)
    assert not trace.mismatch


def test_text_cut_inside_a_character_has_no_client_count() -> None:
    trace = folded((2.0, 2.0, event(" a b \ufffd", 3, "length") + USAGE + DONE))
    assert trace.client_tokens is None
    assert not trace.mismatch


def test_a_wrong_count_is_a_mismatch_and_no_failure() -> None:
    trace = folded((2.0, 2.0, event(" a b", 3, "length") + USAGE + DONE))
    assert trace.error is None
    assert trace.mismatch
