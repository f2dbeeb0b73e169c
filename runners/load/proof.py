# SPDX-License-Identifier: Apache-2.0
"""What the client can be held to: how late it was, how idle, how much of its time it had to wait."""

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from runners.load.load import Driven
from runners.load.trace import Trace


class ClientProof(BaseModel):
    """The client's own conduct in one cell. Shares are of 1, times in seconds.

    Lag: from due to sent. Lateness: from the kernel's stamp to this process having the bytes; it does
    not enter figures that rest on kernel stamps. `coalesced_share`: events that came in the same read as
    the one before. `waited_for_cpu_share`: of the cell, ready and without a processor. `over_cap`:
    requests that had to wait since as many were in flight as allowed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    send_lag_p50_s: float | None
    send_lag_p99_s: float | None
    lateness_p99_s: float | None
    slot_idle_share: float | None
    coalesced_share: float | None
    kernel_stamps_share: float | None
    cpu_s: float
    waited_for_cpu_share: float | None
    realtime: bool
    connects: int
    over_cap: int
    clock_drift_s: float


def prove(driven: Driven, traces: Sequence[Trace], inside: Sequence[Trace], slots: int | None) -> ClientProof:
    """`inside` are the requests due in the window, whose lag counts; `slots` is None in open loop."""
    lags = sorted(t.sent_s - t.due_s for t in inside if t.sent_s is not None)
    reads = sum(t.reads for t in traces)
    events = sum(t.events for t in traces)
    whole_s = driven.end_s
    return ClientProof(
        send_lag_p50_s=nearest(lags, 0.5),
        send_lag_p99_s=nearest(lags, 0.99),
        lateness_p99_s=_lateness_p99(traces),
        slot_idle_share=driven.idle_slot_s / (slots * whole_s) if slots and whole_s else None,
        coalesced_share=sum(t.coalesced for t in traces) / events if events else None,
        kernel_stamps_share=sum(t.stamped_reads for t in traces) / reads if reads else None,
        cpu_s=driven.cpu_s,
        waited_for_cpu_share=None if driven.waited_for_cpu_s is None else driven.waited_for_cpu_s / whole_s,
        realtime=driven.realtime,
        connects=driven.connects,
        over_cap=driven.over_cap,
        clock_drift_s=driven.clock_drift_s,
    )


def nearest(ordered: Sequence[float], q: float) -> float | None:
    """The ceil(q n)-th of n sorted values; None of none."""
    return ordered[math.ceil(q * len(ordered)) - 1] if len(ordered) else None


def _lateness_p99(traces: Sequence[Trace]) -> float | None:
    """Of events with tokens, where the kernel stamped every read."""
    import numpy as np

    stamped = [t.timeline for t in traces if t.timeline and t.stamped_reads == t.reads]
    if not stamped:
        return None
    lateness = np.concatenate([np.subtract(one.user_s, one.at_s) for one in stamped])
    return float(np.quantile(lateness, 0.99, method="inverted_cdf"))
