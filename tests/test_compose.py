# SPDX-License-Identifier: Apache-2.0
"""The compose runner where there is no compose command, and the compose file as far as text goes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.contract import Command, Launch
from runners.config import read_config
from runners.launch.compose import ComposeRunner
from runners.launch.server import LaunchError
from tests.test_process import free_port

ROOT = Path(__file__).parent.parent


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def test_a_missing_compose_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_COMPOSE", "no-such-compose")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    launch = Launch({}, {}, (), Command(()), url, url, "/health", (port,))
    runner = ComposeRunner(5.0, ROOT / "docker-compose.yml", "vllm")
    message = "there is no no-such-compose here; install it, or set BAKEOFF_COMPOSE"
    with pytest.raises(LaunchError, match=message), runner.up(launch, tmp_path):
        pass


def test_images_are_pinned_and_ports_are_on_loopback() -> None:
    for service in services().values():
        tag = service["image"].rsplit(":", 1)[1]
        assert tag != "latest"
        assert any(character.isdigit() for character in tag)
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert any(volume.endswith(":/checkpoint:ro") for volume in service["volumes"])


def test_both_services_are_told_the_same() -> None:
    flags = {}
    for word in services()["vllm"]["command"][1:]:
        name, _, value = word.removeprefix("--").partition("=")
        flags[name.replace("-", "_")] = value or "True"
    server_only = {"host", "port", "api_server_count", "enable_prompt_tokens_details", "disable_uvicorn_access_log"}
    path = ROOT / "configs" / "containers" / "models" / "checkpoint" / "1" / "model.json"
    told = {name: str(value) for name, value in json.loads(path.read_text()).items()}
    assert told.pop("model") == "/checkpoint"
    assert {name: value for name, value in flags.items() if name not in server_only} == told


def test_the_config_names_services_of_the_file() -> None:
    for contender in read_config(ROOT / "configs" / "containers.yaml").contenders:
        assert contender.service in services()
        assert contender.address == "http://127.0.0.1:8100"
