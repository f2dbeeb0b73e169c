# SPDX-License-Identifier: Apache-2.0
"""What a config may say that comes over the web: nothing that names a command, a host or a folder of its own choosing.

Whoever may send a config to the service is not thereby somebody who may run programs on the node.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runners.checkpoint import HUB_ID
from runners.config import Bakeoff, ConfigError, ContenderConfig, KnobsConfig, parse_config
from runners.demo_shapes import SHAPES
from runners.places import cache_folder
from runners.service.settings import Settings

MOST_TEXT: Final = 64 * 2**10
"""Characters of a config; a long one by hand has 4,000."""
MOST_CELLS: Final = 20_000
DEFAULT_COMPOSE: Final = ContenderConfig(name="x", engine="x").compose_file


def web_config(text: str, source: str, settings: Settings) -> Bakeoff:
    """The config, if it may come over the web. Raises ConfigError with all that is against it."""
    if len(text) > MOST_TEXT:
        raise ConfigError(f"{source}: {len(text)} characters, a config has at most {MOST_TEXT}")
    _refuse_aliases(text, source)
    bakeoff = parse_config(text, source)
    refused = [f"{source}: {complaint}" for complaint in _complaints(bakeoff, settings)]
    if refused:
        raise ConfigError("\n".join(refused))
    return bakeoff


def _refuse_aliases(text: str, source: str) -> None:
    """A few lines of them can stand for gigabytes."""
    import yaml

    try:
        for token in yaml.scan(text):
            if isinstance(token, yaml.AliasToken):
                raise ConfigError(f"{source}: line {token.start_mark.line + 1}: no aliases over the web; write it out")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not YAML: {error}") from None


def _complaints(bakeoff: Bakeoff, settings: Settings) -> Iterator[str]:
    cells = bakeoff.blocks * len(bakeoff.contenders) * sum(len(w.levels) for w in bakeoff.workloads)
    if cells > MOST_CELLS:
        yield f"blocks: {cells} cells are planned, over the web at most {MOST_CELLS}; take fewer blocks or levels"
    yield from _of_checkpoint(bakeoff.checkpoint, "checkpoint", settings)
    yield from _of_knobs(bakeoff.knobs, "knobs", settings)
    for contender in bakeoff.contenders:
        yield from _of_contender(contender, f"contenders.{contender.name}", settings)
    for workload in bakeoff.workloads:
        yield from _of_file(workload.file, f"workloads.{workload.name}.file", settings)
    if bakeoff.gate is not None:
        yield from _of_file(bakeoff.gate.task, "gate.task", settings)


def _of_contender(contender: ContenderConfig, where: str, settings: Settings) -> Iterator[str]:
    if contender.checkpoint is not None:
        yield from _of_checkpoint(contender.checkpoint, f"{where}.checkpoint", settings)
    yield from _of_knobs(contender.knobs, f"{where}.knobs", settings)
    environment = contender.environment or ""
    if ("/" in environment or environment.endswith(".txt")) and "environment" not in settings.allow:
        yield _not_allowed(f"{where}.environment", "a folder or file of one's own", "environment")
    container = contender.runner == "compose" or contender.service is not None
    if (container or contender.compose_file != DEFAULT_COMPOSE) and "compose" not in settings.allow:
        yield _not_allowed(f"{where}.runner", "containers of a compose file", "compose")
    if (contender.runner == "attach" or contender.address is not None) and "attach" not in settings.allow:
        yield _not_allowed(f"{where}.address", "a server elsewhere", "attach")
    if contender.runner not in ("process", "compose", "attach") and "extra" not in settings.allow:
        yield _not_allowed(f"{where}.runner", "a runner of another package", "extra")


def _of_knobs(knobs: KnobsConfig, where: str, settings: Settings) -> Iterator[str]:
    if knobs.extra and "extra" not in settings.allow:
        yield _not_allowed(f"{where}.extra", f"settings by an engine's own names ({', '.join(knobs.extra)})", "extra")
    if knobs.speculation is not None and knobs.speculation.model is not None:
        yield from _of_checkpoint(knobs.speculation.model, f"{where}.speculation.model", settings)


def _of_checkpoint(wanted: str, where: str, settings: Settings) -> Iterator[str]:
    if wanted in SHAPES:
        return
    if HUB_ID.match(wanted):
        if "hub" not in settings.allow and not _fetched(wanted):
            yield _not_allowed(where, f"{wanted}, which is fetched from the hub", "hub")
        return
    yield from _of_file(wanted, where, settings)


def _fetched(wanted: str) -> bool:
    name, revision = wanted.split("@")
    return (cache_folder() / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / revision).is_dir()


def _of_file(wanted: str | None, where: str, settings: Settings) -> Iterator[str]:
    """A path has to lie, links followed, in a folder that was named at the start."""
    if wanted is None:
        return
    roots = ", ".join(map(str, settings.models)) or "none was named with --models"
    try:
        path = Path(wanted).resolve()
        inside = wanted.startswith("/") and any(path.is_relative_to(root.resolve()) for root in settings.models)
    except (OSError, ValueError):
        inside = False
    if not inside:
        yield f"{where}: {wanted!r} lies outside the folders of models ({roots}); give the whole path of one inside"


def _not_allowed(where: str, what: str, allowance: str) -> str:
    return f"{where}: {what} is refused over the web; take it out, or have the service started with --allow {allowance}"
