# SPDX-License-Identifier: Apache-2.0
"""The null server and the check of the client against it."""

from itertools import repeat

import pytest

from engines.contract import Call, Prompt, Sampling
from engines.dialects import DIALECTS
from runners.load.drive import drive
from runners.load.fold import Folding, fold_all
from runners.load.load import Load
from runners.load.transport import transport_of
from runners.self_check import check_client, null_server
from tests.test_fold import word_ends


@pytest.mark.parametrize("tokens", [1, 2, 17])
def test_the_null_server_answers_like_an_engine(tokens: int) -> None:
    dialect = DIALECTS["openai"]
    prompt = Prompt("word", 1, tokens, True, Sampling())

    def encode(wanted: Prompt, request_id: str) -> Call:
        return dialect.encode(wanted, "null", request_id)

    with null_server(0.001) as url:
        driven = drive(Load(2, 0.0, 0.0, 0.0, 30.0, 60.0, 6), repeat(prompt), encode, transport_of(url, "http"))
    traces = fold_all(driven, Folding(dialect.fold, word_ends))
    assert [t.error for t in traces] == [None] * 6
    assert {(t.tokens, t.server_tokens, t.client_tokens) for t in traces} == {(tokens, tokens, tokens)}
    assert driven.connects == 2


def test_the_check_asks_for_half_as_much_again() -> None:
    found = check_client(2, 40.0)
    assert found.asked_events_per_s == 60.0
    assert 0 < found.reached_events_per_s <= 60.0 * 1.001
    assert found.client.kernel_stamps_share == 1.0
    assert found.client.slot_idle_share is not None
