# SPDX-License-Identifier: Apache-2.0
"""The compose runner where there is no compose command, the compose file, and what is known of images."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.images import known_image
from engines.launch import Command, Launch
from engines.registry import ENGINES
from runners import images
from runners.config import read_config
from runners.gpu import Gpu
from runners.launch.compose import ComposeRunner
from runners.launch.server import LaunchError
from runners.node_lock import DEFAULT
from tests.test_process import free_port

ROOT = Path(__file__).parent.parent


OWN = ("service", "service-gpu")


def composed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def services() -> dict[str, Any]:
    """Of engines."""
    return {name: service for name, service in composed().items() if name not in OWN}


def test_a_missing_compose_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_COMPOSE", "no-such-compose")
    monkeypatch.setattr("runners.launch.compose.container_engine", lambda: "true")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    launch = Launch({}, {}, (), Command(()), url, url, "/health", (port,))
    runner = ComposeRunner(5.0, ROOT / "docker-compose.yml", "vllm_openai", "image")
    message = "there is no no-such-compose here; install it, or set BAKEOFF_COMPOSE"
    with pytest.raises(LaunchError, match=message), runner.up(launch, tmp_path):
        pass


def test_services_are_pinned_and_the_launchs_own() -> None:
    """One for each engine that an image holds; servers listen on loopback, which is the host's own."""
    assert set(services()) == {"triton_llmapi", "triton_engine", "trtllm_serve", "triton_vllm", "vllm_openai"}
    for name, service in services().items():
        image = known_image(service["image"])
        assert image is not None
        assert image.package == ENGINES[name].package
        assert service["profiles"] == [name]
        assert service["network_mode"] == "host"
        assert service["entrypoint"] == ["python3", "${INSIDE}/run_launch.py", "${LIFE}/launch.json"]
        assert service["environment"]["HF_TOKEN"] == "${HF_TOKEN:-}"
        assert {"ulimits", "shm_size", "ipc", "healthcheck", "deploy"} <= set(service)
        assert any(volume.startswith("${CHECKPOINT") and volume.endswith(":ro") for volume in service["volumes"])


@pytest.mark.parametrize("name", OWN)
def test_the_service_starts_when_it_is_asked_for_on_loopback_with_the_nodes_lock(name: str) -> None:
    service = composed()[name]
    assert service["profiles"] == [name]
    assert service["network_mode"] == service["pid"] == "host"
    assert service["command"][:2] == ["--host", "${SERVICE_HOST:-127.0.0.1}"]
    assert service["environment"]["BAKEOFF_NODE_LOCK"] == "/node/" + Path(DEFAULT).name
    assert f"{Path(DEFAULT).parent}:/node" in service["volumes"]
    assert ("deploy" in service) == (name == "service-gpu")


@pytest.mark.parametrize("name", ["compare", "two-by-two"])
def test_the_configs_name_services_of_the_file(name: str) -> None:
    for contender in read_config(ROOT / "configs" / f"{name}.yaml").contenders:
        assert contender.runner == "compose"
        assert contender.engine in services()


def test_what_images_hold() -> None:
    trtllm = known_image("nvcr.io/nvidia/tritonserver:26.03-trtllm-python-py3")
    assert trtllm is not None
    assert (trtllm.package, trtllm.version, trtllm.triton) == ("tensorrt_llm", "1.2.0", "/opt/tritonserver")
    vllm = known_image("nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3@sha256:" + "0" * 64)
    assert vllm is not None
    assert (vllm.package, vllm.version, vllm.vendor) == ("vllm", "0.24.0", None)
    assert known_image("nvcr.io/nvidia/tritonserver:26.10-trtllm-python-py3") is None
    assert known_image("mine:1") is None


def test_the_whole_launch_of_each_path_is_planned_without_a_gpu() -> None:
    command = [sys.executable, "-m", "runners", "plan", str(ROOT / "configs" / "compare.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    for expected in (
        "# triton-llmapi: TensorRT-LLM's LLM API inside Triton Inference Server",
        "## link models/bakeoff-XXXXXXXXXXXX/1/model.py -> /app/all_models/llmapi/tensorrt_llm/1/model.py",
        "python3 /app/scripts/launch_triton_server.py --tritonserver /LIFE/engine/tritonserver",
        "# triton-engine: a compiled TensorRT-LLM engine",
        "python3 /app/examples/models/core/llama/convert_checkpoint.py --model_dir",
        "python3 /usr/local/bin/trtllm-build --checkpoint_dir",
        "python3 /app/tools/fill_template.py -i /LIFE/engine/models/tensorrt_llm/config.pbtxt",
        "# vllm: vLLM with its own OpenAI-compatible server",
        "--max-model-len 2048 --max-num-seqs 256",
    ):
        assert expected in done.stdout


FAKE = """#!/bin/sh
case "$1" in
  info) echo '{info}' ;;
  *) exit 0 ;;
esac
"""


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (
            '{"Runtimes": {"runc": {}}}',
            ["containers get no GPUs here; install the NVIDIA Container Toolkit and restart Docker"],
        ),
        ('{"Runtimes": {"nvidia": {}}}', []),
        ('{"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}', []),
    ],
)
def test_what_containers_with_gpus_need(
    info: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(FAKE.replace("{info}", info))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("BAKEOFF_COMPOSE", raising=False)
    assert images.container_complaints((0,)) == told
    assert images.container_complaints(()) == []


@pytest.mark.parametrize(("driver", "doubted"), [("580.159.04", True), ("590.44.01", False), ("600.1", False)])
def test_an_older_driver_is_a_doubt(driver: str, doubted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On data center GPUs an image may run under an older driver than it is listed with."""
    monkeypatch.setattr(images, "gpus", lambda: (Gpu(0, "NVIDIA H200", "u", driver, "90", 1, 0),))
    contender = read_config(ROOT / "configs" / "compare.yaml").contenders[0]
    doubt = images.driver_doubt(images.image_recipe(contender, ENGINES["triton_llmapi"], "x"))
    assert (doubt is not None) == doubted
    assert doubt is None or "driver 580.159.04 is older than 590.44.01" in doubt


def test_no_docker_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BAKEOFF_COMPOSE", raising=False)
    told = images.container_complaints((0,))
    assert told == ["there is no docker here; install Docker with its compose plugin, or set BAKEOFF_COMPOSE"]


def test_a_launch_is_run_inside_a_container_as_outside(tmp_path: Path) -> None:
    """Commands run in order, those that keep something once; then the server takes the process over."""
    made = tmp_path / "kept" / "made"
    append = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"
    launch = {
        "prepare": [
            {"argv": [sys.executable, "-c", append, str(made), "x"], "env": {}, "creates": str(made)},
            {"argv": [sys.executable, "-c", append, "each", "y"], "env": {}, "creates": None},
        ],
        "serve": {
            "argv": [sys.executable, "-c", "import os; print(os.environ['ADDED'], os.getcwd())"],
            "env": {"ADDED": "1"},
        },
    }
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    program = ROOT / "engines" / "inside" / "run_launch.py"
    for _ in range(2):
        command = [sys.executable, str(program), str(tmp_path / "launch.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == f"1 {tmp_path}\n"
    assert made.read_text() == "x"
    assert (tmp_path / "each").read_text() == "yy"
    assert float((tmp_path / "kept" / "made.seconds").read_text()) >= 0
