# SPDX-License-Identifier: Apache-2.0
"""Which engines can run on this machine, in which environments, and why not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engines.registry import known_engines
from runners.environments import made, recipes
from runners.preflight import environment_complaints, machine_complaints

NOT_STARTED: Final = "not started from an environment: runner attach, or the runner that came with it"


@dataclass(frozen=True)
class EnginePlace:
    """An engine in one of its environments; `first` of the engine's. Without complaints it can run here. None is the
    environment of an engine that has none."""

    engine: str
    summary: str
    environment: str | None
    first: bool
    made: bool
    complaints: tuple[str, ...]


def engine_places() -> Iterator[EnginePlace]:
    """Every engine in each of its environments."""
    known = recipes()
    for engine in known_engines().values():
        if not engine.environments:
            yield EnginePlace(engine.name, engine.summary, None, True, False, (NOT_STARTED,))
        for number, name in enumerate(engine.environments):
            complaints = machine_complaints(engine, known[name])
            environment = made(known[name])
            if environment:
                complaints += environment_complaints(engine, environment)
            yield EnginePlace(
                engine.name, engine.summary, name, number == 0, environment is not None, tuple(complaints)
            )
