# SPDX-License-Identifier: Apache-2.0
"""Asks a running engine: its probes, its trials, and its counters once nothing runs or waits any more."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from engines.contract import Counters, Engine, Evidence, Probe, Prompt, Reading, Said
from runners.errors import MendableError
from runners.launch.server import Server

POLL_S = 0.03
QUIET_LIMIT_S = 20.0
COUNT_LIMIT_S = 2.0
JSON = {"Content-Type": "application/json"}


class UnsettledError(MendableError):
    """An engine that still had requests running or waiting after all streams had ended."""


def ask(server: Server, engine: Engine, served_name: str, trials: Mapping[str, Said] | None = None) -> Reading:
    """All probes once, read by the engine together with its log and what the trials showed."""
    with httpx.Client(timeout=30.0, trust_env=False) as client:
        answers = {probe.name: _answer(client, server, probe, served_name) for probe in engine.probes()}
    return engine.read(Evidence(answers, server.log(), served_name, trials or {}))


def _answer(client: httpx.Client, server: Server, probe: Probe, served_name: str) -> str | None:
    url = _url(server, probe, served_name)
    try:
        response = (
            client.get(url)
            if probe.body is None
            else client.post(url, content=_body(probe.body, served_name), headers=JSON)
        )
    except httpx.HTTPError:
        return None
    return response.text if response.status_code == 200 else None


def _url(server: Server, probe: Probe, served_name: str) -> str:
    return (server.metrics_url if probe.port == "metrics" else server.url) + probe.path.replace("{name}", served_name)


def _body(body: Mapping[str, Any], served_name: str) -> bytes:
    named = {key: served_name if value == "{name}" else value for key, value in body.items()}
    return json.dumps(named).encode()


def tried(server: Server, engine: Engine, served_name: str, prompt: Prompt, *, first: bool) -> dict[str, Said]:
    """The trials of an engine, in order. `first`: the contender has not lived before."""
    trials = (trial for trial in engine.trials(prompt) if first or not trial.once)
    return {trial.name: _tried(server, trial, served_name) for trial in trials}


def _tried(server: Server, trial: Probe, served_name: str) -> Said:
    """One request to its end, or until it has been silent for its limit; meanwhile the request that stops it."""
    url, began = _url(server, trial, served_name), time.monotonic()
    status, body, silent = None, bytearray(), False
    stop = threading.Timer(trial.stop_after_s, _send, (url, trial.stop or {}, served_name))
    if trial.stop is not None:
        stop.start()
    try:
        with (
            httpx.Client(timeout=trial.limit_s, trust_env=False) as client,
            client.stream("POST", url, content=_body(trial.body or {}, served_name), headers=JSON) as response,
        ):
            status = response.status_code
            for part in response.iter_bytes():
                body += part
    except httpx.TimeoutException:
        silent = True
    except httpx.HTTPError as error:
        body += f"{type(error).__name__}: {error}".encode()
    stop.cancel()
    return Said(status, body.decode("utf-8", "replace"), time.monotonic() - began, silent)


def _send(url: str, body: Mapping[str, Any], served_name: str) -> None:
    with suppress(httpx.HTTPError):
        httpx.post(url, content=_body(body, served_name), headers=JSON, timeout=5.0, trust_env=False)


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
