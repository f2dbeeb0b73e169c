# SPDX-License-Identifier: Apache-2.0
"""`bakeoff drive`, pacing and dialects."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pandas as pd
import pytest
from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import ByteLevel

from engines.contract import Answer, Prompt, Sampling
from engines.dialects import DIALECTS, Dialect
from runners.drive_command import Drive, DriveError, run_drive
from runners.load.drive import drive
from runners.load.link import AddressError
from runners.load.load import Arrivals, Load
from runners.load.pacing import constant, gamma, poisson, replay
from runners.load.transport import check_address, transport_of
from tests.scripted_server import chunked, scripted
from tests.test_process import free_port
from tests.test_wire import encode, prompts


def first(times: Any, count: int) -> list[float]:
    return list(itertools.islice(times, count))


def test_constant_rate() -> None:
    assert first(constant(4.0), 4) == [0.0, 0.25, 0.5, 0.75]


def test_poisson_is_seeded_and_has_the_rate() -> None:
    times = first(poisson(10.0, 1), 20_000)
    assert times == first(poisson(10.0, 1), 20_000)
    assert times != first(poisson(10.0, 2), 20_000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) > 0
    assert fmean(gaps) == pytest.approx(0.1, rel=0.03)
    assert pstdev(gaps) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("burstiness", [0.25, 4.0])
def test_burstiness_is_the_shape(burstiness: float) -> None:
    """A gamma gap of shape k and mean m has deviation m / sqrt(k)."""
    times = first(gamma(10.0, burstiness, 1), 40_000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert fmean(gaps) == pytest.approx(0.1, rel=0.05)
    assert pstdev(gaps) == pytest.approx(0.1 / burstiness**0.5, rel=0.05)


def test_replay_starts_at_zero_and_wants_order() -> None:
    assert list(replay([5.0, 5.5, 7.0])) == [0.0, 0.5, 2.0]
    with pytest.raises(ValueError, match="not in order"):
        replay([2.0, 1.0])


def test_open_loop_runs_from_when_it_was_due() -> None:
    """Two requests due at once and one connection: the second waits, and its time runs all the while."""
    with scripted([[chunked(b"a")], [chunked(b"b")], [chunked(b"c")]]) as (url, _):
        load = Load(1, 0.0, 0.0, 0.0, 30.0, 60.0, 3, Arrivals(iter([0.0, 0.0, 0.05]), expected=3))
        driven = drive(load, prompts(), encode, transport_of(url, "http"))
    start_s = driven.exchanges[0].due_s
    assert [e.due_s - start_s for e in driven.exchanges] == pytest.approx([0.0, 0.0, 0.05])
    assert [bytes(e.body) for e in driven.exchanges] == [b"a", b"b", b"c"]
    assert driven.over_cap == 1
    assert driven.connects == 1
    assert all(e.sent_s is not None and e.sent_s >= e.due_s for e in driven.exchanges)


def test_no_more_requests_than_there_are_prompts() -> None:
    """In a window without end, with prompts that end."""
    with scripted([[chunked(b"a")], [chunked(b"b")], [chunked(b"c")]]) as (url, _):
        load = Load(2, 0.0, 1e9, 0.0, 30.0, 60.0, most_requests=3)
        driven = drive(load, itertools.islice(prompts(), 3), encode, transport_of(url, "http"))
    assert sorted(bytes(e.body) for e in driven.exchanges) == [b"a", b"b", b"c"]
    assert replace(load, most_requests=None).expected_requests == 24
    assert replace(load, arrivals=Arrivals(iter([]), expected=2)).expected_requests == 2


PROMPT = Prompt("hello", 1, 2, False, Sampling())
EVENTS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"choices": [{"text": " a", "finish_reason": None}]},
        {"choices": [{"text": " b", "finish_reason": "length"}]},
    ],
    "openai-chat": [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": " a"}}]},
        {"choices": [{"delta": {"reasoning": " b"}, "finish_reason": "length"}]},
    ],
    "triton-llmapi": [{"text_output": " a"}, {"text_output": " a"}, {"text_output": " a b", "finish_reason": "length"}],
    "triton-ensemble": [{"text_output": " a"}, {"text_output": ""}, {"text_output": " b"}],
    "triton-vllm": [
        {"text_output": " a", "num_output_tokens": 1, "finish_reason": "None"},
        {"text_output": " b", "num_output_tokens": 1, "finish_reason": "length"},
    ],
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS.keys())
def test_dialects(dialect: Dialect) -> None:
    answer = Answer()
    for event in EVENTS[dialect.name]:
        dialect.fold(answer, json.dumps(event).encode())
    assert (answer.text, answer.tokens, answer.error) == (" a b", 2, None)
    call = dialect.encode(PROMPT, "m", "r-1")
    body = json.loads(call.body)
    assert "hello" in json.dumps(body)
    if dialect.name.startswith("triton"):
        assert call.path == "/v2/models/m/generate_stream"
        assert body["id"] == "r-1"
    else:
        assert body["model"] == "m"


def test_usage_in_every_event_counts_the_tokens() -> None:
    event = {"choices": [{"text": " a b c"}], "usage": {"prompt_tokens": 1, "completion_tokens": 3}}
    answer = Answer()
    DIALECTS["openai"].fold(answer, event)
    assert (answer.tokens, answer.uncounted) == (3, False)


def asked(url: str, out: Path, **changes: Any) -> Drive:
    fields: dict[str, Any] = {
        "url": url,
        "dialect": "openai",
        "model": "m",
        "streams": 1,
        "requests": 2,
        "max_tokens": 2,
        "rate": None,
        "burstiness": None,
        "seed": 0,
        "spread_s": 0.0,
        "ignore_eos": False,
        "idle_limit_s": 30.0,
        "transport": "http",
        "tokenizer": None,
        "replay": None,
        "out": out,
    }
    return Drive(**{**fields, **changes})


def answered(dialect: str) -> bytes:
    events = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in EVENTS[dialect]]
    return chunked(*events, *([b"data: [DONE]\n\n"] if dialect.startswith("openai") else []))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_traces_and_summary(dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted([[answered(dialect)], [answered(dialect)]]) as (url, requests):
        run_drive(asked(url, tmp_path / "out", dialect=dialect), as_json=True)
    summary = json.loads(capsys.readouterr().out)
    assert (summary["requests"], summary["done"], summary["failed"], summary["tokens"]) == (2, 2, 0, 4)
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    frame = pd.read_parquet(tmp_path / "out" / "traces.parquet")
    sent = [r.split(b"X-Request-Id: ")[1].split(b"\r\n")[0].decode() for r in requests]
    assert list(frame["request_id"]) == sent
    assert list(frame["status"]) == [200, 200]
    assert frame["error"].isna().all()
    for _, one in frame.iterrows():
        assert list(one["event_tokens"]) == [1, 1]
        assert one["due_ns"] <= one["sent_ns"] <= one["event_ns"][0] <= one["event_ns"][1]


def test_a_dead_stub_is_all_failure_and_no_throughput(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Triton answers for a dead stub with error events inside HTTP 200, for ever."""
    answer = chunked(b'data: {"error":"Stub process \'m_0_0\' is not healthy."}\n\n')
    with scripted([[answer]] * 100) as (url, _):
        run_drive(asked(url, tmp_path / "out", dialect="triton-vllm", requests=5), as_json=True)
    summary = json.loads(capsys.readouterr().out)
    assert (summary["done"], summary["failed"], summary["tokens"]) == (0, 5, 0)
    assert summary["output_tokens_per_s"] is None
    assert summary["errors"] == {"Stub process 'm_0_0' is not healthy.": 5}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("127.0.0.1:8000", "give http://HOST:PORT or https://HOST:PORT"),
        ("http://no-such-host.invalid:1", "no-such-host.invalid cannot be resolved"),
    ],
)
def test_addresses_that_cannot_be_driven(url: str, message: str) -> None:
    with pytest.raises(AddressError, match=message):
        check_address(url, transport_of(url, "http"))


