# SPDX-License-Identifier: Apache-2.0
"""GPUs that are absent or not idle, and disks that are full, as NVML would tell of them."""

from pathlib import Path

import pytest

from runners import gpu_preflight
from runners.gpu import Gpu, Holder
from runners.gpu_preflight import disk_complaints, gpu_complaints

GIB = 2**30


def gpu(index: int, used: int = 0) -> Gpu:
    return Gpu(index, "NVIDIA H200", f"GPU-{index}", "590.44", "90", 141 * GIB, used)


def test_idle_gpus() -> None:
    assert gpu_complaints([0, 1], [gpu(0), gpu(1, 300 * 2**20)], []) == []
    assert gpu_complaints([], [], []) == []


def test_absent_gpus() -> None:
    assert gpu_complaints([0, 2], [gpu(0), gpu(1)], []) == ["gpus: no GPU 2; there are 2, counted from 0"]
    assert gpu_complaints([0], [], []) == ["gpus: no GPU 0; there is no NVIDIA driver here"]


def test_foreign_processes_are_named() -> None:
    holders = [Holder(0, 4711, "python3", 57 * GIB), Holder(1, 12, "Xorg", None)]
    told = gpu_complaints([0], [gpu(0, 57 * GIB), gpu(1)], holders)
    assert told == ["gpus: GPU 0 is in use by process 4711 (python3, 57.0 GiB); end it or choose another GPU"]
    told = gpu_complaints([1], [gpu(0), gpu(1)], holders)
    assert told == ["gpus: GPU 1 is in use by process 12 (Xorg); end it or choose another GPU"]


def test_memory_that_nobody_seen_holds() -> None:
    told = gpu_complaints([0], [gpu(0, 57 * GIB)], [])
    assert "57.0 GiB of GPU 0 are in use by a process that is not seen from here" in told[0]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    assert disk_complaints(tmp_path / "not" / "there", tmp_path) == []
    monkeypatch.setattr(gpu_preflight, "COPIES", 1e15)
    told = disk_complaints(tmp_path / "cache", tmp_path)
    assert "a build needs 931322575; set BAKEOFF_CACHE" in told[0]
