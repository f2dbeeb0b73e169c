# SPDX-License-Identifier: Apache-2.0
"""The compose runner on real containers: podman with runc, an image made of this machine's own files that holds the
light pair's engines. `make test-containers`; needs root, podman, runc, and podman-compose in BAKEOFF_COMPOSE."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from runners.environments import EngineEnvironment, ensure, recipes
from runners.launch import ports
from runners.report.record import LifeRecord

pytestmark = pytest.mark.containers

ROOT = Path(__file__).parent.parent
IMAGE = "localhost/bakeoff-light:test"
PORT = 18370
PROGRAMS = ("bash", "sh", "env", "cat", "rm")
"""Triton starts its stub by a shell."""


@pytest.fixture(scope="module")
def environment() -> EngineEnvironment:
    compose = os.environ.get("BAKEOFF_COMPOSE", "podman-compose").split()[0]
    missing = [program for program in ("podman", "runc", compose) if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'}")
    return ensure(recipes()["llamacpp"], print)


@pytest.fixture(scope="module")
def image(environment: EngineEnvironment, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The environment, its Python and the libraries of both, as one layer."""
    archive = tmp_path_factory.mktemp("image") / "root.tar"
    base = Path(environment.lib_dir).parent
    with tarfile.open(archive, "w") as tar:
        tar.add(environment.recipe.folder, filter=_plain)
        for part in ("bin", f"lib/python{environment.python_version}", "lib"):
            tar.add(base / part, recursive=part != "lib", filter=_plain)
        for library in base.glob("lib/libpython*"):
            tar.add(library)
        for file in _files_of_programs(environment):
            tar.add(os.path.realpath(file), arcname=file)
        for folder in ("tmp", "proc", "dev/shm", "etc"):
            tar.addfile(_folder(folder))
    subprocess.run(["podman", "import", "--quiet", str(archive), IMAGE], check=True, capture_output=True)
    return IMAGE


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = ("/test", "/idlelib", "/__pycache__")
    return None if member.name.endswith(left_out) and "site-packages" not in member.name else member


def _folder(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
    return entry


def _files_of_programs(environment: EngineEnvironment) -> set[str]:
    """The shell and its like, and every library that these, Python and Triton load."""
    triton = Path(environment.site_packages) / "pytriton" / "tritonserver"
    stub = triton / "python_backend_stubs" / environment.python_version / "triton_python_backend_stub"
    programs = [f"/bin/{name}" for name in PROGRAMS]
    extensions = [*Path(environment.site_packages).rglob("*.so"), *Path(environment.lib_dir).rglob("lib-dynload/*.so")]
    found = {*programs, "/lib64/ld-linux-x86-64.so.2"}
    env = {**os.environ, "LD_LIBRARY_PATH": environment.lib_dir}
    for file in [*programs, triton / "bin" / "tritonserver", stub, *extensions]:
        told = subprocess.run(["ldd", str(file)], capture_output=True, text=True, env=env, check=False).stdout
        found |= {word for line in told.splitlines() for word in line.split() if word.startswith(("/lib", "/usr/lib"))}
    return found


def compose_file(folder: Path, image: str, environment: EngineEnvironment) -> Path:
    """The services of the light pair, in the form of docker-compose.yml's, and one that ends at once."""
    service: dict[str, Any] = {
        "image": image,
        "network_mode": "host",
        "shm_size": "512m",
        "volumes": [
            "${CHECKPOINT}:${CHECKPOINT}:ro",
            "${CACHE}/converted:${CACHE}/converted",
            "${INSIDE}:${INSIDE}:ro",
            "${LIFE}:${LIFE}",
        ],
        "entrypoint": [environment.python, "${INSIDE}/run_launch.py", "${LIFE}/launch.json"],
        "command": [],
    }
    dying = {**service, "entrypoint": ["/bin/sh", "-c", "echo no weights here; exit 4"]}
    path = folder / "compose.yml"
    services = {"llamacpp_openai": service, "triton_llamacpp": service, "dying": dying}
    path.write_text(yaml.safe_dump({"services": services}))
    return path


def compare(folder: Path, *contenders: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    config = {
        "name": "boxes",
        "checkpoint": "demo",
        "knobs": {"max_model_len": 256, "max_num_seqs": 4, "dtype": "float32"},
        "contenders": list(contenders),
        "workloads": [
            {"name": "w", "input_tokens": 64, "output_tokens": {"low": 6, "high": 10}, "concurrency": [2]},
        ],
        "blocks": 1,
        "window_s": 0.3,
        "start_limit_s": 60,
        "port": PORT,
    }
    (folder / "boxes.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "runners", "compare", "boxes.yaml", "--out", "out"]
    env = {"BAKEOFF_COMPOSE": "podman-compose", **os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)


def boxed(name: str, engine: str, service: str | None = None) -> dict[str, Any]:
    found = {"name": name, "engine": engine, "runner": "compose", "compose_file": "compose.yml"}
    return found | {"environment": "llamacpp"} | ({"service": service} if service else {})


def nothing_is_left() -> bool:
    left = subprocess.run(["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True).stdout
    return not left and all(ports.is_free(port) for port in (PORT, PORT + 1, PORT + 2))


def test_the_same_launch_in_a_container_and_out_of_it(
    tmp_path: Path, image: str, environment: EngineEnvironment
) -> None:
    compose_file(tmp_path, image, environment)
    bare = {"name": "bare", "engine": "llamacpp_openai"}
    box, triton = boxed("box", "llamacpp_openai"), boxed("triton-box", "triton_llamacpp")
    done = compare(tmp_path, bare, box, triton)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [row["engine"] for row in rows] == ["bare", "box", "triton-box"]
    for row in rows:
        assert row["requests_done"] == row["requests_due"] > 0
        assert row["token_mismatches"] == 0
    lives = {name: tmp_path / "out" / "lives" / f"b01-{name}" for name in ("bare", "box")}
    launches = [(life / "launch.json").read_text().replace(str(life), "LIFE") for life in lives.values()]
    names = [json.loads(text)["links"] for text in launches]
    assert names[0] == names[1]
    records = [LifeRecord.model_validate_json((life / "life.json").read_text()) for life in lives.values()]
    assert records[0].ledger == records[1].ledger
    assert records[0].image_digest is None
    assert records[1].image_digest is not None
    assert records[1].image_digest.startswith("sha256:")
    assert "engine xllamacpp" in (lives["box"] / "engine" / "server.log").read_text()
    assert nothing_is_left()


def test_a_container_that_dies_shows_its_last_lines(tmp_path: Path, image: str, environment: EngineEnvironment) -> None:
    compose_file(tmp_path, image, environment)
    done = compare(tmp_path, boxed("box", "llamacpp_openai", "dying"))
    assert done.returncode == 1
    assert "the engine ended with code 4 while starting" in done.stderr
    assert "no weights here" in done.stderr
    assert nothing_is_left()
