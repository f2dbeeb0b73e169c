# SPDX-License-Identifier: Apache-2.0
"""What a reader has to know of the GPUs while they were driven."""

from collections.abc import Sequence
from statistics import fmean

from runners.gpu_meter import GpuUse
from runners.report.record import Run


def energy_note(run: Run) -> str:
    """What NVML counted and saw over all cells of a run."""
    uses = [c.gpu for c in run.cells if c.gpu is not None]
    if not uses:
        return "No GPU was metered, so there is no power."
    slowed = sum(seconds or 0.0 for use in uses for seconds in use.slowed_s.values())
    return (
        "Power and joules are those of the contender's GPUs by NVML over the whole drive of a cell, of the rest of the "
        f"machine nothing. Clocks were held down by heat or power brake for {slowed:.1f} s in all, "
        f"{_capped(uses)} s were at the power cap.{_driven_clocks(run)}"
    )


def _capped(uses: Sequence[GpuUse]) -> str:
    capped = [use.power_capped_s for use in uses]
    known = [seconds for seconds in capped if seconds is not None]
    return f"{sum(known):.1f}" if len(known) == len(capped) else "an unknown number of"


def _driven_clocks(run: Run) -> str:
    """Of each contender, over its cells: the mean clock and the lowest seen."""
    told = []
    for name in dict.fromkeys(cell.contender for cell in run.cells):
        seen = [c.gpu.clocks for c in run.cells if c.contender == name and c.gpu and c.gpu.clocks]
        if seen:
            told.append(f"{name} {fmean(c.mean_mhz for c in seen):.0f} (lowest {min(c.low_mhz for c in seen):.0f})")
    return f" Multiprocessor clocks while driving, MHz: {', '.join(told)}." if told else ""
