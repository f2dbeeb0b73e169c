# SPDX-License-Identifier: Apache-2.0
"""Formulas: what every figure of a cell is, in one place, with its unit and where it is valid.

Percentiles are order statistics: the q-quantile of n values is the ceil(q n)-th smallest. Its 95%
interval lies between two order statistics whose ranks follow from the binomial distribution (David
and Nagaraja, Order Statistics, 3rd ed., section 7.1); it is about this run only, since requests of one
run are not independent.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runners.load.trace import Trace

SMALLEST_N = {0.5: 6, 0.95: 72, 0.99: 368}
"""From here on q^n <= 0.025, so that an upper bound exists."""


@dataclass(frozen=True)
class Quantile:
    """A percentile in seconds with its interval within the run. A value of None has a reason."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None


def quantile(values: Sequence[float], q: float) -> Quantile:
    """The q-quantile; failed requests come in as infinite. `values` need not be sorted.

    >>> quantile([3.0, 1.0, 2.0, 5.0, 4.0, 6.0], 0.5)
    Quantile(value=3.0, low=1.0, high=6.0, reason=None)
    """
    n = len(values)
    if n < SMALLEST_N[q]:
        return Quantile(None, None, None, f"n too small ({n} of {SMALLEST_N[q]})")
    ordered = sorted(values)
    low, high = _ranks(n, q)
    value, least, most = ordered[math.ceil(q * n) - 1], ordered[low - 1], ordered[high - 1]
    if math.isinf(value):
        return Quantile(None, None, None, "failed requests reach this percentile")
    return Quantile(value, least, None if math.isinf(most) else most)


def _ranks(n: int, q: float) -> tuple[int, int]:
    """1-based ranks l < u with P(X_(l) <= quantile <= X_(u)) >= 0.95, 2.5% at most on either side."""
    import numpy as np
    from scipy.special import bdtr

    up_to = bdtr(np.arange(n + 1.0), n, q)
    low = int(np.searchsorted(up_to, 0.025))
    high = int(np.searchsorted(up_to, 0.975)) + 1
    return low, high


def ttft_token_s(trace: Trace) -> float:
    """Time from T0 to the first event with a token; infinite for a failed request."""
    return math.inf if trace.error or not trace.timeline else trace.timeline.at_s[0] - trace.due_s


def ttft_visible_s(trace: Trace) -> float:
    """Time from T0 to the first event with text; infinite for a failed request."""
    return math.inf if trace.error or trace.visible_s is None else trace.visible_s - trace.due_s


def e2e_s(trace: Trace) -> float:
    """Time from T0 to the last event with a token; infinite for a failed request."""
    return math.inf if trace.error or not trace.timeline else trace.timeline.at_s[-1] - trace.due_s


def tpot_s(trace: Trace) -> float | None:
    """(last - first time) / (tokens - tokens in the first event); None where the first event held all."""
    if trace.error or not trace.timeline:
        return math.inf
    at_s, tokens = trace.timeline.at_s, trace.timeline.tokens
    later = tokens[-1] - tokens[0]
    return (at_s[-1] - at_s[0]) / later if later else None


def ttft_engine_s(trace: Trace) -> float | None:
    """First token - arrival on the engine's own clock; None where it was not told, infinite for a failure."""
    if trace.error:
        return math.inf
    times = trace.engine_times
    return None if times is None else (times.first_token_ns - times.arrival_ns) / 1e9


def tpot_engine_s(trace: Trace) -> float | None:
    """(last token - first token) / (tokens - 1) on the engine's own clock."""
    if trace.error:
        return math.inf
    times = trace.engine_times
    if times is None or trace.tokens < 2:
        return None
    return (times.last_token_ns - times.first_token_ns) / 1e9 / (trace.tokens - 1)


def queue_s(trace: Trace) -> float | None:
    """Arrival in the engine to scheduled, on its own clock, of a request that did not fail."""
    times = trace.engine_times
    return None if times is None or trace.error else (times.scheduled_ns - times.arrival_ns) / 1e9


def prefill_s(trace: Trace) -> float | None:
    """Scheduled to the first token, on the engine's clock."""
    times = trace.engine_times
    return None if times is None or trace.error else (times.first_token_ns - times.scheduled_ns) / 1e9


def decode_s(trace: Trace) -> float | None:
    """First to last token, on the engine's clock."""
    times = trace.engine_times
    return None if times is None or trace.error else (times.last_token_ns - times.first_token_ns) / 1e9


def front_end_s(trace: Trace) -> float | None:
    """What the client's end-to-end time has beyond the engine's: a difference of two lengths, each on one clock."""
    times = trace.engine_times
    return None if times is None or trace.error else e2e_s(trace) - (times.last_token_ns - times.arrival_ns) / 1e9


def completed_between(traces: Sequence[Trace], start_s: float, end_s: float) -> int:
    """Tokens of the requests that ended in [start, end) without failing."""
    done = (t for t in traces if t.error is None and t.timeline)
    return sum(t.tokens for t in done if start_s <= t.timeline.at_s[-1] < end_s)


def tokens_between(traces: Sequence[Trace], start_s: float, end_s: float) -> int:
    """Tokens whose time lies in [start, end), of requests that did not fail."""
    return sum(_tokens_before(t, end_s) - _tokens_before(t, start_s) for t in traces if t.error is None)


def _tokens_before(trace: Trace, time_s: float) -> int:
    """Tokens generated before a time; stamps of one stream do not run backwards."""
    number = bisect_left(trace.timeline.at_s, time_s)
    return trace.timeline.tokens[number - 1] if number else 0


def in_flight(traces: Sequence[Trace], start_s: float, end_s: float) -> float:
    """Mean number of requests under way in [start, end], failed ones included."""
    spans = (min(t.end_s, end_s) - max(t.due_s, start_s) for t in traces)
    return sum(span for span in spans if span > 0) / (end_s - start_s)


def sum_of(traces: Sequence[Trace], value: Callable[[Trace], int | None]) -> int | None:
    """The sum, or None where any of them is unknown."""
    total = 0
    for trace in traces:
        one = value(trace)
        if one is None:
            return None
        total += one
    return total if traces else None


def share(part: float | None, whole: float | None) -> float | None:
    """part / whole; None where either is unknown or there was nothing to share."""
    return None if part is None or not whole else part / whole


def difference(after: float | None, before: float | None) -> float | None:
    """What a counter gained; None where it is not reported."""
    return None if after is None or before is None else after - before
