# SPDX-License-Identifier: Apache-2.0
"""gRPC on our own wire, against h2 as the other side; messages of Triton's protocol."""

import itertools
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from engines.contract import Call, Prompt, Sampling
from runners.load.drive import drive
from runners.load.event_stream import events
from runners.load.grpc_calls import infer_message, outputs
from runners.load.h2c import H2cConnection, header_block, message_bytes, request_bytes
from runners.load.link import target_of
from runners.load.load import Driven, Load
from runners.load.transport import Transport
from tests.h2_server import HEADERS, Answer, Peer, h2_server
from tests.scripted_server import CLOSE, scripted

PROMPT = Prompt("p", 1, 1, True, Sampling())


def transport(url: str, message: bytes = b"ask") -> Transport:
    """Calls with one fixed message; bodies are not read."""
    target = target_of(url.replace("http://", "grpc://"), ("grpc",))

    def prepare(call: Call, request_id: str) -> bytes:
        return request_bytes(header_block(target.authority, "/s/m", request_id), message)

    return Transport("grpc", prepare, lambda clock: H2cConnection(target, clock), events)


def run(url: str, requests: int = 1, *, message: bytes = b"ask", idle_limit_s: float = 30.0) -> Driven:
    load = Load(1, 0.0, 0.0, 0.0, idle_limit_s, 60.0, requests)
    return drive(load, itertools.repeat(PROMPT), lambda p, i: Call("/", b""), transport(url, message))


def answers(*replies: Answer, window: int = 65535, message: bytes = b"ask") -> tuple[Driven, Any]:
    with h2_server(list(replies), window=window) as server:
        return run(server.url, len(replies), message=message), server


def test_a_call() -> None:
    driven, server = answers(lambda peer: peer.reply(b"one", b"two"))
    (exchange,) = driven.exchanges
    assert (bytes(exchange.body), exchange.status, exchange.error, exchange.complete) == (b"onetwo", 200, None, True)
    (call,) = server.calls
    assert call.message == b"\0\0\0\0\3ask"
    assert {k: call.headers[k] for k in (":path", ":method", "te", "content-type", "x-request-id")} == {
        ":path": "/s/m",
        ":method": "POST",
        "te": "trailers",
        "content-type": "application/grpc",
        "x-request-id": exchange.request_id,
    }
    assert exchange.sent_s is not None
    assert all(exchange.sent_s <= kernel_s <= user_s for kernel_s, user_s in zip(*read_stamps(driven), strict=True))


def read_stamps(driven: Driven) -> tuple[Any, Any]:
    return driven.exchanges[0].reads[1::3], driven.exchanges[0].reads[2::3]


def test_calls_share_a_connection() -> None:
    driven, server = answers(*[lambda peer: peer.reply(b"x")] * 5)
    assert [bytes(e.body) for e in driven.exchanges] == [b"x"] * 5
    assert (server.connections, driven.connects) == (1, 1)


@pytest.mark.parametrize("window", [1, 10, 65535])
def test_a_long_request_waits_for_the_servers_window(window: int) -> None:
    """200 kB are more than any first window, of stream or connection, takes."""
    long = bytes(200_000) if window > 10 else bytes(300)
    driven, server = answers(lambda peer: peer.reply(b"x"), window=window, message=long)
    assert driven.exchanges[0].error is None
    assert server.calls[0].message == message_bytes(long)


def test_an_answer_of_more_than_the_default_window() -> None:
    driven, _ = answers(*[lambda peer: peer.reply(*[bytes(16_000)] * 20)] * 2)
    assert [(e.error, e.body.length) for e in driven.exchanges] == [(None, 320_000)] * 2


def test_padding_is_no_content() -> None:
    driven, _ = answers(lambda peer: peer.reply(b"abc", pad=7))
    assert bytes(driven.exchanges[0].body) == b"abc"


def test_trailers_that_do_not_fit_a_frame() -> None:
    """h2 splits them into HEADERS and CONTINUATION."""
    long = [("grpc-status", "13"), ("grpc-message", "so%20sorry"), ("x-long", "y" * 40_000)]
    driven, _ = answers(lambda peer: peer.reply(trailers=long))
    assert driven.exchanges[0].error == "gRPC status 13: so sorry"


def test_a_ping_is_answered() -> None:
    def pinging(peer: Peer) -> None:
        peer.h2.ping(b"12345678")
        peer.flush()
        heard = peer.h2.receive_data(peer.socket.recv(65536))
        peer.reply(b"yes" if any(type(e).__name__ == "PingAckReceived" for e in heard) else b"no")

    driven, _ = answers(pinging)
    assert bytes(driven.exchanges[0].body) == b"yes"


