# SPDX-License-Identifier: Apache-2.0
"""What GPUs did while a cell was driven: energy, slowdowns, clocks and memory, as NVML counts them."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from runners.gpu import nvml, used_memory
from runners.report.metrics import difference

SLOWDOWNS: Final = {
    "software thermal slowdown": 269,
    "hardware thermal slowdown": 270,
    "power brake": 271,
}
"""NVML's fields of the time for which clocks were held down, in ns."""
POWER_CAP: Final = 74
"""The same for the power cap, which is a setting and no slowdown."""
EVERY_S: Final = 1.0


@dataclass(frozen=True)
class Clocks:
    """Clocks of the multiprocessors in MHz, over looks at all GPUs a second apart."""

    mean_mhz: float
    low_mhz: float
    high_mhz: float


@dataclass(frozen=True)
class GpuUse:
    """What GPUs did over a stretch of time: joules, seconds, and by reason seconds of clocks held down, all
    summed over GPUs; `power_capped_s` are those at the power cap, `memory_bytes` the most that was in use at a look.
    None where a GPU does not report it, or where the stretch was too short for a look."""

    gpus: int
    seconds: float
    energy_j: float | None
    slowed_s: Mapping[str, float | None]
    power_capped_s: float | None = None
    clocks: Clocks | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Look:
    """Clocks of each GPU in MHz, bytes in use on all of them; None where one does not say."""

    clocks_mhz: tuple[float, ...] | None
    memory_bytes: int


@contextmanager
def metered(
    wanted: tuple[int, ...], clock: Callable[[], float], every_s: float = EVERY_S
) -> Iterator[Callable[[], GpuUse | None]]:
    """A function that says what the GPUs of those indices did since the start of the block; None of none."""
    with nvml() as there:
        if not there or not wanted:
            yield lambda: None
            return
        began, before = clock(), _meters(wanted)
        with _looking(wanted, every_s) as looks:

            def use() -> GpuUse:
                gained = [difference(after, earlier) for after, earlier in zip(_meters(wanted), before, strict=True)]
                energy_j, capped_s, *slowed_s = gained
                return GpuUse(
                    gpus=len(wanted),
                    seconds=clock() - began,
                    energy_j=energy_j,
                    slowed_s=dict(zip(SLOWDOWNS, slowed_s, strict=True)),
                    power_capped_s=capped_s,
                    clocks=clocks_of(looks),
                    memory_bytes=max((look.memory_bytes for look in looks), default=None),
                )

            yield use


@contextmanager
def _looking(wanted: tuple[int, ...], every_s: float) -> Iterator[Sequence[Look]]:
    """Looks as they are taken, by a thread that costs the client some calls into the driver a second."""
    looks: list[Look] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(every_s):
            looks.append(_look(wanted))

    thread = threading.Thread(target=watch, name="gpu meter", daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        over.set()
        thread.join()


def _look(wanted: tuple[int, ...]) -> Look:
    import pynvml

    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in wanted]
    try:
        clocks = tuple(float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)) for handle in handles)
    except pynvml.NVMLError:
        return Look(None, sum(map(used_memory, handles)))
    return Look(clocks, sum(map(used_memory, handles)))


def clocks_of(looks: Sequence[Look]) -> Clocks | None:
    """Over all looks and GPUs; None where one did not say."""
    seen = [mhz for look in looks for mhz in look.clocks_mhz or ()]
    if not seen or any(look.clocks_mhz is None for look in looks):
        return None
    return Clocks(fmean(seen), min(seen), max(seen))


def _meters(wanted: tuple[int, ...]) -> list[float | None]:
    """Joules, then seconds at the power cap and by slowdown, each summed over the GPUs."""
    each = [_meters_of(index) for index in wanted]
    return [None if None in column else sum(v for v in column if v is not None) for column in zip(*each, strict=True)]


def _meters_of(index: int) -> list[float | None]:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        energy_j: float | None = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
    except pynvml.NVMLError:
        energy_j = None
    fields = pynvml.nvmlDeviceGetFieldValues(handle, [POWER_CAP, *SLOWDOWNS.values()])
    return [energy_j, *(None if f.nvmlReturn else f.value.ullVal / 1e9 for f in fields)]
