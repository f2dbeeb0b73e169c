# SPDX-License-Identifier: Apache-2.0
"""Drives the client against the null server at more than the engines' fastest rate, on this host.

What the client cannot hold there, it cannot be trusted to have held against an engine.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Final

from pydantic import BaseModel, ConfigDict

from engines.contract import Call, Prompt, Sampling
from engines.dialects import DIALECTS
from runners.load.drive import drive
from runners.load.fold import Folding, fold_all
from runners.load.load import Load
from runners.load.proof import ClientProof, prove
from runners.load.transport import transport_of

HEADROOM: Final = 1.5
SECONDS: Final = 2.0
HELD: Final = 0.98
TTFT_S: Final = 0.02


class SelfCheck(BaseModel):
    """Event rates in events per second. `held`: the client kept at least 98% of what was asked; where it
    did not, client and null server together were the limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    streams: int
    asked_events_per_s: float
    reached_events_per_s: float
    held: bool
    client: ClientProof


def check_client(streams: int, fastest_events_per_s: float) -> SelfCheck:
    """Drive `streams` slots at HEADROOM times the fastest rate that an engine reached, for SECONDS."""
    rate = HEADROOM * fastest_events_per_s
    gap_s = streams / rate
    tokens = max(16, round(SECONDS / 4 / gap_s))
    prompt = Prompt("word", 1, tokens, True, Sampling())
    dialect = DIALECTS["openai"]

    def encode(wanted: Prompt, request_id: str) -> Call:
        return dialect.encode(wanted, "null", request_id)

    request_s = TTFT_S + (tokens - 1) * gap_s
    load = Load(streams, request_s, SECONDS, 0.0, 30.0, 60.0)
    with null_server(gap_s) as url:
        driven = drive(load, repeat(prompt), encode, transport_of(url, "http"))
    traces = fold_all(driven, Folding(dialect.fold))
    done = [t for t in traces if t.error is None]
    # A request that is served on time takes request_s; what it took longer was lost to client or server.
    spent_s = sum(t.timeline.at_s[-1] - t.due_s for t in done)
    share = len(done) * request_s / spent_s if spent_s else 0.0
    return SelfCheck(
        streams=streams,
        asked_events_per_s=rate,
        reached_events_per_s=rate * share,
        held=share >= HELD,
        client=prove(driven, traces, traces, streams),
    )


@contextmanager
def null_server(gap_s: float) -> Iterator[str]:
    """A null server in a process of its own; its address."""
    command = [sys.executable, "-m", "runners.load.null_server", str(TTFT_S), repr(gap_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()
