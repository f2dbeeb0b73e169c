# SPDX-License-Identifier: Apache-2.0
"""Runs an engine as a service of a compose file, in a project of its own that ends with the life.

Works with `docker compose`, and with another command of that kind where BAKEOFF_COMPOSE names it
(`podman-compose`). The service runs the launch, as a process of the host would: its files are written to the
life's folder, which is mounted under its own name, and engines/inside/run_launch.py does the rest.
"""

import json
import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from engines.inside_files import inside_path
from engines.launch import Launch
from runners.gpu import used_bytes
from runners.interrupts import uninterrupted
from runners.launch.process import (
    await_ready,
    build_seconds,
    last_words,
    lay_out,
    prove_free,
    prove_memory_free,
    refuse_taken,
)
from runners.launch.server import LaunchError, Server

STOP_S: Final = 30
LAUNCH: Final = "launch.json"


@dataclass(frozen=True)
class ComposeRunner:
    """Starts `service` of `file`, which runs `image`. `settings` are variables that the compose file takes,
    beside those of the life: LIFE, INSIDE and READY."""

    start_limit_s: float
    file: Path
    service: str
    image: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def up(self, launch: Launch, folder: Path) -> Iterator[Server]:
        """See `Runner.up`. An image that is not here yet is pulled first, in full view."""
        refuse_taken(launch.ports)
        lay_out(launch, folder)
        (folder / LAUNCH).write_text(json.dumps(asdict(launch), indent=2) + "\n", encoding="utf-8")
        life = {
            "LIFE": str(folder.absolute()),
            "INSIDE": inside_path("").rstrip("/"),
            "READY": launch.url + launch.ready_path,
        }
        project = _Project(self, f"bakeoff-{uuid.uuid4().hex[:12]}", life)
        project.pull()
        used_before = used_bytes(launch.gpus)
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
                build_s=build_seconds(launch.prepare),
                image_digest=project.digest(),
            )
        except BaseException:
            with suppress(LaunchError):
                project.end(folder, launch.ports)
            raise
        else:
            project.end(folder, launch.ports)
            prove_memory_free(launch.gpus, used_before)


@dataclass(frozen=True)
class _Project:
    """One compose project. Containers are found by the label that compose commands give them."""

    runner: ComposeRunner
    name: str
    life: Mapping[str, str]

    def pull(self) -> None:
        """Fetch the service's image where it is not here; progress goes to standard error."""
        image = self.runner.image
        if subprocess.run([container_engine(), "image", "inspect", image], capture_output=True).returncode == 0:
            return
        if subprocess.run([container_engine(), "pull", image], stdout=sys.stderr).returncode != 0:
            raise LaunchError(f"the image {image} could not be pulled; see above")

    def digest(self) -> str | None:
        """What the image is, whatever its tag: its registry's digest, or its own ID where it came from none."""
        wanted = "{{.Id}} {{json .RepoDigests}}"
        told = _run([container_engine(), "image", "inspect", "--format", wanted, self.runner.image]).stdout
        own, _, listed = told.partition(" ")
        digests = json.loads(listed or "null") or []
        return next((digest.partition("@")[2] for digest in digests), own.strip() or None)

    def compose(self, *arguments: str) -> str:
        """Run the compose command. Raises LaunchError with its own words."""
        file, profile = str(self.runner.file), self.runner.service
        command = [*compose_command(), "-p", self.name, "-f", file, "--profile", profile, *arguments]
        return _both(_run(command, {**os.environ, **self.runner.settings, **self.life}))

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
        return int(_run([container_engine(), "inspect", "--format", "{{.State.ExitCode}}", found[0]]).stdout)

    def log(self) -> str:
        """What the containers have written to both of their outputs."""
        return "".join(_both(_run([container_engine(), "logs", container])) for container in self.containers())

    def last_lines(self) -> str:
        return last_words(self.log())

    def containers(self, *filters: str) -> list[str]:
        """Ids of the project's containers, ended ones too."""
        label = f"label=com.docker.compose.project={self.name}"
        chosen = [word for one in (label, *filters) for word in ("--filter", one)]
        return _run([container_engine(), "ps", "--all", "--quiet", *chosen]).stdout.split()


def compose_command() -> list[str]:
    """The command that runs compose files here."""
    return shlex.split(os.environ.get("BAKEOFF_COMPOSE", "docker compose"))


def container_engine() -> str:
    """The command that knows single containers and images."""
    return "podman" if "podman" in compose_command()[0] else "docker"


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
