# SPDX-License-Identifier: Apache-2.0
"""Where the time of a cell's requests went: by each request's own engine times, else by the engine's counters."""

from collections.abc import Sequence
from statistics import fmean

from engines.contract import Counters
from runners.load.trace import Trace
from runners.report import metrics
from runners.report.metrics import difference, share
from runners.report.percentiles import percentiles
from runners.report.record import Delays


def delays_of(
    inside: Sequence[Trace], done: Sequence[Trace], before: Counters, after: Counters, *, incremental: bool
) -> Delays | None:
    """Of the requests due in the window, where each that is done told its engine's times; else of the whole cell, as
    counters are. None where the engine reports neither."""
    told = [trace for trace in inside if trace.error is None]
    if told and all(trace.engine_times is not None for trace in told):
        return _by_requests(told, incremental=incremental)
    return _by_counters(done, before, after, incremental=incremental)


def _by_requests(told: Sequence[Trace], *, incremental: bool) -> Delays:
    return Delays(
        queue_s=_mean([metrics.queue_s(t) for t in told]),
        prefill_s=_mean([metrics.prefill_s(t) for t in told]),
        decode_s=_mean([metrics.decode_s(t) for t in told]),
        ttft_s=_ttft_s(told, incremental=incremental),
        e2e_s=fmean(metrics.e2e_s(t) for t in told),
        of="requests",
        queue=percentiles(told, metrics.queue_s),
        prefill=percentiles(told, metrics.prefill_s),
        decode=percentiles(told, metrics.decode_s),
        front_end=percentiles(told, metrics.front_end_s),
    )


def _mean(values: Sequence[float | None]) -> float:
    return fmean(v for v in values if v is not None)


def _by_counters(done: Sequence[Trace], before: Counters, after: Counters, *, incremental: bool) -> Delays | None:
    requests = difference(after.timed_requests, before.timed_requests)
    queue_s = share(difference(after.queue_s, before.queue_s), requests)
    prefill_s = share(difference(after.prefill_s, before.prefill_s), requests)
    decode_s = share(difference(after.decode_s, before.decode_s), requests)
    if queue_s is None or prefill_s is None or decode_s is None or not done:
        return None
    return Delays(
        queue_s=queue_s,
        prefill_s=prefill_s,
        decode_s=decode_s,
        ttft_s=_ttft_s(done, incremental=incremental),
        e2e_s=fmean(metrics.e2e_s(t) for t in done),
        of="counters",
    )


def _ttft_s(done: Sequence[Trace], *, incremental: bool) -> float | None:
    """A stream that comes whole has none."""
    return fmean(metrics.ttft_token_s(t) for t in done) if incremental else None
