# SPDX-License-Identifier: Apache-2.0
"""From raw pieces to a trace, and what counts as failed."""

import json
import re
from typing import Any

import pytest

from engines import vllm_openai
from engines.contract import Answer, Capabilities, EventData, Prompt, Sampling
from engines.dialects import DIALECTS
from runners.load.fold import Folding, fold_exchange
from runners.load.spool import Received, Spool
from runners.load.trace import Exchange, Trace
from tests.test_metrics import timeline

CAPABILITIES = Capabilities("m", "1", "f", 512, True, True, True, False)


def prompt(*, forced: bool = True, max_tokens: int = 3) -> Prompt:
    return Prompt("p", 5, max_tokens, forced, Sampling())


def event(text: str, tokens: int, reason: str | None = None) -> bytes:
    value = {"choices": [{"text": text, "token_ids": [0] * tokens, "finish_reason": reason}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":null}}\n\n'
DONE = b"data: [DONE]\n\n"


def folded(*pieces: tuple[float, float, bytes], **changes: Any) -> Trace:
    exchange = Exchange(0, 0, changes.pop("prompt", prompt()), 1.0, "id", Received(Spool()), 1.0, 200, complete=True)
    for kernel, user, data in pieces:
        exchange.body.add(data)
        exchange.reads.extend((exchange.body.length, kernel, user))
    folding = Folding(changes.pop("fold", fold), word_ends)
    for name, value in changes.items():
        setattr(exchange, name, value)
    return fold_exchange(exchange, folding)


def fold(answer: Answer, data: EventData) -> None:
    vllm_openai.fold(answer, data, CAPABILITIES)


def word_ends(text: str) -> list[int]:
    """A tokenizer whose tokens are words with what is before them."""
    return [word.end() for word in re.finditer(r"\s*\S+", text)]


def test_timeline_counts_tokens_and_not_events_or_text() -> None:
    """An event with a token and no text, one with two tokens, then usage and the end mark."""
    trace = folded(
        (1.5, 1.6, event("", 1)),
        (2.0, 2.1, event(" a b c", 2, "length")),
        (2.2, 2.3, USAGE + DONE),
    )
    assert trace.timeline == timeline((1.5, 1.6, 1), (2.0, 2.1, 3))
    assert trace.visible_s == 2.0
    assert (trace.tokens, trace.server_tokens, trace.client_tokens) == (3, 3, 3)
    assert (trace.events, trace.coalesced) == (4, 1)
    assert trace.error is None
    assert not trace.mismatch
    assert trace.cached_tokens == 0


def test_an_event_has_the_stamp_of_its_last_byte() -> None:
    whole = event(" a b c", 3, "length") + USAGE + DONE
    trace = folded((1.5, 1.6, whole[:10]), (1.7, 1.8, whole[10:]))
    assert trace.timeline == timeline((1.7, 1.8, 3))


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


def test_bytes_are_let_go_once_folded() -> None:
    exchange = Exchange(0, 0, prompt(), 1.0, "id", Received(Spool()), 1.0, 200, complete=True)
    exchange.body.add(GOOD)
    exchange.reads.extend((exchange.body.length, 1.0, 1.0))
    fold_exchange(exchange, Folding(fold))
    assert (exchange.body.length, len(exchange.reads)) == (0, 0)


def deltas(*texts: str) -> list[tuple[float, float, bytes]]:
    """Events that say nothing of tokens, a second apart."""
    bodies = [b"data: " + json.dumps({"text_output": text}).encode() + b"\n\n" for text in texts]
    return [(1.0 + i, 1.0 + i, data) for i, data in enumerate(bodies)]


def test_uncounted_events_are_counted_by_their_text() -> None:
    """Two words in one event; then half a word, which counts when the next event has completed it."""
    folded_by_text = folded(
        *deltas(" a b", " c", " dd", "dd e"), fold=DIALECTS["triton-ensemble"].fold, prompt=prompt(max_tokens=5)
    )
    assert folded_by_text.timeline == timeline((1.0, 1.0, 2), (2.0, 2.0, 3), (4.0, 4.0, 5))
    assert folded_by_text.client_tokens == folded_by_text.tokens == 5
    assert folded_by_text.visible_s == 1.0
