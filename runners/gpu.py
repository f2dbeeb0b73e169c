# SPDX-License-Identifier: Apache-2.0
"""What NVML says of the GPUs of this machine; nothing where there is no driver."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in bytes, without what the driver keeps for itself (615 MiB of an idle H200, which the
    first version of NVML's call counts as used). `capability` is its compute capability, as "90"."""

    index: int
    name: str
    uuid: str
    driver: str
    capability: str
    memory_bytes: int
    used_bytes: int


def gpus() -> tuple[Gpu, ...]:
    """All GPUs in NVML's order, or none without a driver."""
    import pynvml

    with _nvml() as there:
        if not there:
            return ()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        return tuple(_gpu(index, driver) for index in range(pynvml.nvmlDeviceGetCount()))


def gpu_uuids(wanted: tuple[int, ...]) -> tuple[str, ...]:
    """UUIDs of the GPUs of those indices."""
    return tuple(gpu.uuid for gpu in gpus() if gpu.index in wanted) if wanted else ()


@contextmanager
def _nvml() -> Iterator[bool]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        pynvml.nvmlShutdown()


def _gpu(index: int, driver: str) -> Gpu:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    name, uuid = str(pynvml.nvmlDeviceGetName(handle)), str(pynvml.nvmlDeviceGetUUID(handle))
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(index, name, uuid, driver, f"{major}{minor}", int(memory.total), int(memory.used))


def described(index: int) -> str:
    """Model and architecture of a GPU, what a compiled engine is bound to; empty where it is not there."""
    return next((f"{gpu.name} sm{gpu.capability}" for gpu in gpus() if gpu.index == index), "")


def used_bytes(wanted: tuple[int, ...]) -> int:
    """Memory in use on the GPUs of those indices; 0 where none is wanted or there."""
    return sum(gpu.used_bytes for gpu in gpus() if gpu.index in wanted) if wanted else 0


SLOWDOWNS: Final = {
    "software thermal slowdown": 269,
    "hardware thermal slowdown": 270,
    "power brake": 271,
}
"""NVML's fields of the time for which clocks were held down, in ns; a power cap in force is no slowdown."""


@dataclass(frozen=True)
class GpuUse:
    """What GPUs did over a stretch of time: joules, seconds, and by reason seconds of clocks held down, all
    summed over GPUs. None where a GPU does not report it."""

    gpus: int
    seconds: float
    energy_j: float | None
    slowed_s: Mapping[str, float | None]


@contextmanager
def metered(wanted: tuple[int, ...], clock: Callable[[], float]) -> Iterator[Callable[[], GpuUse | None]]:
    """A function that says what the GPUs of those indices did since the start of the block; None of none."""
    with _nvml() as there:
        if not there or not wanted:
            yield lambda: None
            return
        began, before = clock(), _meters(wanted)

        def use() -> GpuUse:
            gained = [_gain(after, earlier) for after, earlier in zip(_meters(wanted), before, strict=True)]
            return GpuUse(len(wanted), clock() - began, gained[0], dict(zip(SLOWDOWNS, gained[1:], strict=True)))

        yield use


def _meters(wanted: tuple[int, ...]) -> list[float | None]:
    """Joules, then seconds by slowdown, each summed over the GPUs."""
    each = [_meters_of(index) for index in wanted]
    return [None if None in column else sum(v for v in column if v is not None) for column in zip(*each, strict=True)]


def _meters_of(index: int) -> list[float | None]:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        energy_j: float | None = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
    except pynvml.NVMLError:
        energy_j = None
    fields = pynvml.nvmlDeviceGetFieldValues(handle, list(SLOWDOWNS.values()))
    return [energy_j, *(None if f.nvmlReturn else f.value.ullVal / 1e9 for f in fields)]


def _gain(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


@dataclass(frozen=True)
class Holder:
    """A process with memory on a GPU; `bytes` is None where the driver does not say."""

    gpu: int
    pid: int
    name: str
    bytes: int | None


def holders(wanted: tuple[int, ...]) -> tuple[Holder, ...]:
    """Processes that compute on the GPUs of those indices, as far as they are seen from here."""
    import pynvml

    if not wanted:
        return ()
    with _nvml() as there:
        found = [
            Holder(index, process.pid, _process_name(process.pid), process.usedGpuMemory)
            for index in (wanted if there else ())
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(index))
        ]
    return tuple(found)


def _process_name(pid: int) -> str:
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "not seen from here"
