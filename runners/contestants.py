# SPDX-License-Identifier: Apache-2.0
"""Each contender with what it takes to start it: engine, checkpoint, runner, environment."""

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from engines.contract import Engine
from engines.launch import Checkpoint
from engines.registry import known_engines
from runners import preflight
from runners.config import Bakeoff, ConfigError, ContenderConfig
from runners.environments import EngineEnvironment, Recipe, Say, ensure, made, read_recipe, recipe_of_folder, recipes
from runners.images import (
    compose_file,
    container_complaints,
    driver_doubt,
    environment_of,
    image_recipe,
    service_image,
)
from runners.launch.attach import AttachRunner
from runners.launch.compose import ComposeRunner
from runners.launch.process import ProcessRunner
from runners.launch.server import Runner
from runners.places import cache_folder

RUNNERS: Final = ("process", "compose", "attach")
ENTRY_POINT_GROUP: Final = "bakeoff.runners"


@dataclass(frozen=True)
class Contestant:
    """A contender with its engine, its checkpoint, its runner and, where it is started here, its environment."""

    config: ContenderConfig
    engine: Engine
    checkpoint: Checkpoint
    runner: Runner
    environment: EngineEnvironment | None


def choose(contender: ContenderConfig, source: str, *, starts: bool) -> tuple[ContenderConfig, Engine, Recipe | None]:
    """Engine and recipe of a contender, if both are known and can run on this machine."""
    where = f"{source}: contenders.{contender.name}"
    engines = known_engines()
    engine = engines.get(contender.engine)
    if engine is None:
        raise ConfigError(
            f"{where}.engine: unknown engine {contender.engine!r}; known are {', '.join(sorted(engines))}"
        )
    if contender.runner not in (*RUNNERS, *(p.name for p in entry_points(group=ENTRY_POINT_GROUP))):
        raise ConfigError(f"{where}.runner: unknown runner {contender.runner!r}; known are {', '.join(RUNNERS)}")
    if contender.runner == "attach":
        if contender.address is None:
            raise ConfigError(f"{where}.address: missing; runner attach needs http://HOST:PORT")
        if engine.triton_stub and contender.model is None:
            raise ConfigError(f"{where}.model: missing; name the model in Triton's repository")
        return contender, engine, None
    if contender.address is not None:
        raise ConfigError(f"{where}.address: runner {contender.runner} takes none; take it out or set runner: attach")
    if contender.runner not in RUNNERS and not engine.environments:
        return contender, engine, None
    if contender.runner == "compose" and contender.environment is None:
        recipe = image_recipe(contender, engine, where)
        refuse(where, container_complaints(contender.gpus) if starts else [])
        return contender, engine, recipe
    recipe = _recipe(contender, engine, where)
    refuse(where, preflight.machine_complaints(engine, recipe) if starts else [])
    return contender, engine, recipe


def _recipe(contender: ContenderConfig, engine: Engine, where: str) -> Recipe:
    """The named environment, else the engine's first (on GPUs: the last). A path names one of one's own."""
    known = recipes()
    if not engine.environments:
        raise ConfigError(f"{where}.runner: {engine.name} is never started here; set runner: attach and address")
    if contender.environment is not None and contender.environment.endswith(".txt"):
        return _own_recipe(contender.environment, engine, where)
    if contender.environment is not None and "/" in contender.environment:
        return _own_folder(contender.environment, engine, where)
    default = engine.environments[-1 if contender.gpus else 0]
    name = contender.environment or default
    if name not in known:
        raise ConfigError(f"{where}.environment: unknown {name!r}; known are {', '.join(sorted(known))}")
    if name not in engine.environments:
        raise ConfigError(
            f"{where}.environment: {name} does not hold {engine.name}; use {' or '.join(engine.environments)}"
        )
    return known[name]


def _own_recipe(path: str, engine: Engine, where: str) -> Recipe:
    """A requirement file that says itself which engines it holds. A relative path counts from the working directory."""
    if not Path(path).is_file():
        raise ConfigError(f"{where}.environment: there is no file {path!r}; correct the path, or name an environment")
    recipe = read_recipe(Path(path).absolute())
    if engine.name not in recipe.holds:
        raise ConfigError(f"{where}.environment: {path} does not hold {engine.name}; add it to its line `# holds:`")
    return recipe


def _own_folder(path: str, engine: Engine, where: str) -> Recipe:
    """An environment that is there already. A relative path counts from the working directory."""
    folder = Path(path).absolute()
    if not (folder / "bin" / "python").exists():
        raise ConfigError(f"{where}.environment: {path} has no bin/python; give the folder of an environment")
    recipe = recipe_of_folder(folder)
    found = made(recipe)
    if found is None or found.version(engine.package) is None:
        raise ConfigError(f"{where}.environment: {path} does not hold {engine.package}; install it there")
    return recipe


def equip(
    contender: ContenderConfig,
    engine: Engine,
    recipe: Recipe | None,
    bakeoff: Bakeoff,
    checkpoint: Checkpoint,
    source: str,
    say: Say,
) -> Contestant:
    """A contender with its environment, made now if need be. Raises MakeError."""
    if recipe is None:
        return Contestant(contender, engine, checkpoint, _runner(contender, bakeoff, checkpoint), None)
    if contender.runner == "compose" and contender.environment is None:
        if doubt := driver_doubt(recipe):
            say(f"WARNING: {doubt}")
        inside = environment_of(recipe)
        return Contestant(contender, engine, checkpoint, _runner(contender, bakeoff, checkpoint), inside)
    environment = ensure(recipe, say)
    refuse(f"{source}: contenders.{contender.name}", preflight.environment_complaints(engine, environment))
    return Contestant(contender, engine, checkpoint, _runner(contender, bakeoff, checkpoint), environment)


def _runner(contender: ContenderConfig, bakeoff: Bakeoff, checkpoint: Checkpoint) -> Runner:
    """Our runner, or one that an installed package declares: a callable that takes the start limit."""
    if contender.runner == "process":
        return ProcessRunner(bakeoff.start_limit_s)
    if contender.runner == "attach":
        return AttachRunner()
    if contender.runner == "compose":
        settings = {"CHECKPOINT": checkpoint.folder, "CACHE": str(cache_folder())}
        service, image = contender.service or contender.engine, service_image(contender, "contenders")
        return ComposeRunner(bakeoff.start_limit_s, compose_file(contender), service, image, settings)
    point = next(p for p in entry_points(group=ENTRY_POINT_GROUP) if p.name == contender.runner)
    made: Runner = point.load()(bakeoff.start_limit_s)
    return made


def refuse(where: str, complaints: list[str]) -> None:
    """Raises ConfigError where there is a complaint."""
    if complaints:
        raise ConfigError("\n".join(f"{where}: {complaint}" for complaint in complaints))
