# SPDX-License-Identifier: Apache-2.0
"""Servers that must not be measured, played back by an HTTP server of llama.cpp's shape."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engines import llamacpp_openai
from engines.contract import Call, Counters, Prompt, Sampling
from engines.launch import Checkpoint
from runners.launch.server import Server
from runners.load.load import Load
from runners.load.rendering import Rendering
from runners.load.scrape import settled_counters
from runners.load.transport import transport_of
from runners.own_rows import Given
from runners.verify import VerifyError, verify
from runners.warm_up import WarmUpError, warm_up

CANARY = Prompt("p", 5, 3, True, Sampling())
GIVEN = Given(Checkpoint("/m", "ab" * 32, None, None), (), None)
GOOD_EVENT = {
    "choices": [{"text": " a b c", "finish_reason": "length"}],
    "timings": {"predicted_n": 3},
    "usage": {"completion_tokens": 3, "prompt_tokens": 6},
}


@contextmanager
def serving(
    *, model: str = "mine", context: int = 64, event: object = GOOD_EVENT, pages: list[str]
) -> Iterator[Server]:
    """`pages` are the metrics pages in turn; the last is repeated."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            props = {"default_generation_settings": {"n_ctx": context}}
            page = pages.pop(0) if len(pages) > 1 else pages[0]
            self.say(
                {"/v1/models": json.dumps({"data": [{"id": model}]}), "/props": json.dumps(props)}.get(self.path, page)
            )

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.say(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")

        def say(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield Server(url, url, None, 1.0, lambda: True, lambda: "engine xllamacpp 1.2 speculation NONE\n")
    finally:
        server.shutdown()
        server.server_close()


QUIET = "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n"
BUSY = "llamacpp:requests_processing 2\nllamacpp:requests_deferred 0\n"
ENGINE = llamacpp_openai.ENGINE


def test_a_good_server(rendering: Rendering) -> None:
    with serving(pages=[QUIET]) as server:
        verified = verify(server, transport_of(server.url, "http"), ENGINE, "mine", 64, CANARY, rendering, given=GIVEN)
    assert verified.capabilities.model == "mine"
    assert verified.canary.tokens == 3
    assert {row.name: row.value for row in verified.ledger}["special tokens added"] == "1: a BOS"


def test_another_tokenizer_shows_in_the_counts_of_several_prompts(rendering: Rendering) -> None:
    """The server says 6 tokens to each; by the checkpoint's tokenizer they are 5, 5 and 9."""
    others = [replace(CANARY, input_tokens=tokens, max_tokens=1, forced=False) for tokens in (5, 9)]
    with serving(pages=[QUIET]) as server:
        transport = transport_of(server.url, "http")
        verified = verify(server, transport, ENGINE, "mine", 64, CANARY, rendering, given=GIVEN, others=others)
    (row,) = [row for row in verified.ledger if row.name == "special tokens added"]
    assert row.value == "-3 to 1: not the checkpoint's tokenizer"
    assert row.source == "prompt tokens of 3 real requests"


def test_another_server_on_the_port(rendering: Rendering) -> None:
    with (
        serving(model="theirs", pages=[QUIET]) as server,
        pytest.raises(VerifyError, match="serves 'theirs', not what was started there"),
    ):
        verify(server, transport_of(server.url, "http"), ENGINE, "mine", 64, CANARY, rendering, given=GIVEN)


def test_another_length_in_force(rendering: Rendering) -> None:
    with (
        serving(context=32, pages=[QUIET]) as server,
        pytest.raises(VerifyError, match="maximum length is 32 in the engine, 64 in the config"),
    ):
        verify(server, transport_of(server.url, "http"), ENGINE, "mine", 64, CANARY, rendering, given=GIVEN)


def test_a_canary_that_fails(rendering: Rendering) -> None:
    with (
        serving(event={"error": {"message": "Stub process is not healthy"}}, pages=[QUIET]) as server,
        pytest.raises(VerifyError, match="a first real request failed: Stub process is not healthy"),
    ):
        verify(server, transport_of(server.url, "http"), ENGINE, "mine", 64, CANARY, rendering, given=GIVEN)


def test_settling_waits_until_nothing_runs() -> None:
    pages = [BUSY, BUSY, QUIET + "llamacpp:tokens_predicted_total 7\n", QUIET + "llamacpp:tokens_predicted_total 8\n"]
    with serving(pages=pages) as server:
        found = settled_counters(server, ENGINE, "mine", None, sleep=lambda _: None)
    assert found == Counters(running=0.0, waiting=0.0, generated_tokens=8.0)


def test_warming_up_against_refusals() -> None:
    load = Load(1, 0.0, 1.0, 11.0, 5.0, 5.0)
    url = "http://127.0.0.1:9"
    with pytest.raises(WarmUpError, match="every warm-up request failed; the first: connection refused"):
        warm_up(load, iter(lambda: CANARY, None), lambda _, __: Call("/", b"{}"), transport_of(url, "http"))


def test_a_cache_of_another_size_is_refused(rendering: Rendering) -> None:
    """4 slots of 64 tokens, by the log: 256, which may be missed by 1%."""
    log = "initializing, n_slots = 4, n_ctx_slot = 64, kv_unified = 'false'\nengine xllamacpp 1.2 speculation NONE\n"
    for wanted, told in (
        (258, None),
        (300, "the KV cache holds 256 tokens in the engine, knobs.kv_cache_tokens says 300"),
    ):
        with serving(pages=[QUIET]) as started:
            server = replace(started, log=lambda: log)
            given = replace(GIVEN, kv_cache_tokens=wanted)
            refused = pytest.raises(VerifyError, match=told) if told else nullcontext()
            with refused:
                verify(server, transport_of(server.url, "http"), ENGINE, "mine", 64, CANARY, rendering, given=given)
