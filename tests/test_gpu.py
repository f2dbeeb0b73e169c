# SPDX-License-Identifier: Apache-2.0
"""Energy, slowdowns, clocks and memory, from what NVML counts; the driver is played by the test."""

import threading
from types import SimpleNamespace

import pynvml
import pytest

from runners import gpu
from runners.gpu_meter import POWER_CAP, SLOWDOWNS, Clocks, GpuUse, Look, clocks_of, metered


class Driver:
    """Two GPUs. The second one counts no energy."""

    def __init__(self) -> None:
        self.energy_mj = 5_000_000
        self.slowed_ns = dict.fromkeys((POWER_CAP, *SLOWDOWNS.values()), 0)
        self.refuses = {271}
        self.looks = 0
        self.looked_twice = threading.Event()

    def clock_mhz(self, _index: int, _kind: int) -> int:
        self.looks += 1
        return 1980 if self.looks == 1 else 1755

    def memory(self, _index: int, version: int) -> SimpleNamespace:
        if self.looks >= 2:
            self.looked_twice.set()
        return SimpleNamespace(used=5 if self.looks == 1 else 7, version=version)

    def energy(self, index: int) -> int:
        if index == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.energy_mj

    def fields(self, _index: int, wanted: list[int]) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(nvmlReturn=int(i in self.refuses), value=SimpleNamespace(ullVal=self.slowed_ns[i]))
            for i in wanted
        ]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    played = Driver()
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", played.energy)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", played.fields)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetClockInfo", played.clock_mhz)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", played.memory)
    return played


def test_what_the_gpus_did(driver: Driver) -> None:
    """From 5,000 to 7,500 J, 3 s of hardware slowdown and 4 s at the power cap, in 10 s."""
    clock = iter([100.0, 110.0])
    with metered((0,), lambda: next(clock)) as use:
        driver.energy_mj += 2_500_000
        driver.slowed_ns[270] += 3_000_000_000
        driver.slowed_ns[POWER_CAP] += 4_000_000_000
        assert use() == GpuUse(
            gpus=1,
            seconds=10.0,
            energy_j=2500.0,
            slowed_s={"software thermal slowdown": 0.0, "hardware thermal slowdown": 3.0, "power brake": None},
            power_capped_s=4.0,
        )


def test_looks_are_taken_meanwhile(driver: Driver) -> None:
    with metered((0,), lambda: 0.0, every_s=1e-3) as use:
        assert driver.looked_twice.wait(30)
    found = use()
    assert found is not None
    assert found.memory_bytes == 7
    assert found.clocks is not None
    assert (found.clocks.low_mhz, found.clocks.high_mhz) == (1755.0, 1980.0)


def test_clocks() -> None:
    assert clocks_of([Look((1980.0, 1755.0), 1), Look((1725.0, 1740.0), 1)]) == Clocks(1800.0, 1725.0, 1980.0)
    assert clocks_of([Look((1980.0,), 1), Look(None, 1)]) is None
    assert clocks_of([]) is None


def test_a_sum_with_an_unknown_is_unknown(driver: Driver) -> None:
    with metered((0, 1), lambda: 0.0) as use:
        found = use()
    assert found is not None
    assert found.energy_j is None
    assert found.slowed_s["software thermal slowdown"] == 0.0


def test_without_a_driver_or_gpus_nothing_is_known(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    with metered((), lambda: 0.0) as use:
        assert use() is None

    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    with metered((0,), lambda: 0.0) as use:
        assert use() is None
    assert gpu.gpu_uuids((0,)) == ()
