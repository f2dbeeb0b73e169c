# SPDX-License-Identifier: Apache-2.0
"""Bytes of answers, in memory and in the spool file."""

import pytest

from runners.load import spool
from runners.load.spool import Received, Spool


def test_finished_answers_go_to_the_file_above_the_limit() -> None:
    store = Spool(limit=5)
    answers = [Received(store) for _ in range(3)]
    for answer, data in zip(answers, (b"abc", b"defg", b"hi"), strict=True):
        answer.add(data)
        store.keep(answer)
    assert [a.in_memory for a in answers] == [3, 0, 2]
    assert [bytes(a) for a in answers] == [b"abc", b"defg", b"hi"]
    store.close()


def test_a_long_answer_is_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "PIECE", 4)
    store = Spool()
    long, other = Received(store), Received(store)
    for data in (b"0123", b"45", b"6"):
        long.add(data)
        other.add(data * 2)
    assert (long.length, long.in_memory) == (7, 1)
    assert bytes(long) == b"0123456"
    assert bytes(other) == b"01230123454566"
    store.close()