def test_a_refused_connection(tmp_path: Path) -> None:
    with pytest.raises(AddressError, match="connection refused"):
        run_drive(asked(f"http://127.0.0.1:{free_port()}", tmp_path), as_json=True)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "redirected to /x; give that address"),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "HTTP 401: empty body"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
    ],
)
def test_servers_of_another_kind(answer: bytes, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted([[answer]] * 2) as (url, _):
        run_drive(asked(url, tmp_path / "out", requests=1), as_json=True)
    (told,) = json.loads(capsys.readouterr().out)["errors"]
    assert told.startswith(error)


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.load.connection.MOST_BODY", 1 << 16)
    load = Load(1, 0.0, 0.0, 0.0, 30.0, 60.0, 2)
    with scripted([[chunked(b"x" * (1 << 20))], [chunked(b"y")]]) as (url, _):
        driven = drive(load, prompts(), encode, transport_of(url, "http"))
    assert driven.exchanges[0].error == "an answer of more than 0 MiB"
    assert driven.exchanges[0].body.length == 0
    assert bytes(driven.exchanges[1].body) == b"y"


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "traces.parquet").touch()
    with pytest.raises(DriveError, match="it holds traces already"):
        run_drive(asked("http://127.0.0.1:1", tmp_path), as_json=True)


