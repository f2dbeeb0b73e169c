# SPDX-License-Identifier: Apache-2.0
"""The service as a process of its own, with the real light pair: from form to verdicts, ended, killed, watched."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from runners.launch import ports
from tests.live_environments import light_environment
from tests.service import light
from tests.test_light import left_of

pytestmark = pytest.mark.light

PORT = 20_000 + 3 * (os.getpid() % 3_000)
SERVICE = PORT - 1_000
PATIENCE_S = 240
WATCHERS = 50


@pytest.fixture(scope="module", autouse=True)
def _environment() -> None:
    light_environment()


@contextmanager
def service(folder: Path, *options: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "runners", "serve", "--port", str(SERVICE), "--results", str(folder / "results")]
    with (
        subprocess.Popen([*command, *options], text=True, start_new_session=True) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{SERVICE}", timeout=60, trust_env=False) as client,
    ):
        try:
            until(lambda: answers(client))
            yield client, process
        finally:
            process.terminate()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def until(true: Callable[[], bool]) -> None:
    """Asks again and again; what it waits for is another process."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come true"
        threading.Event().wait(0.1)


def submit(client: httpx.Client, **changes: Any) -> str:
    answer = client.post("/api/v1/runs", json={"config": light(**{"port": PORT, "blocks": 1, **changes})})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def state_of(client: httpx.Client, run: str) -> str:
    return str(client.get(f"/api/v1/runs/{run}").json()["state"])


def cells_done(client: httpx.Client, run: str) -> int:
    progress = client.get(f"/api/v1/runs/{run}").json()["status"]["progress"]
    return int(progress["cells_done"])


def watch(run: str, seen: list[list[dict[str, Any]]]) -> None:
    mine: list[dict[str, Any]] = []
    address = f"http://127.0.0.1:{SERVICE}/api/v1/runs/{run}/events"
    with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client, client.stream("GET", address) as answer:
        for line in answer.iter_lines():
            if line == "event: end":
                seen.append(mine)
                return
            if line.startswith("data: "):
                mine.append(json.loads(line.removeprefix("data: ")))


def test_fifty_watch_one_run_from_queue_to_verdicts(tmp_path: Path) -> None:
    with service(tmp_path) as (client, _):
        run = submit(client)
        seen: list[list[dict[str, Any]]] = []
        threads = [threading.Thread(target=watch, args=(run, seen)) for _ in range(WATCHERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(seen) == WATCHERS
        assert {mine[-1]["state"] for mine in seen} == {"finished"}
        assert all(mine[-1]["progress"]["cells_done"] == 4 for mine in seen)
        assert client.get(f"/api/v1/runs/{run}").json()["verdicts"][0].startswith("triton: ")
        assert client.get(f"/api/v1/runs/{run}/verdicts").json()["comparisons"][0]["contender"] == "triton"
        assert client.get(f"/runs/{run}/report").status_code == 200
        assert "The record lies in" in client.get(f"/api/v1/runs/{run}/logs/said").text
    assert not left_of(tmp_path)


def test_a_run_under_way_is_cancelled_and_resumed(tmp_path: Path) -> None:
    with service(tmp_path) as (client, _):
        run = submit(client)
        until(lambda: cells_done(client, run) >= 1)
        assert client.post(f"/api/v1/runs/{run}/cancel").json()["state"] == "ending"
        until(lambda: state_of(client, run) == "cancelled")
        assert not left_of(tmp_path)
        assert all(ports.is_free(port) for port in (PORT, PORT + 1, PORT + 2))
        assert client.get("/api/v1/queue").json()["busy"] is None
        assert client.post(f"/api/v1/runs/{run}/resume").status_code == 202
        until(lambda: state_of(client, run) == "finished")


def test_a_service_that_was_killed_finds_its_run_going_on(tmp_path: Path) -> None:
    with service(tmp_path) as (client, process):
        run = submit(client)
        until(lambda: cells_done(client, run) >= 1)
        process.kill()
    with service(tmp_path) as (client, _):
        assert state_of(client, run) == "running"
        until(lambda: state_of(client, run) == "finished")
    assert not list((tmp_path / "results" / run / "lives").glob("*.superseded-*"))


def test_killed_with_its_run_it_resumes_it_and_the_rest_of_the_queue_waits(tmp_path: Path) -> None:
    with service(tmp_path, "--at-end", "end") as (client, process):
        first = submit(client)
        second = submit(client, name="next")
        until(lambda: client.get(f"/api/v1/runs/{first}").json()["status"]["progress"]["lives_done"] >= 1)
        process.kill()
        process.wait()
        until(lambda: not left_of(tmp_path))
    with service(tmp_path, "--at-end", "end") as (client, _):
        assert client.get("/api/v1/queue").json()["queue"][-1] == second
        client.post(f"/api/v1/runs/{second}/cancel")
        until(lambda: state_of(client, first) == "finished")
    lives = tmp_path / "results" / first / "lives"
    assert len([path for path in lives.glob("*/life.json") if ".superseded-" not in str(path)]) == 2


def test_a_run_that_was_interrupted_is_left_where_the_operator_says_so(tmp_path: Path) -> None:
    with service(tmp_path, "--after-restart", "interrupt") as (client, process):
        run = submit(client)
        until(lambda: cells_done(client, run) >= 1)
        (child,) = psutil.Process(process.pid).children()
        process.kill()
        child.send_signal(signal.SIGTERM)
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    with service(tmp_path, "--after-restart", "interrupt") as (client, _):
        assert state_of(client, run) == "interrupted"


def test_a_cap_on_time_ends_a_run(tmp_path: Path) -> None:
    with service(tmp_path) as (client, _):
        config = light(port=PORT, blocks=1, window_s=60.0)
        run = client.post("/api/v1/runs", json={"config": config, "most_hours": 0.001}).json()["id"]
        until(lambda: state_of(client, run) == "stopped")
        reason = client.get(f"/api/v1/runs/{run}").json()["status"]["reason"]
        assert reason == "it took longer than the 0.001 h that it was given; it can be resumed"


def test_a_run_that_cannot_start_says_why(tmp_path: Path) -> None:
    import socket

    with service(tmp_path) as (client, _), socket.create_server(("127.0.0.1", PORT)):
        run = submit(client)
        until(lambda: state_of(client, run) == "failed")
        reason = client.get(f"/api/v1/runs/{run}").json()["status"]["reason"]
        assert reason.startswith(f"config.yaml: port: {PORT} is in use by process {os.getpid()} ")