def test_a_reset_stream() -> None:
    def reset(peer: Peer) -> None:
        peer.h2.send_headers(peer.stream, HEADERS)
        peer.h2.reset_stream(peer.stream, error_code=2)
        peer.flush()

    driven, _ = answers(reset, lambda peer: peer.reply(b"next"))
    assert driven.exchanges[0].error == "stream reset by the server (HTTP/2 error 2)"
    assert bytes(driven.exchanges[1].body) == b"next"


def test_a_server_that_leaves_is_followed_by_a_new_connection() -> None:
    def last(peer: Peer) -> None:
        peer.reply(b"last")
        peer.h2.close_connection()
        peer.flush()

    driven, server = answers(last, lambda peer: peer.reply(b"next"))
    assert [(bytes(e.body), e.error) for e in driven.exchanges] == [(b"last", None), (b"next", None)]
    assert server.connections == 2


def test_headers_alone_that_refuse() -> None:
    def refuse(peer: Peer) -> None:
        fields = [*HEADERS, ("grpc-status", "12"), ("grpc-message", "unknown method")]
        peer.h2.send_headers(peer.stream, fields, end_stream=True)
        peer.flush()

    driven, _ = answers(refuse)
    assert driven.exchanges[0].error == "gRPC status 12: unknown method"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n", CLOSE], "not HTTP/2"),
        ([b"\0\0\4\1\5\0\0\0\1abcd"], "not HTTP/2: no settings at the start"),
        ([CLOSE], "is this a gRPC port?"),
    ],
)
def test_servers_of_another_kind(script: list[bytes], error: str) -> None:
    with scripted([script] * 2) as (url, _):
        said = run(url).exchanges[0].error
    assert said is not None
    assert error in said


CALL = Call(
    "/v2/models/m/generate_stream",
    json.dumps({"id": "r-1", "text_input": "é", "n": 3, "flag": True, "words": ["a", "b"], "loose": 0.5}).encode(),
)


def test_a_body_becomes_tensors_by_the_models_metadata() -> None:
    """A key that names no input becomes a parameter, as in Triton's generate extension."""
    inputs = {"text_input": ("BYTES", 1), "n": ("INT32", 2), "flag": ("BOOL", 1), "words": ("BYTES", 1)}
    request = service_pb2.ModelInferRequest.FromString(infer_message(CALL, inputs))
    assert (request.model_name, request.id) == ("m", "r-1")
    tensors = {
        t.name: (t.datatype, list(t.shape), r) for t, r in zip(request.inputs, request.raw_input_contents, strict=True)
    }
    assert tensors == {
        "text_input": ("BYTES", [1], b"\2\0\0\0\xc3\xa9"),
        "n": ("INT32", [1, 1], b"\3\0\0\0"),
        "flag": ("BOOL", [1], b"\1"),
        "words": ("BYTES", [2], b"\1\0\0\0a\1\0\0\0b"),
    }
    assert request.parameters["loose"].double_param == 0.5
    assert request.parameters["triton_enable_empty_final_response"].bool_param


def response(*, final: bool = False, error: str = "", **tensors: Any) -> bytes:
    message = service_pb2.ModelStreamInferResponse(error_message=error)
    message.infer_response.parameters["triton_final_response"].bool_param = final
    for name, value in tensors.items():
        datatype = "BYTES" if isinstance(value, str) else "UINT32"
        raw = (
            struct.pack("<I", len(value.encode())) + value.encode()
            if isinstance(value, str)
            else struct.pack("<I", value)
        )
        message.infer_response.outputs.add(name=name, datatype=datatype, shape=[1])
        message.infer_response.raw_output_contents.append(raw)
    return message_bytes(message.SerializeToString())


def read(*parts: bytes) -> list[tuple[Any, int]]:
    return list(outputs(b"".join(parts), list(itertools.accumulate(map(len, parts)))))


def test_responses_become_outputs_by_name() -> None:
    assert read(response(text_output=" é", num_output_tokens=2), response(final=True)) == [
        ({"text_output": " é", "num_output_tokens": 2}, 0)
    ]


def test_the_last_response_may_have_content() -> None:
    assert read(response(text_output="a", final=True)) == [({"text_output": "a"}, 0)]


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (response(error="no such model"), "no such model"),
        (response(text_output="a", final=True)[:-1], "the stream broke off inside a message"),
        (b"\1\0\0\0\1x", "a compressed message, which was not asked for"),
    ],
)
def test_what_is_no_answer(body: bytes, event: str) -> None:
    assert next(data for data, _ in read(body)) == {"error": event}


def test_an_end_without_its_mark() -> None:
    assert read(response(text_output="a"))[-1][0] == {"error": "the stream ended without its final response"}


WHOLE = response(text_output="a") + response(text_output="bc", n=3) + response(final=True)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_any_split_gives_the_same_outputs(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    parts = [WHOLE[a:b] for a, b in itertools.pairwise(edges)]
    assert [data for data, _ in read(*parts)] == [{"text_output": "a"}, {"text_output": "bc", "n": 3}]
