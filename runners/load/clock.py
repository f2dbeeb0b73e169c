# SPDX-License-Identifier: Apache-2.0
"""The clock of a cell: monotonic, with the kernel's wall-clock stamps mapped onto it."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class CellClock:
    """Seconds since the start of a cell."""

    start_ns: int
    wall_offset_ns: int

    @classmethod
    def now(cls) -> "CellClock":
        return cls(time.monotonic_ns(), wall_offset_ns())

    def __call__(self) -> float:
        return (time.monotonic_ns() - self.start_ns) * 1e-9

    def of_wall(self, wall_ns: int) -> float:
        return (wall_ns - self.wall_offset_ns - self.start_ns) * 1e-9

    def drift_s(self) -> float:
        """How far the wall clock was moved against the monotonic one since the start."""
        return (wall_offset_ns() - self.wall_offset_ns) * 1e-9


def wall_offset_ns() -> int:
    """Wall clock minus monotonic clock, by the tightest of five readings."""
    readings = []
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]
