# SPDX-License-Identifier: Apache-2.0
"""What an engine needs of this machine, asked before anything starts; every complaint names a remedy."""

import platform
from pathlib import Path

from engines.contract import Engine
from runners.environments import EngineEnvironment, Recipe, made
from runners.gpu import gpus
from runners.launch import ports

STUB_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12")
STUB_GLIBC = (2, 35)


def machine_complaints(engine: Engine, recipe: Recipe) -> list[str]:
    """What this machine lacks now for an engine in that environment, whether made or not."""
    complaints = lasting_complaints(engine, recipe)
    free_gib = _available_gib()
    if free_gib < recipe.memory_gib:
        complaints.append(
            f"{free_gib:.1f} GiB of memory are free, {recipe.memory_gib:g} are needed; end other programs"
        )
    return complaints


def lasting_complaints(engine: Engine, recipe: Recipe) -> list[str]:
    """What this machine lacks for an engine whatever else runs."""
    complaints = []
    if recipe.image and made(recipe) is None:
        complaints.append(f"only the image {recipe.image} holds it; set runner: compose, or run bakeoff inside of it")
    if "avx2" in recipe.needs and "avx2" not in _cpu_flags():
        complaints.append("the processor has no AVX2; use a machine that has it")
    if "nvidia" in recipe.needs and not gpus():
        complaints.append("there is no NVIDIA driver; use a GPU node, or a config for processors")
    if engine.triton_stub and platform.libc_ver()[0] == "glibc" and _glibc() < STUB_GLIBC:
        complaints.append(
            f"glibc {platform.libc_ver()[1]} is older than 2.35, which Triton needs; "
            "use Ubuntu 22.04, Debian 12 or newer"
        )
    return complaints


def environment_complaints(engine: Engine, environment: EngineEnvironment) -> list[str]:
    """What the made environment lacks for Triton's Python stub."""
    if not engine.triton_stub:
        return []
    complaints = []
    if environment.python_version not in STUB_PYTHONS:
        complaints.append(f"Triton has no stub for Python {environment.python_version}; make the environment with 3.11")
    library = Path(environment.lib_dir) / f"libpython{environment.python_version}.so.1.0"
    if not library.exists():
        complaints.append(
            f"{library} is missing; Triton needs a Python built with a shared library "
            f"(package libpython{environment.python_version})"
        )
    numpy = environment.version("numpy") or "0"
    if int(numpy.split(".")[0]) >= 2:
        complaints.append(f"numpy {numpy} kills Triton's stub at the first request; pin numpy below 2")
    return complaints


def port_complaints(wanted: tuple[int, ...]) -> list[str]:
    """Ports that somebody else listens on."""
    return [
        f"port: {port} is in use by {ports.holder(port)}; end it or choose another `port`"
        for port in wanted
        if not ports.is_free(port)
    ]


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return set()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(line.split())


def _glibc() -> tuple[int, ...]:
    return tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2])


def _available_gib() -> float:
    import psutil

    return float(psutil.virtual_memory().available) / 2**30
