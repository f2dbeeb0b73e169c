# SPDX-License-Identifier: Apache-2.0
"""Establishes that the server which answers is the one that was asked for, and what it can do."""

from collections.abc import Sequence
from dataclasses import dataclass

from engines.contract import Capabilities, Engine, LedgerRow, Prompt, Reading
from engines.ledger_rows import CAPACITY_TOLERANCE, KV_CAPACITY, same
from runners.errors import MendableError
from runners.launch.server import Server
from runners.load.drive import drive
from runners.load.fold import Folding, ends_by, fold_all
from runners.load.load import one_by_one
from runners.load.rendering import Rendering
from runners.load.scrape import ask, tried
from runners.load.trace import Trace
from runners.load.transport import Transport
from runners.own_rows import Given, with_own_rows

CANARY_LIMIT_S = 300.0
"""The first request may compile kernels."""


class VerifyError(MendableError):
    """A server that must not be measured; the message says what is wrong with it."""


@dataclass(frozen=True)
class Verified:
    """What the server is, by its own account and by one real request."""

    capabilities: Capabilities
    ledger: tuple[LedgerRow, ...]
    canary: Trace


def verify(
    server: Server,
    transport: Transport,
    engine: Engine,
    served_name: str | None,
    max_model_len: int,
    canary: Prompt,
    rendering: Rendering,
    *,
    given: Given,
    others: Sequence[Prompt] = (),
    first: bool = True,
) -> Verified:
    """Probe, send one real request, compare. Raises VerifyError.

    `served_name` is the name that only our launch carries; None where somebody else started it. `given` is what the
    contender was started with. `others` are asked for the engine's counts of their tokens. `first`: the contender has
    not lived before, so that what never changes between its lives is found out too.
    Health pages are not enough: a dead engine behind a front end answers them too.
    """
    reading = _reading(server, engine, served_name, canary, first=first)
    capabilities = reading.capabilities
    if served_name is not None and capabilities.model != served_name:
        raise VerifyError(
            f"the server at {server.url} serves {capabilities.model!r}, not what was started there; "
            "another server holds the port"
        )
    if reading.refusals:
        raise VerifyError("\n".join(reading.refusals))
    if canary.forced and not capabilities.forces_length:
        raise VerifyError("this engine cannot be forced to a length of the answer; set output_length: natural")
    if capabilities.max_model_len not in (None, max_model_len):
        raise VerifyError(
            f"maximum length is {capabilities.max_model_len} in the engine, {max_model_len} in the config"
        )
    _check_capacity(reading.ledger, given.kv_cache_tokens)
    trace = ask_once(transport, engine, capabilities, rendering, canary, CANARY_LIMIT_S)
    if trace.error:
        raise VerifyError(f"a first real request failed: {trace.error}")
    telling = () if trace.prompt_tokens is None else others
    counted = [ask_once(transport, engine, capabilities, rendering, one, CANARY_LIMIT_S) for one in telling]
    own = with_own_rows(reading, given, canary, trace, counted, rendering.bos or None)
    return Verified(capabilities, own, trace)


def _reading(server: Server, engine: Engine, served_name: str | None, canary: Prompt, *, first: bool) -> Reading:
    """What the server says of itself, and what the engine's trials show of it, under the name that it says."""
    try:
        reading = ask(server, engine, served_name or "")
        if served_name is not None and reading.capabilities.model != served_name:
            return reading
        name = served_name or reading.capabilities.model
        trials = tried(server, engine, name, canary, first=first)
        return ask(server, engine, name, trials) if trials else reading
    except ValueError as error:
        raise VerifyError(f"the server's answers cannot be read: {error}") from None


def ask_once(
    transport: Transport,
    engine: Engine,
    capabilities: Capabilities,
    rendering: Rendering,
    prompt: Prompt,
    limit_s: float,
) -> Trace:
    """One real request, the canary; given up after `limit_s`."""
    load = one_by_one(1, limit_s, limit_s)
    driven = drive(load, iter(lambda: prompt, None), lambda p, _: engine.encode(p, capabilities), transport)
    return fold_all(driven, folding(engine, capabilities, rendering))[0]


def folding(engine: Engine, capabilities: Capabilities, rendering: Rendering, *, keeps_text: bool = False) -> Folding:
    """How answers of an engine are read, with what it was found to be able to."""
    return Folding(
        lambda answer, data: engine.fold(answer, data, capabilities),
        ends_by(rendering.tokenizer),
        capabilities.gives_reason,
        keeps_text,
    )


def _check_capacity(ledger: Sequence[LedgerRow], wanted: int | None) -> None:
    """The cache that was allocated is the one that was asked for, in tokens. Raises VerifyError."""
    allocated = next((row.value for row in ledger if row.name == KV_CAPACITY), None)
    if wanted is not None and allocated is not None and not same(KV_CAPACITY, allocated, str(wanted)):
        raise VerifyError(
            f"the KV cache holds {allocated} tokens in the engine, knobs.kv_cache_tokens says {wanted}, which it may "
            f"miss by {CAPACITY_TOLERANCE:.0%}: the engine chose another block size, or had less memory; set "
            "knobs.block_size to one it takes, or lower knobs.kv_cache_tokens for all"
        )
