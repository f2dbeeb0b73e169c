# SPDX-License-Identifier: Apache-2.0
"""Containers as environments: what the image of a service holds, and what this machine needs to run it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from engines.contract import Engine
from engines.images import known_image
from runners.config import ConfigError, ContenderConfig
from runners.environments import EngineEnvironment, Recipe
from runners.gpu import gpus
from runners.launch.compose import compose_command, container_engine
from runners.places import shipped_configs


def image_recipe(contender: ContenderConfig, engine: Engine, where: str) -> Recipe:
    """The image of a contender's service as a recipe that is never made. Raises ConfigError."""
    name = service_image(contender, where)
    image = known_image(name)
    if image is None:
        raise ConfigError(
            f"{where}.environment: nothing is known of the image {name}; name the environment that it holds"
        )
    if image.package != engine.package:
        raise ConfigError(f"{where}.service: {name} holds {image.package}, {engine.name} needs {engine.package}")
    return Recipe(
        name=name,
        path=compose_file(contender),
        python=image.python,
        needs=("nvidia",),
        memory_gib=0.0,
        start_s=180.0,
        image=name,
        package=image.package,
        version=image.version,
        triton=image.triton,
        vendor=image.vendor,
    )


def service_image(contender: ContenderConfig, where: str) -> str:
    """The image of a contender's service. Raises ConfigError."""
    service = contender.service or contender.engine
    name = _services(compose_file(contender), where).get(service, {}).get("image")
    if name is None:
        raise ConfigError(f"{where}.service: {contender.compose_file} has no service {service!r} with an image")
    return str(name)


def compose_file(contender: ContenderConfig) -> Path:
    """The file named; one that does not lie in the working directory is looked for where this tool lies."""
    here = Path(contender.compose_file)
    return here if here.exists() else shipped_configs().parent / contender.compose_file


def _services(file: Path, where: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{where}.compose_file: {file} cannot be read ({error.strerror}); correct the path") from None
    services: dict[str, Any] = found.get("services", {}) if isinstance(found, dict) else {}
    return services


def environment_of(recipe: Recipe) -> EngineEnvironment:
    """What an image holds by the table; nobody has looked inside."""
    return EngineEnvironment(recipe, "python3", "", "", recipe.python, {})


def container_complaints(wanted: tuple[int, ...]) -> list[str]:
    """Compose and, for GPUs, the container toolkit."""
    try:
        subprocess.run([*compose_command(), "version"], capture_output=True, check=True)
        info = subprocess.run(
            [container_engine(), "info", "--format", "json"], capture_output=True, text=True, check=True
        )
    except FileNotFoundError as error:
        return [f"there is no {error.filename} here; install Docker with its compose plugin, or set BAKEOFF_COMPOSE"]
    except subprocess.CalledProcessError as error:
        return [f"{' '.join(error.cmd)} ended with code {error.returncode}; is the Docker daemon running?"]
    if wanted and not _hands_on_gpus(info.stdout):
        return ["containers get no GPUs here; install the NVIDIA Container Toolkit and restart Docker"]
    return []


def driver_doubt(recipe: Recipe) -> str | None:
    """A driver older than the one an image is listed with, which on data center GPUs may do all the same."""
    driver, listed = next((gpu.driver for gpu in gpus()), None), _driver_of(recipe)
    if driver is None or listed is None or _numbers(driver) >= _numbers(listed):
        return None
    return f"driver {driver} is older than {listed}, which {recipe.image} is listed with; update it if nothing starts"


def _hands_on_gpus(info: str) -> bool:
    """Docker's runtimes, or devices found by CDI (podman)."""
    facts = json.loads(info or "{}")
    return "nvidia" in facts.get("Runtimes", {}) or "nvidia" in json.dumps(facts.get("DiscoveredDevices", []))


def _driver_of(recipe: Recipe) -> str | None:
    image = known_image(recipe.image or "")
    return image.driver if image else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
