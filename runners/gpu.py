# SPDX-License-Identifier: Apache-2.0
"""What NVML says of the GPUs of this machine; nothing where there is no driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in bytes."""

    index: int
    name: str
    uuid: str
    driver: str
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
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    name, uuid = str(pynvml.nvmlDeviceGetName(handle)), str(pynvml.nvmlDeviceGetUUID(handle))
    return Gpu(index, name, uuid, driver, int(memory.total), int(memory.used))


def used_bytes(wanted: tuple[int, ...]) -> int:
    """Memory in use on the GPUs of those indices; 0 where none is wanted or there."""
    return sum(gpu.used_bytes for gpu in gpus() if gpu.index in wanted) if wanted else 0
