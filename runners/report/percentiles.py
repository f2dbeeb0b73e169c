# SPDX-License-Identifier: Apache-2.0
"""The percentiles of one time over requests."""

from collections.abc import Callable, Sequence

from runners.load.trace import Trace
from runners.report import metrics
from runners.report.record import Percentiles


def percentiles(traces: Sequence[Trace], value: Callable[[Trace], float | None]) -> Percentiles:
    """Over those that have it."""
    values = [v for v in map(value, traces) if v is not None]
    return Percentiles(
        p50=metrics.quantile(values, 0.5),
        p95=metrics.quantile(values, 0.95),
        p99=metrics.quantile(values, 0.99),
    )
