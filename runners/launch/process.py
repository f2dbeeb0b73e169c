# SPDX-License-Identifier: Apache-2.0
"""Runs an engine as a process group of this host, and ends the whole of it.

Engines rename their children and leave them behind when their parent is killed, so a group is
found by its id, its session and a mark in its environment, never by name.
"""

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import psutil

from engines.launch import Command, Launch
from runners.gpu import holders, used_bytes
from runners.gpu_preflight import told
from runners.interrupts import uninterrupted
from runners.launch import ports
from runners.launch.server import LaunchError, Server

HANDED_ON: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH"),
        *("CUDA_HOME", "CUDA_PATH", "CUDA_DEVICE_ORDER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    )
)
"""All that an engine inherits: what is set for other purposes (VLLM_*, PROMETHEUS_MULTIPROC_DIR,
OMP_*, PYTHON*) must not reach it."""
MARK: Final = "BAKEOFF_LIFE"
POLL_S: Final = 0.05
TERM_S: Final = 20.0
KILL_S: Final = 10.0
LAST_LINES: Final = 20
FIRST_ERRORS: Final = 3
ERROR_LINE: Final = re.compile(r"\w+(Error|Exception): ")
MEMORY_S: Final = 30.0
MEMORY_SLACK_BYTES: Final = 256 * 2**20


@dataclass(frozen=True)
class ProcessRunner:
    """Starts engines on this machine; gives up on one that is not ready after `start_limit_s`."""

    start_limit_s: float

    @contextmanager
    def up(self, launch: Launch, folder: Path) -> Iterator[Server]:
        """See `Runner.up`."""
        refuse_taken(launch.ports)
        lay_out(launch, folder)
        mark, used_before = uuid.uuid4().hex, used_bytes(launch.gpus)
        for command in launch.prepare:
            _prepare(command, folder, mark)
        log = folder / "server.log"
        began = time.monotonic()
        process = _start(launch.serve, folder, log, mark)
        try:
            ready = launch.url + launch.ready_path
            await_ready(ready, process.poll, lambda: last_lines(log), self.start_limit_s)
            yield Server(
                url=launch.url,
                metrics_url=launch.metrics_url,
                grpc_url=launch.grpc_url,
                start_s=time.monotonic() - began,
                alive=lambda: process.poll() is None,
                log=lambda: log.read_text("utf-8", "replace"),
                build_s=build_seconds(launch.prepare),
            )
        finally:
            with uninterrupted():
                end_group(process, mark)
                _prove_gone(process, mark, launch.ports)
                prove_memory_free(launch.gpus, used_before)


