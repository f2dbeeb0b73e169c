# SPDX-License-Identifier: Apache-2.0
"""What NVML says that a GPU is set to: what has to be equal for two contenders, and is read in each life."""

from collections.abc import Callable
from dataclasses import dataclass

from runners.gpu import nvml


@dataclass(frozen=True)
class GpuSettings:
    """What a GPU was set to: its power cap, and the highest clocks of its processors and memory that it may take; None
    where it does not say."""

    name: str
    driver: str
    power_cap_w: float | None
    sm_mhz: int | None
    memory_mhz: int | None


def gpu_settings(wanted: tuple[int, ...]) -> tuple[GpuSettings, ...]:
    """Settings of the GPUs of those indices."""
    import pynvml

    if not wanted:
        return ()
    with nvml() as there:
        if not there:
            return ()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        return tuple(_settings_of(index, driver) for index in wanted)


def _settings_of(index: int, driver: str) -> GpuSettings:
    """The clocks are those that applications get; where a GPU has no such setting, its highest."""
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def told(ask: Callable[..., int], *arguments: int) -> int | None:
        try:
            return int(ask(handle, *arguments))
        except pynvml.NVMLError:
            return None

    def clock(kind: int) -> int | None:
        set_to = told(pynvml.nvmlDeviceGetApplicationsClock, kind)
        return set_to if set_to is not None else told(pynvml.nvmlDeviceGetMaxClockInfo, kind)

    cap_mw = told(pynvml.nvmlDeviceGetEnforcedPowerLimit)
    return GpuSettings(
        name=str(pynvml.nvmlDeviceGetName(handle)),
        driver=driver,
        power_cap_w=None if cap_mw is None else cap_mw / 1e3,
        sm_mhz=clock(pynvml.NVML_CLOCK_SM),
        memory_mhz=clock(pynvml.NVML_CLOCK_MEM),
    )
