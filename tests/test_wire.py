# SPDX-License-Identifier: Apache-2.0
"""The socket client against scripted bytes on loopback."""

import gc
import itertools
import signal
from collections.abc import Iterator

import pytest

from engines.contract import Call, Prompt, Sampling
from runners.load.clock import CellClock
from runners.load.drive import drive
from runners.load.http1 import request_bytes
from runners.load.load import Driven, Load
from runners.load.trace import Exchange
from runners.load.transport import transport_of
from tests.scripted_server import CLOSE, Script, chunked, scripted

PROMPT = Prompt("p", 1, 1, True, Sampling())


def prompts() -> Iterator[Prompt]:
    return itertools.repeat(PROMPT)


def encode(prompt: Prompt, request_id: str) -> Call:
    return Call("/go", b'{"p":1}')


def run(scripts: list[Script], requests: int, *, level: int = 1, idle_limit_s: float = 30.0) -> Driven:
    with scripted(scripts) as (url, _):
        load = Load(level, 0.0, 0.0, 0.0, idle_limit_s, 60.0, requests)
        return drive(load, prompts(), encode, transport_of(url, "http"))


def only(scripts: list[Script], *, idle_limit_s: float = 30.0) -> Exchange:
    return run(scripts, 1, idle_limit_s=idle_limit_s).exchanges[0]


def body(exchange: Exchange) -> bytes:
    return bytes(exchange.body)


def test_the_request_is_one_piece() -> None:
    assert request_bytes(Call("/go", b"{}"), "h:1", "r-1") == (
        b"POST /go HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\n"
        b"Accept: text/event-stream\r\nX-Request-Id: r-1\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize("cut", range(1, 90, 4))
def test_a_chunked_answer_cut_anywhere(cut: int) -> None:
    whole = chunked(b"data: a\n\n", b"data: b\n\n")
    exchange = only([[whole[:cut], whole[cut:]]])
    assert (exchange.status, exchange.complete, exchange.error) == (200, True, None)
    assert body(exchange) == b"data: a\n\ndata: b\n\n"


def test_chunk_text_that_looks_like_the_end() -> None:
    exchange = only([[chunked(b"0\r\n\r\n", b"x")]])
    assert body(exchange) == b"0\r\n\r\nx"


def test_kernel_stamps_precede_our_own() -> None:
    exchange = only([[chunked(b"data: a\n\n")]])
    length, kernel_s, user_s = exchange.reads
    assert length == exchange.body.length
    assert exchange.sent_s is not None
    assert exchange.sent_s <= kernel_s <= user_s


def test_a_connection_is_kept_alive() -> None:
    driven = run([[chunked(b"a")], [chunked(b"b")], [chunked(b"c")]], 3)
    assert [body(e) for e in driven.exchanges] == [b"a", b"b", b"c"]
    assert driven.connects == 1


@pytest.mark.parametrize("script", [[chunked(b"a"), CLOSE], [chunked(b"a", head=b"Connection: close\r\n")]])
def test_a_connection_that_the_server_closes_is_replaced(script: Script) -> None:
    driven = run([script, [chunked(b"b")]], 2)
    assert [(body(e), e.error) for e in driven.exchanges] == [(b"a", None), (b"b", None)]
    assert driven.connects == 2


def test_an_answer_of_stated_length() -> None:
    exchange = only([[b"HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nno!"]])
    assert (exchange.status, body(exchange), exchange.complete) == (400, b"no!", True)


def test_an_answer_that_ends_with_its_connection() -> None:
    exchange = only([[b"HTTP/1.1 200 OK\r\n\r\nall", CLOSE]])
    assert (body(exchange), exchange.complete, exchange.error) == (b"all", True, None)


def test_a_connection_broken_in_the_middle() -> None:
    exchange = only([[chunked(b"data: a\n\n")[:-5], CLOSE]])
    assert exchange.error == "connection closed before the response was complete"


def test_what_is_not_http() -> None:
    error = only([[b"SMTP ready\r\n\r\n"]]).error
    assert error is not None
    assert error.startswith("not HTTP")


def test_compression_is_refused() -> None:
    error = only([[chunked(b"\x1f\x8b", head=b"Content-Encoding: gzip\r\n")]]).error
    assert error == "compressed answer (gzip), which was not asked for"


def test_a_stalled_stream_ends_by_the_idle_limit() -> None:
    exchange = only([[chunked(b"data: a\n\n")[:-5]]], idle_limit_s=0.2)
    assert exchange.error is not None
    assert exchange.error.startswith("stalled: nothing received for")
    assert body(exchange) == b"data: a\n\n"


def test_a_silent_answer_on_a_used_connection_is_not_asked_for_twice() -> None:
    with scripted([[chunked(b"a")], []]) as (url, requests):
        driven = drive(Load(1, 0.0, 0.0, 0.0, 0.2, 60.0, 2), prompts(), encode, transport_of(url, "http"))
    assert len(requests) == 2
    assert driven.exchanges[1].error is not None
    assert driven.exchanges[1].error.startswith("stalled")


def test_a_dead_server_is_given_up() -> None:
    load = Load(2, 0.0, 60.0, 11.0, 30.0, 60.0)
    with scripted([]) as (url, _):
        pass
    driven = drive(load, prompts(), encode, transport_of(url, "http"))
    assert driven.gave_up
    assert {e.error for e in driven.exchanges} == {"connection refused"}
    assert len(driven.exchanges) <= load.most_failures + 1


def test_slots_share_one_sequence_and_the_window_opens_when_all_have_finished_one() -> None:
    driven = run([[chunked(b"x")]] * 40, 40, level=4)
    assert [e.index for e in driven.exchanges] == list(range(40))
    assert {e.slot for e in driven.exchanges} == {0, 1, 2, 3}
    first_ends = [next(e.end_s for e in driven.exchanges if e.slot == slot) for slot in range(4)]
    assert driven.steady_s is not None
    assert driven.steady_s >= max(end for end in first_ends if end is not None)


def test_a_window_lasts_as_long_as_was_asked() -> None:
    with scripted([[chunked(b"x")]] * 100_000) as (url, _):
        driven = drive(Load(1, 0.0, 0.2, 3.0, 30.0, 60.0), prompts(), encode, transport_of(url, "http"))
    assert driven.steady_s is not None
    assert driven.end_s >= driven.steady_s + 0.2


def test_the_collector_is_back_on() -> None:
    only([[chunked(b"x")]])
    assert gc.isenabled()


class Interrupting:
    """Rubbish whose finalizer meets a Ctrl-C."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_during_the_collection_is_not_lost() -> None:
    gc.disable()
    Interrupting()
    with pytest.raises(KeyboardInterrupt):
        only([[chunked(b"x")]])
    gc.enable()


def test_wall_stamps_map_onto_the_cell() -> None:
    clock = CellClock(start_ns=5_000_000_000, wall_offset_ns=1_000_000_000_000)
    assert clock.of_wall(1_006_500_000_000) == 1.5
