# SPDX-License-Identifier: Apache-2.0
"""An engine that answers with words of the prompt, over the OpenAI protocol, and a runner that starts it.

The engine is served by this package itself, with the Python that runs bakeoff.
"""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import openai_wire
from engines.contract import (
    Answer,
    Call,
    Capabilities,
    Counters,
    Engine,
    EventData,
    Evidence,
    LedgerRow,
    Probe,
    Prompt,
    Reading,
    RowKind,
)
from engines.launch import Checkpoint, Command, Knobs, Launch, Place
from runners.launch.process import ProcessRunner
from runners.launch.server import Server


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    program = str(Path(__file__).with_name("serve.py"))
    argv = (sys.executable, program, str(place.http_port), place.served_name, str(knobs.max_model_len))
    return Launch({}, {}, (), Command(argv), place.url, place.url, "/health", (place.http_port,))


def probes() -> tuple[Probe, ...]:
    return (Probe("models", "/v1/models"),)


def read(evidence: Evidence) -> Reading:
    model = openai_wire.served(evidence)
    capabilities = Capabilities(
        model=model.get("id", ""),
        engine_version=model.get("version"),
        front_end="example",
        max_model_len=model.get("max_model_len"),
        tokens_per_event=True,
        forces_length=True,
        reports_cached_tokens=False,
        speculates=False,
    )
    version = LedgerRow("engine version", model.get("version"), "/v1/models", RowKind.IDENTITY)
    return Reading(capabilities, (version,), Counters())


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    body: dict[str, Any] = openai_wire.base_body(prompt, capabilities.model)
    return Call("/v1/completions", json.dumps(body).encode())


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    event = openai_wire.parse_event(answer, data)
    if event is None:
        return
    for choice in event.get("choices") or ():
        answer.tokens += 1
        openai_wire.fold_choice(answer, choice)
    openai_wire.fold_usage(answer, event, missing_cached=None)


ENGINE = Engine(
    name="echo",
    summary="an example from another package",
    environments=(),
    package="bakeoff_example",
    plan=plan,
    probes=probes,
    read=read,
    encode=encode,
    fold=fold,
)


@dataclass(frozen=True)
class NearbyRunner:
    """Says that it was used, and starts a process."""

    start_limit_s: float

    def up(self, launch: Launch, folder: Path) -> AbstractContextManager[Server]:
        print("started nearby", file=sys.stderr)
        return ProcessRunner(self.start_limit_s).up(launch, folder)


runner: Callable[[float], NearbyRunner] = NearbyRunner
