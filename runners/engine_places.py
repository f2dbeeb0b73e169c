# SPDX-License-Identifier: Apache-2.0
"""Which engines can run on this machine, in which environments, and why not."""

from collections.abc import Iterator
from dataclasses import dataclass

from engines.registry import known_engines
from runners.environments import made, recipes
from runners.preflight import environment_complaints, machine_complaints


@dataclass(frozen=True)
class EnginePlace:
    """An engine in one of its environments; `first` of the engine's. Without complaints it can run here."""

    engine: str
    summary: str
    environment: str
    first: bool
    made: bool
    complaints: tuple[str, ...]


def engine_places() -> Iterator[EnginePlace]:
    """Every engine in each of its environments."""
    known = recipes()
    for engine in known_engines().values():
        for number, name in enumerate(engine.environments):
            complaints = machine_complaints(engine, known[name])
            environment = made(known[name])
            if environment:
                complaints += environment_complaints(engine, environment)
            yield EnginePlace(
                engine.name, engine.summary, name, number == 0, environment is not None, tuple(complaints)
            )
