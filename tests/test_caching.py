# SPDX-License-Identifier: Apache-2.0
"""Hit rates by construction, on requests made by hand."""

from collections.abc import Sequence
from dataclasses import replace

from engines.contract import Counters, LedgerRow, RowKind
from runners.load.trace import Trace
from runners.report.caching import HitRates, PrefixCache, cache_flags, hit_rates, prefix_cache
from tests.test_metrics import TRACE

NOTHING = Counters()


def request(prompt: int, reused: int | None, cached: int | None = None, special: int = 0) -> Trace:
    """Tokens of the rendered prompt, of its known beginning and from the cache; special ones are the engine's."""
    return replace(
        TRACE, input_tokens=prompt, prompt_tokens=prompt + special, reused_tokens=reused, cached_tokens=cached
    )


def rates(traces: Sequence[Trace], block: int | None = 16, on: bool | None = True) -> HitRates:
    return hit_rates(traces, traces, NOTHING, NOTHING, PrefixCache(on, block))


def test_whole_blocks_of_what_was_sent_before() -> None:
    """70 tokens are 4 blocks of 16, and 7 are none: 64 of 100 + 60 tokens."""
    found = rates([request(100, 70, 64), request(60, 7, 0)])
    assert (found.measured, found.expected) == (0.4, 0.4)
    assert cache_flags(found) == []


def test_the_block_of_the_last_token_is_computed() -> None:
    """A prompt of 64 tokens that is known whole: 3 of its 4 blocks. One more token, and all 4."""
    assert rates([request(64, 64, 48)]).expected == 48 / 64
    assert rates([request(65, 65, 64)]).expected == 64 / 65


def test_special_tokens_of_the_engine_come_first() -> None:
    """47 known tokens and the engine's BOS fill 3 blocks."""
    assert rates([request(63, 47, 48, special=1)]).expected == 48 / 64


def test_a_block_that_is_computed_all_the_same() -> None:
    """EAGLE's heads in vLLM: of 4 matching blocks 3, of one or none none."""
    traces = [request(100, 70, 48), request(60, 20, 0), request(60, 7, 0)]
    found = hit_rates(traces, traces, NOTHING, NOTHING, PrefixCache(True, 16, spared=1))
    assert (found.measured, found.expected) == (48 / 220, 48 / 220)


def test_a_cache_that_is_off_gives_nothing() -> None:
    found = rates([request(100, 70, 64)], on=False)
    assert (found.expected, found.most) == (0.0, 0.0)
    assert [flag.code for flag in cache_flags(found)] == ["cache leak"]


def test_a_cold_cell_with_hits_has_no_verdict() -> None:
    """The template's own 7 tokens explain nothing, 15 and one more by chance explain a block."""
    leak = cache_flags(rates([request(100, 7, 16)]))
    assert [(flag.code, flag.no_verdict) for flag in leak] == [("cache leak", True)]
    assert leak[0].detail == "16.0% of the prompt tokens came from the cache, 0.0% were sent before on purpose"
    assert [flag.code for flag in cache_flags(rates([request(100, 15, 16)]))] == ["cache hits not as constructed"]


def test_fewer_hits_than_constructed_are_told() -> None:
    """Two points are let pass."""
    told = cache_flags(rates([request(100, 64, 48)]))
    assert [(flag.code, flag.no_verdict) for flag in told] == [("cache hits not as constructed", False)]
    assert told[0].detail == "48.0% measured, 64.0% by the prompts and the engine's block size"
    assert cache_flags(rates([request(1000, 64, 48)])) == []


def test_counters_cover_the_whole_cell() -> None:
    """Where requests do not tell, the construction of all requests stands beside the counters."""
    inside, done = [request(100, 64)], [request(100, 64), request(100, 0)]
    before, after = Counters(cached_tokens=10, prompt_tokens=50), Counters(cached_tokens=74, prompt_tokens=250)
    found = hit_rates(inside, done, before, after, PrefixCache(True, 16))
    assert (found.measured, found.expected) == (0.32, 0.32)


def test_what_is_not_known_is_not_expected() -> None:
    """Without a block size there is a bound, of single tokens; without a construction there is none."""
    found = rates([request(100, 29, 29)], block=None)
    assert (found.expected, found.most) == (None, 0.3)
    assert rates([request(100, None, 64)]) == HitRates(0.64, None, None)


def row(name: str, value: str | None) -> LedgerRow:
    return LedgerRow(name, value, "log", RowKind.IDENTITY)


def test_the_ledger_says_what_is_on() -> None:
    vllm = (row("prefix cache", "True"), row("block size (tokens)", "32"))
    assert prefix_cache(vllm, 1) == PrefixCache(True, 32, 1)
    off = (row("prefix cache", "false"), row("block size (tokens)", None))
    assert prefix_cache(off, 0) == PrefixCache(False, None)
    assert prefix_cache((), 0) == PrefixCache(None, None)