def engine_environment(added: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment of an engine's processes: little is inherited, the launch adds the rest."""
    inherited = {name: value for name, value in os.environ.items() if name in HANDED_ON}
    return {**inherited, "LC_ALL": "C.UTF-8", **added, MARK: mark}


def lay_out(launch: Launch, folder: Path) -> None:
    """Write the files and links of a launch below its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in launch.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
    for name, target in launch.links.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)


def refuse_taken(wanted: tuple[int, ...]) -> None:
    """Raises LaunchError where somebody listens on a port that an engine is to have."""
    for port in wanted:
        if not ports.is_free(port):
            raise LaunchError(f"port {port} is in use by {ports.holder(port)}; end it or set `port` in the config")


def _prepare(command: Command, folder: Path, mark: str) -> None:
    """Run a command; one that makes a file only where it is not there, whole: how long the making took is written
    beside it once it has ended well."""
    if command.creates and Path(command.creates).exists() and kept_seconds(command.creates).exists():
        return
    began = time.monotonic()
    if command.creates:
        Path(command.creates).parent.mkdir(parents=True, exist_ok=True)
    log = folder / "prepare.log"
    process = _start(command, folder, log, mark)
    try:
        code = process.wait()
    finally:
        with uninterrupted():
            end_group(process, mark)
    if code != 0:
        raise LaunchError(f"{' '.join(command.argv)} ended with code {code}:\n{last_lines(log)}")
    if command.creates:
        kept_seconds(command.creates).write_text(f"{time.monotonic() - began:.3f}\n", encoding="utf-8")


def kept_seconds(made: str) -> Path:
    """Where it stands how long the making of a kept file took."""
    return Path(f"{made}.seconds")


def build_seconds(commands: tuple[Command, ...]) -> float | None:
    """What the kept files of a launch took to make, now or in an earlier life."""
    notes = [kept_seconds(command.creates) for command in commands if command.creates]
    known = [float(note.read_text("utf-8")) for note in notes if note.exists()]
    return sum(known) if known and len(known) == len(notes) else None


def _start(command: Command, folder: Path, log: Path, mark: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            command.argv,
            cwd=folder,
            env=engine_environment(command.env, mark),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def await_ready(url: str, exit_code: Callable[[], int | None], words: Callable[[], str], limit_s: float) -> None:
    """Ask until `url` answers 200. Raises LaunchError, with the engine's last `words`, as soon as it
    has ended, or when the limit has passed."""
    deadline = time.monotonic() + limit_s
    transport = httpx.HTTPTransport(local_address=ports.OTHER_LOOPBACK)
    with httpx.Client(timeout=5.0, trust_env=False, transport=transport) as client:
        while not _answers(client, url):
            code = exit_code()
            if code is not None:
                raise LaunchError(f"the engine ended with code {code} while starting; its last lines:\n{words()}")
            if time.monotonic() > deadline:
                raise LaunchError(f"not ready after {limit_s:.0f} s; the engine's last lines:\n{words()}")
            time.sleep(POLL_S)


def _answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == 200
    except httpx.HTTPError:
        return False


def last_lines(log: Path) -> str:
    """The end of an engine's log."""
    return last_words(log.read_text("utf-8", "replace") if log.exists() else "")


def last_words(text: str) -> str:
    """The first errors that a log tells of, then its last lines, indented: engines of several processes
    end with a line that says "see root cause above"."""
    lines = text.splitlines()
    errors = dict.fromkeys(line for line in lines[:-LAST_LINES] if ERROR_LINE.search(line))
    shown = [*list(errors)[:FIRST_ERRORS], *(["..."] if errors else []), *lines[-LAST_LINES:]]
    return "\n".join(f"    {line}" for line in shown) or "    (it wrote nothing)"


def end_group(process: subprocess.Popen[bytes], mark: str) -> None:
    """Ask the leader to end, then end whatever is left of its group, session and mark."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERM_S)
    deadline = time.monotonic() + KILL_S
    while (left := members(process.pid, mark)) and time.monotonic() < deadline:
        for member in left:
            _kill(member)
        if process.poll() is None:
            process.wait(KILL_S)
        time.sleep(POLL_S)


def _kill(member: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        member.kill()


def members(leader: int, mark: str) -> list[psutil.Process]:
    """Live processes of the leader's group or session, or with its mark."""
    return [p for p in psutil.process_iter() if p.pid != os.getpid() and _belongs(p, leader, mark)]


def _belongs(process: psutil.Process, leader: int, mark: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if os.getpgid(process.pid) == leader or os.getsid(process.pid) == leader:
            return True
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


def _prove_gone(process: subprocess.Popen[bytes], mark: str, wanted: tuple[int, ...]) -> None:
    left = members(process.pid, mark)
    if left:
        raise LaunchError(f"processes left after the stop: {', '.join(str(p.pid) for p in left)}; end them by hand")
    prove_free(wanted)


def prove_memory_free(wanted: tuple[int, ...], before: int) -> None:
    """Raises LaunchError where GPU memory is not back where it was some seconds after the stop: an engine whose
    front end died can leave workers behind that keep it."""
    deadline = time.monotonic() + MEMORY_S
    while (left := used_bytes(wanted) - before) > MEMORY_SLACK_BYTES:
        if time.monotonic() > deadline:
            by = ", ".join(told(holder) for holder in holders(wanted)) or "no process that is seen from here"
            raise LaunchError(f"{left / 2**30:.1f} GiB of GPU memory are still in use after the stop, by {by}")
        time.sleep(POLL_S)


def prove_free(wanted: tuple[int, ...]) -> None:
    """Raises LaunchError where a port is still held some seconds after the stop."""
    deadline = time.monotonic() + KILL_S
    while taken := [port for port in wanted if not ports.is_free(port)]:
        if time.monotonic() > deadline:
            raise LaunchError(f"port {taken[0]} is still held by {ports.holder(taken[0])} after the stop")
        time.sleep(POLL_S)
