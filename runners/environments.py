# SPDX-License-Identifier: Apache-2.0
"""Environments that engines live in: made once from pinned files under configs/environments, then reused.

The head of such a file says, in comments, what it needs: `python: 3.11`, `needs: avx2`,
`memory-gib: 3`. `image: ...` is said where only a container holds the engine: inside of it, the Python that is
there already is the environment, known by its `package`; `version` is that of a package which no distribution
tells. `app`, `examples`, `bin` and `backends` are folders with
NVIDIA's own files, counted from the file; `triton` is an installed Triton. A file of one's own `holds` engines.
A folder with `bin/python` is an environment that somebody else made, used as it is: for hosts without a network.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.launch import Vendor
from runners.errors import MendableError
from runners.places import cache_folder, shipped_configs

Say = Callable[[str], None]
READY = "bakeoff-ready.json"
BACKENDS = "triton-backends"
ASK = """
# Of a distribution that the path holds twice, the first is the one that is imported.
import importlib.metadata, json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "site_packages": paths["purelib"],
    "lib_dir": sysconfig.get_config_var("LIBDIR") or "",
    "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
    "versions": {d.metadata["Name"].lower(): d.version for d in reversed(list(importlib.metadata.distributions()))},
}))
"""
WHERE = """
# A .pth file may have packages lie elsewhere; Triton's server lies beside its package.
import importlib.util, pathlib
found = importlib.util.find_spec("pytriton")
print(pathlib.Path(found.origin).parents[1] if found and found.origin else "")
"""


class MakeError(MendableError):
    """An environment that cannot be made here; the message says why and what would help."""


@dataclass(frozen=True)
class Recipe:
    """A requirement file and what its head says."""

    name: str
    path: Path
    python: str
    needs: tuple[str, ...]
    memory_gib: float
    start_s: float
    image: str | None
    package: str | None = None
    version: str | None = None
    triton: str | None = None
    vendor: Vendor | None = None
    holds: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where the environment lies; other requirements, or another way of describing it, are another folder."""
        if self.path.is_dir():
            return self.path
        lines = [line for line in self.path.read_text("utf-8").splitlines() if not line.startswith("#")]
        digest = hashlib.sha256("\n".join([self.python, *lines, ASK]).encode()).hexdigest()[:12]
        return cache_folder() / "environments" / f"{self.name}-{digest}"


@dataclass(frozen=True)
class EngineEnvironment:
    """A made environment, as its own Python describes it; `lib_dir` is where its libpython would be."""

    recipe: Recipe
    python: str
    site_packages: str
    lib_dir: str
    python_version: str
    versions: Mapping[str, str]

    def version(self, package: str) -> str | None:
        """Version of a distribution, or of its build for processors (`-cpu`)."""
        if self.recipe.version is not None and package == self.recipe.package:
            return self.recipe.version
        names = (package, package.replace("_", "-"), f"{package}-cpu")
        return next((self.versions[name] for name in names if name in self.versions), None)


def recipes() -> Mapping[str, Recipe]:
    """All requirement files that engines can live in, by name."""
    folder = shipped_configs() / "environments"
    found = (read_recipe(path) for path in sorted(folder.glob("*.txt")))
    return {recipe.name: recipe for recipe in found}


def read_recipe(path: Path) -> Recipe:
    head = dict(re.findall(r"^# ([a-z-]+): (.+)$", path.read_text("utf-8"), re.MULTILINE))
    return Recipe(
        name=head.get("name", path.stem),
        path=path,
        python=head.get("python", "3.11"),
        needs=tuple(head.get("needs", "").split()),
        memory_gib=float(head.get("memory-gib", "1")),
        start_s=float(head.get("start-s", "30")),
        image=head.get("image"),
        package=head.get("package"),
        version=head.get("version"),
        triton=head.get("triton"),
        vendor=_vendor(path.parent, head),
        holds=tuple(head.get("holds", "").split()),
    )


def _vendor(folder: Path, head: Mapping[str, str]) -> Vendor | None:
    """Paths count from the file; absolute ones stay as they are."""
    if "app" not in head:
        return None
    found = {
        name: str((folder / head[name]).absolute()) for name in ("app", "examples", "bin", "backends") if name in head
    }
    app = found["app"]
    return Vendor(app, found.get("examples", f"{app}/examples"), found.get("bin", f"{app}/bin"), found.get("backends"))


