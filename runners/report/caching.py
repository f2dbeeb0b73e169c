# SPDX-License-Identifier: Apache-2.0
"""The prefix cache's hit rate: as measured, as the workload's construction implies it, and what to say of both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engines.contract import Counters, LedgerRow
from engines.ledger_rows import BLOCK_SIZE, OFF, PREFIX_CACHE, plain
from runners.load.trace import Trace
from runners.report.metrics import difference, share, sum_of
from runners.report.record import Flag

POINTS: Final = 0.02
"""Hit rates that lie closer together than this are taken to be the same."""
BY_CHANCE: Final = 1
"""Tokens behind a common opening that two prompts may have in common without having been made to."""


@dataclass(frozen=True)
class PrefixCache:
    """What an engine says of its prefix cache: whether it is on, the tokens of a block, None if not read back; and how
    many matching blocks of a prompt are computed all the same."""

    on: bool | None = None
    block: int | None = None
    spared: int = 0


NOT_READ_BACK: Final = PrefixCache()


def prefix_cache(ledger: Sequence[LedgerRow], spared_blocks: int) -> PrefixCache:
    """The prefix cache by an engine's ledger, and by what it is able to."""
    values = {row.name: plain(row.name, row.value, {}) for row in ledger if row.value is not None}
    on, block = values.get(PREFIX_CACHE), values.get(BLOCK_SIZE)
    return PrefixCache(
        {"on": True, OFF: False}.get(on or ""), int(block) if block and block.isdigit() else None, spared_blocks
    )


@dataclass(frozen=True)
class HitRates:
    """Shares of the prompt tokens. `expected` is None where the block size is not known, or the prompts' construction
    says nothing; `most` is what no cache can exceed that has seen only what was sent to it on purpose."""

    measured: float | None
    expected: float | None
    most: float | None


def hit_rates(
    inside: Sequence[Trace], done: Sequence[Trace], before: Counters, after: Counters, cache: PrefixCache
) -> HitRates:
    """Cached / prompt tokens: per request over the window, else by counters over the whole cell, and the construction
    of the same requests. Where the engine does not count prompt tokens, the client's count stands for it."""
    cached, prompts = sum_of(inside, lambda t: t.cached_tokens), sum_of(inside, _prompt_tokens)
    if cached is not None and prompts is not None:
        return HitRates(share(cached, prompts), expected_rate(inside, cache), _most(inside, cache))
    measured = share(
        difference(after.cached_tokens, before.cached_tokens),
        difference(after.prompt_tokens, before.prompt_tokens),
    )
    return HitRates(measured, expected_rate(done, cache), _most(done, cache))


def _prompt_tokens(trace: Trace) -> int:
    return trace.input_tokens if trace.prompt_tokens is None else trace.prompt_tokens


def expected_rate(traces: Sequence[Trace], cache: PrefixCache) -> float | None:
    """What a cache of whole blocks that forgets nothing takes from what was sent before / prompt tokens."""
    if cache.on is False:
        return 0.0
    return None if cache.block is None else _rate(traces, cache.block, 0, cache.spared)


def _most(traces: Sequence[Trace], cache: PrefixCache) -> float | None:
    """Without a known block size, of blocks of one token."""
    return 0.0 if cache.on is False else _rate(traces, cache.block or 1, BY_CHANCE, 0)


def _rate(traces: Sequence[Trace], block: int, more: int, spared: int) -> float | None:
    reused = sum_of(traces, lambda t: _whole_blocks(t, block, more, spared))
    return None if reused is None else share(reused, sum_of(traces, _prompt_tokens))


def _whole_blocks(trace: Trace, block: int, more: int, spared: int) -> int | None:
    """Reused tokens in full blocks. Special tokens that the engine adds come first; the last token of a prompt is
    always computed, so that its block is, too."""
    if trace.reused_tokens is None:
        return None
    tokens = _prompt_tokens(trace)
    reused = trace.reused_tokens + max(0, tokens - trace.input_tokens) + more
    return max(0, min(reused, tokens - 1) // block - spared) * block


def cache_flags(rates: HitRates) -> list[Flag]:
    """A cache that gave what it was never sent voids the cell: something else had filled it. One that gave another
    share than constructed is told: it was too small, say, or forgot."""
    measured, expected, most = rates.measured, rates.expected, rates.most
    if measured is None:
        return []
    if most is not None and measured > most + POINTS:
        detail = f"{measured:.1%} of the prompt tokens came from the cache, {most:.1%} were sent before on purpose"
        return [Flag(code="cache leak", detail=detail, no_verdict=True)]
    if expected is not None and abs(measured - expected) > POINTS:
        detail = f"{measured:.1%} measured, {expected:.1%} by the prompts and the engine's block size"
        return [Flag(code="cache hits not as constructed", detail=detail)]
    return []
