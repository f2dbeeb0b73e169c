# SPDX-License-Identifier: Apache-2.0
"""What NVML says of the GPUs of this machine; nothing where there is no driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


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

    with nvml() as there:
        if not there:
            return ()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        return tuple(_gpu(index, driver) for index in range(pynvml.nvmlDeviceGetCount()))


def gpu_uuids(wanted: tuple[int, ...]) -> tuple[str, ...]:
    """UUIDs of the GPUs of those indices."""
    return tuple(gpu.uuid for gpu in gpus() if gpu.index in wanted) if wanted else ()


@contextmanager
def nvml() -> Iterator[bool]:
    """Whether there is a driver, which is open meanwhile."""
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
    memory = _memory(handle)
    name, uuid = str(pynvml.nvmlDeviceGetName(handle)), str(pynvml.nvmlDeviceGetUUID(handle))
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(index, name, uuid, driver, f"{major}{minor}", int(memory.total), int(memory.used))


def _memory(handle: Any) -> Any:
    import pynvml

    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


def used_memory(handle: Any) -> int:
    """Bytes in use on a GPU."""
    return int(_memory(handle).used)


def described(index: int) -> str:
    """Model and architecture of a GPU, what a compiled engine is bound to; empty where it is not there."""
    return next((f"{gpu.name} sm{gpu.capability}" for gpu in gpus() if gpu.index == index), "")


def used_bytes(wanted: tuple[int, ...]) -> int:
    """Memory in use on the GPUs of those indices; 0 where none is wanted or there."""
    return sum(gpu.used_bytes for gpu in gpus() if gpu.index in wanted) if wanted else 0


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
    with nvml() as there:
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
