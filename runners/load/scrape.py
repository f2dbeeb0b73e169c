# SPDX-License-Identifier: Apache-2.0
"""Asks a running engine: its probes, and its counters once nothing runs or waits any more."""

import time
from collections.abc import Callable

import httpx

from engines.contract import Counters, Engine, Evidence, Probe, Reading
from runners.errors import MendableError
from runners.launch.server import Server

POLL_S = 0.03
QUIET_LIMIT_S = 20.0
COUNT_LIMIT_S = 2.0


class UnsettledError(MendableError):
    """An engine that still had requests running or waiting after all streams had ended."""


def ask(server: Server, engine: Engine, served_name: str) -> Reading:
    """All probes once, read by the engine together with its log."""
    with httpx.Client(timeout=30.0, trust_env=False) as client:
        answers = {probe.name: _answer(client, server, probe, served_name) for probe in engine.probes()}
    return engine.read(Evidence(answers, server.log(), served_name))


def _answer(client: httpx.Client, server: Server, probe: Probe, served_name: str) -> str | None:
    base = server.metrics_url if probe.port == "metrics" else server.url
    url = base + probe.path.replace("{name}", served_name)
    try:
        response = client.get(url) if probe.body is None else client.post(url, json=dict(probe.body))
    except httpx.HTTPError:
        return None
    return response.text if response.status_code == 200 else None


def settled_counters(
    server: Server,
    engine: Engine,
    served_name: str,
    expect_requests: float | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Counters:
    """The engine's counters when it is quiet and two readings agree.

    Where the engine counts finished requests, its count is given COUNT_LIMIT_S to reach
    `expect_requests`: it is written a little after the last byte. Raises UnsettledError.
    """
    began = time.monotonic()
    before = None
    while True:
        now = ask(server, engine, served_name).counters
        waited_s = time.monotonic() - began
        quiet = not now.running and not now.waiting
        counted = expect_requests is None or now.requests is None or now.requests >= expect_requests
        if quiet and now == before and (counted or waited_s > COUNT_LIMIT_S):
            return now
        if waited_s > QUIET_LIMIT_S:
            raise UnsettledError(
                f"{now.running} requests running and {now.waiting} waiting {waited_s:.0f} s after the last stream ended"
            )
        before = now
        sleep(POLL_S)
