# SPDX-License-Identifier: Apache-2.0
"""Runs an engine as a service of a compose file, in a project of its own that ends with the life.

Works with `docker compose`, and with another command of that kind where BAKEOFF_COMPOSE names it
(`podman-compose`). What the service is told stands in the compose file, not in the config's knobs:
the ledger shows what is in force.
"""

import os
import shlex
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engines.contract import Launch
from runners.launch.process import await_ready, last_words, prove_free, refuse_taken, uninterrupted
from runners.launch.server import LaunchError, Server

STOP_S: Final = 30


@dataclass(frozen=True)
class ComposeRunner:
    """Starts `service` of `file`. `settings` are variables that the compose file takes."""

    start_limit_s: float
    file: Path
    service: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def up(self, launch: Launch, folder: Path) -> Iterator[Server]:
        """See `Runner.up`. The launch's address has to be the port that the service publishes."""
        folder.mkdir(parents=True, exist_ok=True)
        refuse_taken(launch.ports)
        project = _Project(self, f"bakeoff-{uuid.uuid4().hex[:12]}")
        began = time.monotonic()
        try:
            said = project.compose("up", "-d", self.service)
            if not project.containers():
                raise LaunchError(f"no container was made of {self.service} in {self.file}:\n{said.strip()[-2000:]}")
            await_ready(launch.url + launch.ready_path, project.exit_code, project.last_lines, self.start_limit_s)
            yield Server(
                url=launch.url,
                metrics_url=launch.metrics_url,
                grpc_url=launch.grpc_url,
                start_s=time.monotonic() - began,
                alive=lambda: project.exit_code() is None,
                log=project.log,
            )
        except BaseException:
            with suppress(LaunchError):
                project.end(folder, launch.ports)
            raise
        else:
            project.end(folder, launch.ports)


@dataclass(frozen=True)
class _Project:
    """One compose project. Containers are found by the label that compose commands give them."""

    runner: ComposeRunner
    name: str

    def compose(self, *arguments: str) -> str:
        """Run the compose command. Raises LaunchError with its own words."""
        command = [*_compose_command(), "-p", self.name, "-f", str(self.runner.file), *arguments]
        return _both(_run(command, {**os.environ, **self.runner.settings}))

    def end(self, folder: Path, wanted: tuple[int, ...]) -> None:
        """Keep the log, end the containers, prove that their ports are free."""
        with uninterrupted():
            (folder / "server.log").write_text(self.log(), encoding="utf-8")
            self.compose("down", "-t", str(STOP_S))
            prove_free(wanted)

    def exit_code(self) -> int | None:
        """None while a container of the project runs; else its exit code, -1 where that is unknown."""
        if self.containers("status=running"):
            return None
        found = self.containers()
        if not found:
            return -1
        return int(_run([_engine(), "inspect", "--format", "{{.State.ExitCode}}", found[0]]).stdout)

    def log(self) -> str:
        """What the containers have written to both of their outputs."""
        return "".join(_both(_run([_engine(), "logs", container])) for container in self.containers())

    def last_lines(self) -> str:
        return last_words(self.log())

    def containers(self, *filters: str) -> list[str]:
        """Ids of the project's containers, ended ones too."""
        label = f"label=com.docker.compose.project={self.name}"
        chosen = [word for one in (label, *filters) for word in ("--filter", one)]
        return _run([_engine(), "ps", "--all", "--quiet", *chosen]).stdout.split()


def _compose_command() -> list[str]:
    return shlex.split(os.environ.get("BAKEOFF_COMPOSE", "docker compose"))


def _engine() -> str:
    return "podman" if "podman" in _compose_command()[0] else "docker"


def _run(command: list[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LaunchError(f"there is no {command[0]} here; install it, or set BAKEOFF_COMPOSE") from None
    if done.returncode != 0:
        raise LaunchError(f"{shlex.join(command)} ended with code {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done


def _both(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr
