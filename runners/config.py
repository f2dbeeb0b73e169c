# SPDX-License-Identifier: Apache-2.0
"""Reads a config file into a `Bakeoff`, or refuses it in one message: file, key, remedy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from engines.contract import Knobs, Sampling, Speculation
from runners.config_judging import CapacityConfig, LimitConfig, SquareConfig
from runners.config_judging import Strict as _Strict
from runners.errors import MendableError


class ConfigError(MendableError):
    """A config that cannot be run. The message names file and key and says what would be right."""


Count = Annotated[int, Field(gt=0)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]


def _not_empty(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("empty; name at least one")
    return items


NotEmpty = AfterValidator(_not_empty)


class SpeculationConfig(_Strict):
    kind: Literal["ngram"]
    tokens: Count


class KnobsConfig(_Strict):
    """Knobs as written; None is "not written here". Tokens and sequences."""

    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    dtype: Literal["auto", "float32", "float16", "bfloat16"] | None = None
    kv_cache_tokens: Count | None = None
    block_size: Count | None = None
    prefix_cache: bool | None = None
    chunked_prefill: bool | None = None
    cuda_graphs: bool | None = None
    speculation: SpeculationConfig | None = None
    tensor_parallel: Count | None = None
    threads: Count | None = None
    seed: Annotated[int, Field(ge=0)] | None = None


class ContenderConfig(_Strict):
    """A named configuration of an engine.

    Where it is not started as a process: `address` is where it answers, `model` the name it serves
    under, `service` and `compose_file` what a container is started from.
    """

    name: Name
    engine: str
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


class Span(_Strict):
    """Lengths drawn evenly from low to high, both included, in tokens."""

    low: Count
    high: Count

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}; exchange them")
        return self


def _span(value: object) -> object:
    """One number is a length without spread."""
    return {"low": value, "high": value} if isinstance(value, int) else value


Lengths = Annotated[Span, BeforeValidator(_span)]


class SharedPrefixConfig(_Strict):
    """`count` different openings of `tokens` tokens; each prompt starts with one of them."""

    tokens: Count
    count: Count


@dataclass(frozen=True)
class Level:
    """How hard a workload is driven: requests in flight (closed loop), or requests per second that
    are due whatever the engine does (open loop)."""

    kind: Literal["concurrency", "rate"]
    value: float

    @property
    def name(self) -> str:
        """As in file names: c8, r2.5."""
        return f"{self.kind[0]}{self.value:g}"

    def __str__(self) -> str:
        return f"{self.value:g}" if self.kind == "concurrency" else f"{self.value:g}/s"


class WorkloadConfig(_Strict):
    """What is asked: input lengths count the whole rendered prompt, template included, in tokens.

    `rates` are in requests per second; their `arrivals` are evenly spaced, Poisson, or gamma with shape
    `burstiness` (below 1 burstier than Poisson). At most `max_in_flight` requests are under way: one that is
    due beyond that waits, and its time runs. The first `ramp_s` seconds are not measured. `goodput_at_least` is a
    share of requests: a request is good that meets every limit's time by itself.
    """

    name: Name
    input_tokens: Lengths
    output_tokens: Lengths
    shared_prefix: SharedPrefixConfig | None = None
    concurrency: tuple[Count, ...] = ()
    rates: tuple[Annotated[float, Field(gt=0)], ...] = ()
    arrivals: Literal["constant", "poisson", "gamma"] = "poisson"
    burstiness: Annotated[float, Field(gt=0)] | None = None
    max_in_flight: Count = 1024
    ramp_s: Annotated[float, Field(ge=0)] = 10.0
    limits: tuple[LimitConfig, ...] = ()
    goodput_at_least: Annotated[float, Field(gt=0, le=1)] | None = None
    capacity: CapacityConfig | None = None

    @property
    def levels(self) -> tuple[Level, ...]:
        """In the order in which they are driven."""
        closed = tuple(Level("concurrency", value) for value in self.concurrency)
        return closed + tuple(Level("rate", value) for value in self.rates)

    def limits_at(self, level: Level) -> tuple[LimitConfig, ...]:
        """The limits that hold at a level."""
        return tuple(x for x in self.limits if x.everywhere or x.at == (level.kind, level.value))

    @model_validator(mode="after")
    def _driven(self) -> Self:
        if not self.levels:
            raise ValueError(f"workloads.{self.name}: no level; give concurrency, rates, or both")
        if (self.arrivals == "gamma") != (self.burstiness is not None):
            raise ValueError(f"workloads.{self.name}.burstiness: belongs to arrivals: gamma, and only there")
        return self

    @model_validator(mode="after")
    def _limited(self) -> Self:
        for limit in self.limits:
            if not limit.everywhere and not any(limit in self.limits_at(level) for level in self.levels):
                raise ValueError(f"workloads.{self.name}.limits: {limit.text}: its level is none of the workload's")
        if self.goodput_at_least is not None and not self.limits:
            raise ValueError(f"workloads.{self.name}.goodput_at_least: needs limits; say what a good request is")
        if self.capacity and not any(limit.everywhere for limit in self.limits):
            raise ValueError(f"workloads.{self.name}.capacity: needs a limit without a level; say what has to be met")
        return self


class SamplingConfig(_Strict):
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    seed: Annotated[int, Field(ge=0)] = 0


class Bakeoff(_Strict):
    """One comparison, as written in its file. Times are in seconds."""

    name: Name
    checkpoint: Annotated[str, Field(min_length=1)]
    knobs: KnobsConfig = KnobsConfig()
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
        """The matched knobs with the contender's own on top. `check` has seen the two lengths."""
        written = {**_written(self.knobs), **_written(contender.knobs)}
        speculation = written.pop("speculation", None)
        return Knobs(**written, speculation=Speculation(**speculation) if speculation else None)

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
            longest = workload.input_tokens.high + workload.output_tokens.high
            if longest > written["max_model_len"]:
                raise ValueError(
                    f"workloads.{workload.name}: prompt and answer may take {longest} tokens, more than "
                    f"knobs.max_model_len {written['max_model_len']}; shorten them or raise it"
                )
            prefix = workload.shared_prefix
            if prefix and prefix.tokens >= workload.input_tokens.low:
                raise ValueError(
                    f"workloads.{workload.name}.shared_prefix.tokens: {prefix.tokens} leaves nothing of "
                    f"the shortest prompt, {workload.input_tokens.low}; make it smaller"
                )


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
    except yaml.YAMLError as error:
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
