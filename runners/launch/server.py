# SPDX-License-Identifier: Apache-2.0
"""What a runner is: one method that brings a launch up as a context manager around a `Server`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engines.launch import Launch
from runners.errors import MendableError


class LaunchError(MendableError):
    """An engine that did not come up, died, or left something behind; the message has its last words."""


@dataclass(frozen=True)
class Server:
    """A running engine. `start_s` is the time from its start to ready; None where we did not start it.
    `build_s` is what it took to make, once, the things that the launch keeps; None where it keeps none.

    `alive` says whether it still runs, `log` what it has written so far. `image_digest` is that of the container image
    that it runs from, None without one.
    """

    url: str
    metrics_url: str
    grpc_url: str | None
    start_s: float | None
    alive: Callable[[], bool]
    log: Callable[[], str]
    build_s: float | None = None
    image_digest: str | None = None

    def address(self, transport: str) -> str:
        """Where requests go by that transport; only engines with gRPC are asked for another than http."""
        return self.url if transport == "http" or self.grpc_url is None else self.grpc_url


class Runner(Protocol):
    """Brings engines up. What an engine is does not depend on how it comes up.

    `folder` is the life's own: the launch's files are written there, and the engine's log.
    Leaving the context ends everything that was started, and raises LaunchError if something is left.
    """

    def up(self, launch: Launch, folder: Path) -> AbstractContextManager[Server]: ...
