# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, cut anywhere."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.event_stream import events


def parsed(*parts: bytes) -> list[bytes]:
    ends = list(itertools.accumulate(len(part) for part in parts))
    return [data for data, _ in events(b"".join(parts), ends)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b": keep-alive\n\ndata: a\n\n", ["a"]),
        (b"event: x\nid: 1\ndata: a\n\n", ["a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: a\n\ndata: unfinished\n", ["a"]),
        (b"data: a\n\ndata: unfinished", ["a"]),
        (b"data\n\n", [""]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", ["a", "b"]),
        ('data: {"t":"\u2028\u2029\u0085"}\n\n'.encode(), ['{"t":"\u2028\u2029\u0085"}']),
        (b"", []),
    ],
)
def test_streams(stream: bytes, expected: list[str]) -> None:
    assert parsed(stream) == [data.encode() for data in expected]


def test_the_stamp_is_that_of_the_read_that_completed_the_event() -> None:
    body = b"data: a\n\ndata: b\n\ndata: c\n\n"
    assert list(events(body, [8.0, 18.0, 20.0, 27.0])) == [(b"a", 1), (b"b", 1), (b"c", 3)]
    assert list(events(body.replace(b"\n", b"\r\n"), [9.0, 33.0])) == [(b"a", 1), (b"b", 1), (b"c", 1)]


TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))


@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
def test_any_split_gives_the_same_events(texts: list[str], end: bytes, data: st.DataObject) -> None:
    stream = b"".join(b"data: " + text.encode() + end + end for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    parts = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert parsed(*parts) == parsed(stream) == [text.encode() for text in texts]
