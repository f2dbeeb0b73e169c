# SPDX-License-Identifier: Apache-2.0
"""Measures a server that somebody else runs: it is neither started nor ended here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from engines.launch import Launch
from runners.launch.server import LaunchError, Server


@dataclass(frozen=True)
class AttachRunner:
    """Finds a server at the launch's address. Blocks are then no replicates: nothing restarts."""

    @contextmanager
    def up(self, launch: Launch, folder: Path) -> Iterator[Server]:
        """See `Runner.up`. Nothing of the launch but its address is used."""
        folder.mkdir(parents=True, exist_ok=True)
        if not _answers(launch):
            raise LaunchError(
                f"nobody answers at {launch.url}{launch.ready_path}; start the server, or correct `address`"
            )
        yield Server(
            url=launch.url,
            metrics_url=launch.metrics_url,
            grpc_url=launch.grpc_url,
            start_s=None,
            alive=lambda: _answers(launch),
            log=lambda: "",
        )


def _answers(launch: Launch) -> bool:
    try:
        return httpx.get(launch.url + launch.ready_path, timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
