# SPDX-License-Identifier: Apache-2.0
"""How a figure is spread over requests."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from runners.load.trace import Trace
from runners.report import metrics
from runners.report.record import AnswerLengths, Percentiles


def percentiles(traces: Sequence[Trace], value: Callable[[Trace], float | None]) -> Percentiles:
    """Over those that have it."""
    values = [v for v in map(value, traces) if v is not None]
    return Percentiles(
        p50=metrics.quantile(values, 0.5),
        p95=metrics.quantile(values, 0.95),
        p99=metrics.quantile(values, 0.99),
    )


def lengths_of(done: Sequence[Trace]) -> AnswerLengths | None:
    """Tokens of the answers of requests done; None without one."""
    tokens = sorted(trace.tokens for trace in done)
    if not tokens:
        return None

    def at(q: float) -> int:
        return tokens[math.ceil(q * len(tokens)) - 1]

    deviation = stdev(tokens) if len(tokens) > 1 else None
    return AnswerLengths(mean=fmean(tokens), deviation=deviation, p5=at(0.05), p50=at(0.5), p95=at(0.95))
