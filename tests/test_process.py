# SPDX-License-Identifier: Apache-2.0
"""Bringing up and ending process groups, with small stand-ins for an engine's habits."""

import os
import socket
import sys
from pathlib import Path

import psutil
import pytest

from engines.launch import Command, Launch
from runners.gpu import Holder
from runners.launch import ports, process
from runners.launch.process import ProcessRunner, engine_environment, last_words
from runners.launch.server import LaunchError

SERVE = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *a): pass
print("up", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
subprocess.Popen([sys.executable, "-c", child])
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def launch(port: int, program: str, prepare: tuple[Command, ...] = ()) -> Launch:
    url = f"http://127.0.0.1:{port}"
    serve = Command((sys.executable, "-c", program, str(port)), {"ADDED": "1"})
    return Launch({"a/b.txt": "text"}, {"link": sys.executable}, prepare, serve, url, url, "/health", (port,))


def test_up_and_down(tmp_path: Path) -> None:
    port = free_port()
    with ProcessRunner(30.0).up(launch(port, SERVE), tmp_path) as server:
        assert server.alive()
        assert server.start_s is not None
        assert server.log() == "up\n"
        assert (tmp_path / "a/b.txt").read_text() == "text"
        assert (tmp_path / "link").resolve() == Path(sys.executable).resolve()
        assert not ports.is_free(port)
    assert not server.alive()
    assert ports.is_free(port)


def test_children_that_ignore_the_end_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One child in the group, one in a session of its own, both deaf to SIGTERM, and so is their parent."""
    monkeypatch.setattr("runners.launch.process.TERM_S", 0.2)
    with ProcessRunner(30.0).up(launch(free_port(), STUBBORN + SERVE), tmp_path):
        children = psutil.Process().children(recursive=True)
        assert len(children) >= 3
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_an_engine_that_dies_shows_its_last_lines(tmp_path: Path) -> None:
    dying = "import sys; print('loading'); print('CUDA out of memory'); sys.exit(3)"
    with pytest.raises(LaunchError) as caught, ProcessRunner(60.0).up(launch(free_port(), dying), tmp_path):
        pass
    assert "the engine ended with code 3 while starting" in str(caught.value)
    assert "CUDA out of memory" in str(caught.value)


def test_the_root_cause_is_shown_though_it_lies_further_up() -> None:
    log = ["starting", "ValueError: block size 7", "ValueError: block size 7", *(f"line {i}" for i in range(30))]
    shown = [line.strip() for line in last_words("\n".join(log)).splitlines()]
    assert shown == ["ValueError: block size 7", "...", *(f"line {i}" for i in range(10, 30))]
    assert last_words("") == "    (it wrote nothing)"


def test_an_engine_that_never_answers_is_ended(tmp_path: Path) -> None:
    idle = "import time; print('thinking', flush=True); time.sleep(600)"
    with pytest.raises(LaunchError) as caught, ProcessRunner(0.3).up(launch(free_port(), idle), tmp_path):
        pass
    assert "not ready after 0 s" in str(caught.value)
    assert not psutil.Process().children(recursive=True)


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = rf"port {port} is in use by process {os.getpid()}"
        with pytest.raises(LaunchError, match=message), ProcessRunner(30.0).up(launch(port, SERVE), tmp_path):
            pass
    assert not (tmp_path / "server.log").exists()


def test_an_exception_inside_ends_the_engine(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(KeyboardInterrupt), ProcessRunner(30.0).up(launch(port, SERVE), tmp_path):
        raise KeyboardInterrupt
    assert ports.is_free(port)
    assert not psutil.Process().children(recursive=True)


def test_what_is_made_once_is_not_made_again(tmp_path: Path) -> None:
    made = tmp_path / "cache" / "made"
    program = f"open({str(made)!r}, 'a').write('x')"
    prepare = (Command((sys.executable, "-c", program), creates=str(made)),)
    for life in ("1", "2"):
        with ProcessRunner(30.0).up(launch(free_port(), SERVE, prepare), tmp_path / life):
            pass
    assert made.read_text() == "x"


def test_a_preparation_that_fails_says_so(tmp_path: Path) -> None:
    prepare = (Command((sys.executable, "-c", "raise SystemExit('no such layer')")),)
    runner, failing = ProcessRunner(30.0), launch(free_port(), SERVE, prepare)
    with pytest.raises(LaunchError, match="no such layer"), runner.up(failing, tmp_path):
        pass


def test_inherited_settings_do_not_reach_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLLM_USE_V1", "VLLM_USE_RUST_FRONTEND", "PROMETHEUS_MULTIPROC_DIR", "OMP_NUM_THREADS", "PYTHONPATH"):
        monkeypatch.setenv(name, "inherited")
    environment = engine_environment({"VLLM_NO_USAGE_STATS": "1"}, "mark")
    assert "inherited" not in environment.values()
    assert environment["VLLM_NO_USAGE_STATS"] == "1"
    assert environment["BAKEOFF_LIFE"] == "mark"
    assert environment["PATH"] == os.environ["PATH"]


def test_a_probe_of_a_silent_port_never_connects_to_itself() -> None:
    """From the port's own address the kernel may choose that very port: the probe then answers itself."""
    port = free_port()
    assert all(ports.is_free(port) for _ in range(200))


def test_gpu_memory_that_stays_in_use_names_its_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton whose stub had died left 57 GiB on a GPU after it had itself ended."""
    used = iter([0, 57 * 2**30])
    monkeypatch.setattr(process, "used_bytes", lambda wanted: next(used))
    monkeypatch.setattr(process, "holders", lambda wanted: (Holder(0, 4711, "VLLM::EngineCore", 57 * 2**30),))
    monkeypatch.setattr(process, "MEMORY_S", -1.0)
    port = free_port()
    message = r"57.0 GiB of GPU memory are still in use after the stop, by process 4711 \(VLLM::EngineCore, 57.0 GiB\)"
    with pytest.raises(LaunchError, match=message), ProcessRunner(30.0).up(launch(port, SERVE), tmp_path):
        pass
    assert ports.is_free(port)
