# SPDX-License-Identifier: Apache-2.0
"""The part of a config that says what is asked of the engines, and how hard they are driven."""

from dataclasses import dataclass
from math import ceil
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from runners.config_base import Count, Name, Strict
from runners.config_judging import CapacityConfig, LimitConfig


class Span(Strict):
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


Lengths = Annotated[Span, BeforeValidator(_span, json_schema_input_type=int | Span)]


class SharedPrefixConfig(Strict):
    """`count` different openings of `tokens` tokens, template included; a `share` of the prompts start with one.

    `round-robin` takes the openings in turn and spreads the prompts that share evenly, so that count / share - 1
    other prompts lie between two uses of an opening (to the next whole number); `drawn` does so on average.
    """

    tokens: Count
    count: Count
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    order: Literal["drawn", "round-robin"] = "drawn"


LevelKind = Literal["concurrency", "rate"]


@dataclass(frozen=True)
class Level:
    """How hard a workload is driven: requests in flight (closed loop), or requests per second that
    are due whatever the engine does (open loop)."""

    kind: LevelKind
    value: float

    @property
    def name(self) -> str:
        """As in file names: c8, r2.5."""
        return f"{self.kind[0]}{self.value:g}"

    def __str__(self) -> str:
        return f"{self.value:g}" if self.kind == "concurrency" else f"{self.value:g}/s"


ALIVE_PER_SLOT: Final = 2
TURN_GAP_S: Final = 10.0
"""How long after a turn the next one is due, at a rate of requests."""


class WorkloadConfig(Strict):
    """What is asked: input lengths count the whole rendered prompt, template included, in tokens.

    With `turns` above 1 they are conversations: a prompt holds the turns before it, with answers made up for them;
    input lengths are then what the user says in a turn, within the template of a first one, and output lengths those of
    each answer. `text: repeating` says a phrase of few words over and over, which drafts from n-grams find.
    `file` has prompts of its own, one a line, each sent once in a server life, or with `repeat` over and over.

    `rates` are in requests per second; their `arrivals` are evenly spaced, Poisson, or gamma with shape
    `burstiness` (below 1 burstier than Poisson). At most `max_in_flight` requests are under way: one that is
    due beyond that waits, and its time runs. The first `ramp_s` seconds are not measured. `goodput_at_least` is a
    share of requests: a request is good that meets every limit's time by itself.
    """

    name: Name
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    shared_prefix: SharedPrefixConfig | None = None
    turns: Count = 1
    text: Literal["random", "repeating"] = "random"
    file: Annotated[str, Field(min_length=1)] | None = None
    repeat: bool = False
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

    @property
    def lengths(self) -> tuple[Span, Span]:
        """Of prompts and answers. Those of a file are known once it has been read."""
        assert self.input_tokens is not None and self.output_tokens is not None
        return self.input_tokens, self.output_tokens

    def alive_at(self, level: Level) -> int:
        """Conversations under way at once: so many prompts lie between a turn and the next of the same one."""
        if level.kind == "concurrency":
            return ALIVE_PER_SLOT * int(level.value)
        return max(ALIVE_PER_SLOT, ceil(TURN_GAP_S * level.value))

    def single(self) -> "WorkloadConfig":
        """The same lengths in prompts that share nothing."""
        return self.model_copy(update={"shared_prefix": None, "turns": 1})

    def limits_at(self, level: Level) -> tuple[LimitConfig, ...]:
        """The limits that hold at a level."""
        return tuple(x for x in self.limits if x.everywhere or x.at == (level.kind, level.value))

    def misfit(self, max_model_len: int, block_size: int | None, kv_cache_tokens: int | None) -> str | None:
        """Why the workload cannot be asked of an engine with these settings, in tokens; None where it can."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        longest = self.turns * (self.input_tokens.high + self.output_tokens.high)
        if longest > max_model_len:
            return (
                f": prompt and answer may take {longest} tokens, more than knobs.max_model_len {max_model_len}; "
                "shorten them or raise it"
            )
        if self.turns > 1 and kv_cache_tokens is not None:
            return self._too_many_alive(longest, kv_cache_tokens)
        prefix = self.shared_prefix
        if prefix is None:
            return None
        if prefix.tokens >= self.input_tokens.low:
            return (
                f".shared_prefix.tokens: {prefix.tokens} leaves nothing of the shortest prompt, "
                f"{self.input_tokens.low}; make it smaller"
            )
        if block_size is not None and prefix.tokens < block_size:
            return (
                f".shared_prefix.tokens: {prefix.tokens} fill no block of knobs.block_size {block_size}, and only "
                "full blocks are reused; make it larger"
            )
        if kv_cache_tokens is not None and prefix.tokens * prefix.count > kv_cache_tokens:
            return (
                f".shared_prefix.count: {prefix.count} openings of {prefix.tokens} tokens are more than "
                f"knobs.kv_cache_tokens {kv_cache_tokens} can keep; take fewer"
            )
        return None

    def _too_many_alive(self, longest: int, kv_cache_tokens: int) -> str | None:
        """Conversations are half as long as the longest on average."""
        for level in self.levels:
            alive = self.alive_at(level)
            if alive * longest / 2 > kv_cache_tokens:
                return (
                    f".turns: at {level}, {alive} conversations of up to {longest} tokens are under way, more than "
                    f"knobs.kv_cache_tokens {kv_cache_tokens} can keep; fewer turns, shorter ones, or a lower level"
                )
        return None

    @model_validator(mode="after")
    def _kinds(self) -> Self:
        if (self.file is None) == (self.input_tokens is None or self.output_tokens is None):
            raise ValueError(f"workloads.{self.name}: give either input_tokens and output_tokens, or a file")
        if self.file is not None and (self.shared_prefix or self.turns > 1 or self.text != "random"):
            raise ValueError(f"workloads.{self.name}.file: says all of its prompts; no shared_prefix, turns or text")
        if self.turns > 1 and self.shared_prefix:
            raise ValueError(f"workloads.{self.name}.shared_prefix: turns share what was said before; give one of both")
        if self.repeat and self.file is None:
            raise ValueError(f"workloads.{self.name}.repeat: belongs to a file, and only there")
        if self.capacity and self.file is not None and not self.repeat:
            raise ValueError(f"workloads.{self.name}.capacity: may take any number of prompts; set repeat: true")
        return self

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
