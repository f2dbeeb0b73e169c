# SPDX-License-Identifier: Apache-2.0
"""Everything that a comparison needs before its first server starts, checked and resolved."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from engines.launch import Checkpoint, Launch, Place, PlanError
from runners import preflight
from runners.asked import check_prompts, shortest_context, with_files
from runners.cells import Life, expand
from runners.checkpoint import find_checkpoint
from runners.config import Bakeoff, ConfigError, parse_config
from runners.contestants import Contestant, choose, equip, refuse
from runners.environments import Say, made
from runners.gate_task import Question, read_task
from runners.gpu import described, gpus, holders
from runners.gpu_preflight import disk_complaints, gpu_complaints
from runners.load.prompt_file import PromptFile
from runners.load.rendering import DrawError, Rendering, load_rendering
from runners.places import cache_folder


@dataclass(frozen=True)
class Session:
    """A config made ready to run."""

    bakeoff: Bakeoff
    text: str
    source: str
    checkpoint: Checkpoint
    rendering: Rendering
    contestants: Mapping[str, Contestant]
    lives: tuple[Life, ...]
    unsupported: Mapping[str, str]
    task: tuple[Question, ...] = ()
    files: Mapping[str, PromptFile] = field(default_factory=dict)

    def plan(self, life: Life, folder: Path, served_name: str) -> Launch:
        """The launch of one life. Raises ConfigError for a knob that the engine lacks."""
        contestant = self.contestants[life.contender.name]
        place = self._place(contestant, folder, served_name)
        try:
            launch = contestant.engine.plan(contestant.checkpoint, self.bakeoff.knobs_of(life.contender), place)
        except PlanError as error:
            raise ConfigError(f"{self.source}: contenders.{life.contender.name}: {error}") from None
        if life.contender.transport != "http" and launch.grpc_url is None:
            raise ConfigError(
                f"{self.source}: contenders.{life.contender.name}.transport: {contestant.engine.name} is not "
                "served over gRPC; say http"
            )
        address = life.contender.address
        return launch if address is None else _at(address, launch)

    def first_lives(self) -> list[Life]:
        """One life of each contender that can run the checkpoint."""
        first = self.lives[: len(self.bakeoff.contenders)]
        return [life for life in first if life.contender.name not in self.unsupported]

    def _place(self, contestant: Contestant, folder: Path, served_name: str) -> Place:
        port, environment = self.bakeoff.port, contestant.environment
        return Place(
            python=environment.python if environment else "python3",
            site_packages=environment.site_packages if environment else "",
            lib_dir=environment.lib_dir if environment else "",
            python_version=environment.python_version if environment else "",
            version=(environment.version(contestant.engine.package) if environment else None) or "",
            folder=str(folder.absolute()),
            cache=str(cache_folder() / "converted"),
            served_name=served_name,
            http_port=port,
            grpc_port=port + 1,
            metrics_port=port + 2,
            gpus=contestant.config.gpus,
            gpu=described(contestant.config.gpus[0]) if contestant.config.gpus else "",
            triton=environment.recipe.triton if environment else None,
            vendor=environment.recipe.vendor if environment else None,
        )


def _at(address: str, launch: Launch) -> Launch:
    """The launch at another address. Triton serves gRPC one port above HTTP and metrics two; other
    engines are not asked there."""
    parts = urlsplit(address)
    port = parts.port or 80
    return replace(
        launch,
        url=address,
        metrics_url=f"http://{parts.hostname}:{port + 2}",
        grpc_url=f"grpc://{parts.hostname}:{port + 1}" if launch.grpc_url else None,
        ports=(port,),
    )


def open_session(text: str, source: str, say: Say, *, starts: bool = True) -> Session:
    """Check a config from top to bottom and make what it needs. Raises ConfigError or MakeError.

    What costs nothing comes first, so that a wrong config is refused in seconds. `starts`: engines are to be
    started here, for which this machine has to have what they need.
    """
    bakeoff = parse_config(text, source)
    chosen = [choose(contender, source, starts=starts) for contender in bakeoff.contenders]
    if starts:
        refuse(source, _port_complaints(bakeoff))
        refuse(source, _gpu_complaints(bakeoff))
    checkpoint = find_checkpoint(bakeoff.checkpoint, source, say)
    checkpoints = {
        c.name: find_checkpoint(c.checkpoint, f"{source}: contenders.{c.name}", say) if c.checkpoint else checkpoint
        for c in bakeoff.contenders
    }
    _check_context(bakeoff, checkpoints, source)
    rendering = _rendering(checkpoint, source)
    bakeoff, files = with_files(bakeoff, rendering, source)
    check_prompts(bakeoff, rendering, source)
    task = _task(bakeoff, rendering, source)
    contestants = [equip(*choice, bakeoff, checkpoints[choice[0].name], source, say) for choice in chosen]
    session = Session(
        bakeoff=bakeoff,
        text=text,
        source=source,
        checkpoint=checkpoint,
        rendering=rendering,
        contestants={c.config.name: c for c in contestants},
        lives=expand(bakeoff),
        unsupported=_unsupported(contestants),
        task=task,
        files=files,
    )
    launches = [session.plan(life, Path("/nonexistent"), "planned") for life in session.first_lives()]
    if starts and any(command.creates for launch in launches for command in launch.prepare):
        refuse(source, disk_complaints(cache_folder(), Path(checkpoint.folder)))
    return session


def check_contenders(bakeoff: Bakeoff, source: str) -> bool:
    """Whether all contenders' environments have been made; nothing is made or started. Raises ConfigError for what
    cannot run on this machine, whatever else is running now."""
    there = {gpu.index for gpu in gpus()}
    all_made = True
    for contender in bakeoff.contenders:
        where = f"{source}: contenders.{contender.name}"
        _, engine, recipe = choose(contender, source, starts=False)
        absent = sorted(set(contender.gpus) - there)
        refuse(f"{where}.gpus", [f"there is no GPU {index} here; take it out" for index in absent])
        if recipe is not None and contender.runner == "process":
            refuse(where, preflight.lasting_complaints(engine, recipe))
            all_made = all_made and made(recipe) is not None
    return all_made


def _unsupported(contestants: list[Contestant]) -> dict[str, str]:
    """Contenders whose engine cannot run their checkpoint, as far as that is known before the start."""
    found = {}
    for contestant in contestants:
        environment = contestant.environment
        version = (environment.version(contestant.engine.package) if environment else None) or ""
        reason = contestant.engine.unsupported(contestant.checkpoint, version)
        if reason is not None:
            found[contestant.config.name] = reason
    return found


def _port_complaints(bakeoff: Bakeoff) -> list[str]:
    if all(c.runner == "attach" for c in bakeoff.contenders):
        return []
    return preflight.port_complaints((bakeoff.port, bakeoff.port + 1, bakeoff.port + 2))


def _gpu_complaints(bakeoff: Bakeoff) -> list[str]:
    """GPUs of engines that are started here have to be there and idle."""
    wanted = sorted({gpu for c in bakeoff.contenders if c.runner != "attach" for gpu in c.gpus})
    return gpu_complaints(wanted, gpus(), holders(tuple(wanted))) if wanted else []


def _check_context(bakeoff: Bakeoff, checkpoints: Mapping[str, Checkpoint], source: str) -> None:
    for contender in bakeoff.contenders:
        wanted, checkpoint = bakeoff.knobs_of(contender).max_model_len, checkpoints[contender.name]
        if checkpoint.context is not None and wanted > checkpoint.context:
            raise ConfigError(
                f"{source}: knobs.max_model_len: {wanted} is more than the checkpoint's context of "
                f"{checkpoint.context}; lower it"
            )


def _task(bakeoff: Bakeoff, rendering: Rendering, source: str) -> tuple[Question, ...]:
    """The questions of the gate's task, if it has one."""
    if bakeoff.gate is None or bakeoff.gate.task is None:
        return ()
    return read_task(bakeoff.gate.task, shortest_context(bakeoff) - bakeoff.gate.task_tokens, rendering, source)


def _rendering(checkpoint: Checkpoint, source: str) -> Rendering:
    try:
        return load_rendering(Path(checkpoint.folder))
    except DrawError as error:
        raise ConfigError(f"{source}: checkpoint: {error}") from None
