# SPDX-License-Identifier: Apache-2.0
"""How long it takes, and how much memory, to sum up 10 million token events and write their traces.

    python benchmarks/aggregate.py

One cell of 10,000 requests with 1,000 tokens each, one event a token. Exits with 1 above 10 s or 2 GB; the time
is that of summing up, the memory that of the whole process with the events in it.
"""

# Run as a script, this folder would come first, and its statistics.py would be Python's own module of that name.
import resource
import sys
import tempfile
import time
from array import array
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

from engines.contract import Capabilities, Counters
from runners.config_workload import Span, WorkloadConfig
from runners.load.load import Driven
from runners.load.trace import Timeline, Trace
from runners.report.summary import Measured, summarize
from runners.report.trace_table import write_traces

REQUESTS, TOKENS, SLOTS = 10_000, 1_000, 64
GAP_S = 0.02
MOST_S, MOST_BYTES = 10.0, 2e9


def trace(index: int) -> Trace:
    """Slots take turns; the first token after a tenth of a second, the others GAP_S apart."""
    due_s = index // SLOTS * (0.1 + TOKENS * GAP_S)
    at_s = array("d", due_s + 0.1 + np.arange(TOKENS) * GAP_S)
    timeline = Timeline(at_s, array("d", at_s), array("q", np.arange(1, TOKENS + 1)))
    return Trace(
        index=index,
        slot=index % SLOTS,
        request_id=str(index),
        due_s=due_s,
        sent_s=due_s,
        end_s=at_s[-1],
        input_tokens=100,
        max_tokens=TOKENS,
        timeline=timeline,
        visible_s=at_s[0],
        prompt_tokens=100,
        cached_tokens=0,
        server_tokens=TOKENS,
        client_tokens=TOKENS,
        finish_reason="length",
        status=200,
        error=None,
        events=TOKENS,
        coalesced=0,
        reads=TOKENS,
        stamped_reads=TOKENS,
        received_bytes=100 * TOKENS,
    )


def main() -> int:
    traces = [trace(index) for index in range(REQUESTS)]
    workload = WorkloadConfig(
        name="w",
        input_tokens=Span(low=100, high=100),
        output_tokens=Span(low=TOKENS, high=TOKENS),
        concurrency=(SLOTS,),
    )
    driven = Driven(steady_s=traces[SLOTS].due_s, last_send_s=traces[-1].due_s, end_s=traces[-1].end_s)
    capabilities = Capabilities("m", "1", "f", None, True, True, True, False)
    measured = Measured(workload, workload.levels[0], 0.05, driven, traces, capabilities, Counters(), Counters())
    began = time.monotonic()
    summary = summarize(measured)
    took_s = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        write_traces(Path(folder) / "traces.parquet", traces)
        wrote_s = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    events = sum(t.events for t in traces)
    print(f"{events / 1e6:.0f} M events: summed up in {took_s:.2f} s, traces written in {wrote_s:.1f} s")
    print(f"peak memory {peak / 1e9:.2f} GB; {summary.output_tokens_per_s:.0f} of {SLOTS / GAP_S:.0f} tok/s at most")
    return int(took_s > MOST_S or peak > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