def test_an_unknown_dialect(tmp_path: Path) -> None:
    with pytest.raises(DriveError, match="--dialect x: unknown; say one of openai,"):
        run_drive(asked("http://127.0.0.1:1", tmp_path, dialect="x"), as_json=True)


def test_a_trace_of_times_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three requests, a twentieth of a second and none apart, whatever the file's first time is."""
    (tmp_path / "times").write_text("100.0\n100.05\n100.05\n")
    with scripted([[answered("openai")]] * 3) as (url, _):
        run_drive(asked(url, tmp_path / "out", requests=9, streams=3, replay=tmp_path / "times"), as_json=True)
    assert json.loads(capsys.readouterr().out)["client"]["slot_idle_share"] is None
    due_ns = pd.read_parquet(tmp_path / "out" / "traces.parquet")["due_ns"]
    assert list(due_ns - due_ns[0]) == pytest.approx([0, 50_000_000, 50_000_000], abs=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replay": Path("no-such-file")}, "--replay no-such-file: .*one time in seconds a line is wanted"),
        ({"replay": Path("x"), "rate": 1.0}, "the trace has its own times; give one of them"),
        ({"tokenizer": Path("no-such-folder")}, "--tokenizer no-such-folder: no tokenizer.json there"),
        ({"transport": "carrier-pigeon"}, "--transport carrier-pigeon: unknown; say one of http, grpc, grpc-aio"),
        ({"transport": "grpc"}, "--transport grpc: only Triton's dialects have it; openai is HTTP's"),
    ],
)
def test_options_that_cannot_be(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DriveError, match=message):
        run_drive(asked("http://127.0.0.1:1", tmp_path, **changes), as_json=True)


def test_times_out_of_order_are_refused(tmp_path: Path) -> None:
    (tmp_path / "times").write_text("2\n1\n")
    with pytest.raises(DriveError, match="not in order; sort them"):
        run_drive(asked("http://127.0.0.1:1", tmp_path, replay=tmp_path / "times"), as_json=True)


def test_a_tokenizer_counts_where_the_server_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One byte a token: each letter is one, the accented one two, which come with its only event."""
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(ByteLevel.alphabet())}, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    events = [b"data: " + json.dumps({"text_output": text}).encode() + b"\n\n" for text in ("abc", "", "\u00e9d")]
    with scripted([[chunked(*events)]]) as (url, _):
        options = asked(url, tmp_path / "out", dialect="triton-ensemble", requests=1, tokenizer=tmp_path)
        run_drive(options, as_json=True)
    assert json.loads(capsys.readouterr().out)["tokens"] == 6
    frame = pd.read_parquet(tmp_path / "out" / "traces.parquet")
    assert list(frame["event_tokens"][0]) == [3, 3]