def made(recipe: Recipe) -> EngineEnvironment | None:
    """The environment if it has been made; for what only an image holds, the Python that is here already, where
    it has the package."""
    if recipe.image:
        return _inside(recipe)
    python = str(recipe.folder / "bin" / "python")
    if recipe.path.is_dir():
        return _as_it_is(recipe, python)
    ready = recipe.folder / READY
    if not ready.exists():
        return None
    return EngineEnvironment(recipe, python, **json.loads(ready.read_text("utf-8")))


def recipe_of_folder(folder: Path) -> Recipe:
    """An environment that somebody else made. Triton's own backends, vLLM's say, are run where its folder
    `triton-backends` has them."""
    head = {"app": ".", "backends": BACKENDS} if (folder / BACKENDS / "vllm").is_dir() else {}
    return Recipe(folder.name, folder, "", (), 1.0, 30.0, None, vendor=_vendor(folder, head))


def _as_it_is(recipe: Recipe, python: str) -> EngineEnvironment:
    told = json.loads(_answer(python, ASK))
    where = _answer(python, WHERE).strip()
    return EngineEnvironment(recipe, python, **(told | ({"site_packages": where} if where else {})))


def _answer(python: str, question: str) -> str:
    """What a Python says of itself. Raises MakeError."""
    answer = subprocess.run([python, "-c", question], capture_output=True, text=True, cwd="/", check=False)
    if answer.returncode != 0:
        raise MakeError(f"{python} does not run: {answer.stderr.strip()[-500:]}")
    return answer.stdout


def _inside(recipe: Recipe) -> EngineEnvironment | None:
    """The image's own environment, where this runs inside of it."""
    python = shutil.which("python3")
    if python is None or recipe.package is None:
        return None
    try:
        found = EngineEnvironment(recipe, python, **json.loads(_answer(python, ASK)))
    except MakeError:
        return None
    return found if found.version(recipe.package) else None


def ensure(recipe: Recipe, say: Say) -> EngineEnvironment:
    """The environment, made now if need be. Raises MakeError."""
    found = made(recipe)
    if found is not None:
        return found
    if recipe.image:
        raise MakeError(
            f"{recipe.name}: only the image {recipe.image} holds this engine; set runner: compose, or run inside of it"
        )
    say(f"making the environment {recipe.name} (once) from {recipe.path.name}")
    shutil.rmtree(recipe.folder, ignore_errors=True)
    recipe.folder.parent.mkdir(parents=True, exist_ok=True)
    _uv("venv", "--python", _interpreter(recipe), str(recipe.folder))
    _install(recipe)
    told = _answer(str(recipe.folder / "bin" / "python"), ASK)
    (recipe.folder / READY).write_text(told, encoding="utf-8")
    environment = made(recipe)
    assert environment is not None
    return environment


def _interpreter(recipe: Recipe) -> str:
    """The tool's own Python where its version fits, else whatever uv finds."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return str(getattr(sys, "_base_executable", sys.executable)) if own == recipe.python else recipe.python


def _install(recipe: Recipe) -> None:
    """The file names every package, so dependencies are not resolved again (two are kept out on
    purpose). Bytecode is made now: without it vLLM starts three times slower wherever Python may not
    write it later. A CPU build of torch that the usual index lacks is looked for on PyTorch's own.
    """
    command = ("pip", "install", "--no-deps", "--compile-bytecode", "-r", str(recipe.path))
    target = ("--python", str(recipe.folder / "bin" / "python"))
    try:
        _uv(*command, *target)
    except MakeError as first:
        if "cpu" not in recipe.needs:
            raise
        try:
            _uv(*command, *target, "--torch-backend", "cpu")
        except MakeError:
            raise first from None


def uv_environment() -> dict[str, str]:
    """What uv runs in: it reads no pip settings, so that it is told whom the system trusts, and of pip's wheels."""
    env = {"UV_SYSTEM_CERTS": "1"} | os.environ
    if "PIP_FIND_LINKS" in env:
        env.setdefault("UV_FIND_LINKS", env["PIP_FIND_LINKS"])
    env.pop("VIRTUAL_ENV", None)
    return env


def _uv(*arguments: str) -> None:
    from uv import find_uv_bin

    command = [find_uv_bin(), "--quiet", *arguments]
    done = subprocess.run(command, env=uv_environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise MakeError(f"uv {arguments[0]} failed:\n{done.stderr.strip()[-2000:]}")
