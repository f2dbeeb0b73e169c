# SPDX-License-Identifier: Apache-2.0
"""Reads a config file into a `Bakeoff`, or refuses it in one message: file, key, remedy."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from engines.contract import Sampling
from engines.launch import MADE_BETWEEN_STEPS, Knobs, Speculation
from engines.ledger_rows import MUST_MATCH
from runners.config_base import Count, Name, Strict
from runners.config_gate import Gate, GateConfig
from runners.config_judging import SquareConfig
from runners.config_workload import WorkloadConfig
from runners.errors import MendableError


class ConfigError(MendableError):
    """A config that cannot be run. The message names file and key and says what would be right."""


Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _not_empty(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("empty; name at least one")
    return items


NotEmpty = AfterValidator(_not_empty)


def _known_row(name: str) -> str:
    if name not in MUST_MATCH:
        raise ValueError(f"no row of the ledger that must match; those are {', '.join(MUST_MATCH)}")
    return name


Row = Annotated[str, AfterValidator(_known_row)]
BATCH_TOKENS: Final = 8192
"""Tokens of a batch where no knob says them: engines' own defaults differ."""


class SpeculationConfig(Strict):
    """Drafting: its length in tokens; where the kind has one, the folder of its draft model or heads."""

    kind: Literal["ngram", "eagle3", "draft_target", "mtp", "medusa", "redrafter", "lookahead", "eagle"]
    tokens: Count
    model: str | None = None
    choices: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] | None = None
    window: Count | None = None
    ngram: Count | None = None
    verification: Count | None = None


class KnobsConfig(Strict):
    """Knobs as written; None is "not written here". Tokens and sequences. `extra` are settings of one engine
    by its own names."""

    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    dtype: Literal["auto", "float32", "float16", "bfloat16"] | None = None
    quantization: Literal["fp8", "int8_weight_only", "int4_weight_only", "int4_awq", "int8_sq"] | None = None
    kv_cache_dtype: Literal["auto", "fp8", "int8"] | None = None
    kv_cache_tokens: Count | None = None
    block_size: Count | None = None
    prefix_cache: bool | None = None
    chunked_prefill: bool | None = None
    cuda_graphs: bool | None = None
    async_scheduling: bool | None = None
    speculation: SpeculationConfig | None = None
    tensor_parallel: Count | None = None
    pipeline_parallel: Count | None = None
    threads: Count | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    extra: dict[str, Any] | None = None


class ContenderConfig(Strict):
    """A named configuration of an engine.

    `checkpoint` is another than the config's, as one in another format. Where it is not started here: `address` is
    where it answers, `model` the name it serves under. `service` of `compose_file` is what a container is started
    from; without one, the service of the engine's name.
    """

    name: Name
    engine: str
    checkpoint: Annotated[str, Field(min_length=1)] | None = None
    runner: str = "process"
    transport: Literal["http", "grpc", "grpc-aio"] = "http"
    environment: str | None = None
    price_per_gpu_hour: Price | None = None
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = ()
    knobs: KnobsConfig = KnobsConfig()
    address: Annotated[str, Field(pattern=r"^http://[^/\s]+$")] | None = None
    model: str | None = None
    service: str | None = None
    compose_file: str = "docker-compose.yml"


class SamplingConfig(Strict):
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    seed: Annotated[int, Field(ge=0)] = 0


class Bakeoff(Strict):
    """One comparison, as written in its file. Times are in seconds. `declared` are rows of the ledger in which
    contenders differ on purpose, each with its reason."""

    name: Name
    checkpoint: Annotated[str, Field(min_length=1)]
    knobs: KnobsConfig = KnobsConfig()
    declared: dict[Row, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    contenders: Annotated[tuple[ContenderConfig, ...], NotEmpty]
    reference: str | None = None
    square: SquareConfig | None = None
    workloads: Annotated[tuple[WorkloadConfig, ...], NotEmpty]
    blocks: Count = 6
    block_gap_s: Annotated[float, Field(gt=0)] = 3600.0
    window_s: Annotated[float, Field(gt=0)] = 60.0
    idle_limit_s: Annotated[float, Field(gt=0)] = 60.0
    start_limit_s: Annotated[float, Field(gt=0)] = 1800.0
    port: Annotated[int, Field(ge=1024, le=65533)] = 18100
    price_per_gpu_hour: Price | None = None
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    seed: Annotated[int, Field(ge=0)] = 0
    output_length: Literal["forced", "natural"] = "forced"
    sampling: SamplingConfig = SamplingConfig()
    gate: Gate = GateConfig()

    @property
    def reference_name(self) -> str:
        """The contender that the others are compared with: the one named, else the first."""
        return self.reference or self.contenders[0].name

    def price_per_hour(self, contender: str) -> float | None:
        """What an hour of a contender costs, by its GPUs; None where no price is given or it has none."""
        found = next(c for c in self.contenders if c.name == contender)
        price = self.price_per_gpu_hour if found.price_per_gpu_hour is None else found.price_per_gpu_hour
        return None if price is None or not found.gpus else price * len(found.gpus)

    def knobs_of(self, contender: ContenderConfig) -> Knobs:
        """The matched knobs with the contender's own on top. `check` has seen the two lengths. Where one contender's
        drafts forbid asynchronous scheduling, no contender has it, unless it is said."""
        written = {"async_scheduling": self._scheduling(), **_written(self.knobs), **_written(contender.knobs)}
        speculation = written.pop("speculation", None)
        written.setdefault("max_num_batched_tokens", max(BATCH_TOKENS, written["max_model_len"]))
        return Knobs(**written, speculation=Speculation(**speculation) if speculation else None)

    def _scheduling(self) -> bool | None:
        """What is left to the engines, but for kinds of speculation that have no choice."""
        written = (self.knobs, *(contender.knobs for contender in self.contenders))
        kinds = {knobs.speculation.kind for knobs in written if knobs.speculation}
        return False if kinds & set(MADE_BETWEEN_STEPS) else None

    def sampling_fields(self) -> Sampling:
        return Sampling(**self.sampling.model_dump())

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _unique("contenders", [c.name for c in self.contenders])
        _unique("workloads", [w.name for w in self.workloads])
        if self.reference_name not in {c.name for c in self.contenders}:
            raise ValueError(f"reference: no contender is named {self.reference!r}; name one of them")
        for name in self.square.corners().values() if self.square else ():
            if name not in {c.name for c in self.contenders}:
                raise ValueError(f"square: no contender is named {name!r}; name one of them")
        for contender in self.contenders:
            self._check_lengths(contender)
        return self

    def _check_lengths(self, contender: ContenderConfig) -> None:
        written = {**_written(self.knobs), **_written(contender.knobs)}
        for key in ("max_model_len", "max_num_seqs"):
            if key not in written:
                raise ValueError(f"knobs.{key}: not set; every engine has another default, so say it")
        for workload in self.workloads:
            misfit = workload.misfit(
                written["max_model_len"], written.get("block_size"), written.get("kv_cache_tokens")
            )
            if misfit is not None:
                raise ValueError(f"workloads.{workload.name}{misfit}")


def _written(knobs: KnobsConfig) -> dict[str, Any]:
    return knobs.model_dump(exclude_none=True)


def _unique(key: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{key}: the name {twice[0]!r} occurs twice; names tell rows apart")


def read_config(path: Path) -> Bakeoff:
    """The config in a YAML file. Raises ConfigError."""
    return parse_config(config_text(path), str(path))


def config_text(path: Path) -> str:
    """The text of a config file. Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give the path of a config file") from None


def parse_config(text: str, source: str) -> Bakeoff:
    """The config in a YAML text; `source` names it in messages. Raises ConfigError."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not YAML: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: expected keys and values at the top; see configs/light.yaml")
    try:
        return Bakeoff.model_validate(value)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {_complaint(e)}" for e in error.errors())) from None


def _complaint(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key; take it out or correct its spelling"
    if error["type"] == "missing":
        return f"{key}: missing; add it"
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key or (error["type"] == "value_error" and ":" in message):
        return message
    return f"{key}: {error['input']!r}: {message}"
