# SPDX-License-Identifier: Apache-2.0
"""The parts of a config that say what is judged: limits, the search for capacity, the 2 x 2 of contenders."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from runners.config_base import Strict


class LimitConfig(Strict):
    """A percentile of a time that must not be above `at_most_s`: at one level of `concurrency`, at one `rate`, or,
    with neither, at every level."""

    metric: Literal["ttft_visible", "ttft_token", "tpot", "e2e"]
    percentile: Literal[50, 95, 99]
    at_most_s: Annotated[float, Field(gt=0)]
    concurrency: Annotated[int, Field(gt=0)] | None = None
    rate: Annotated[float, Field(gt=0)] | None = None

    @property
    def everywhere(self) -> bool:
        return self.concurrency is None and self.rate is None

    @property
    def at(self) -> tuple[str, float | None]:
        """Kind and value of its level."""
        return ("rate", self.rate) if self.rate is not None else ("concurrency", self.concurrency)

    @model_validator(mode="after")
    def _one_level(self) -> Self:
        if self.concurrency is not None and self.rate is not None:
            raise ValueError("concurrency and rate: a limit holds at one of them; write two limits")
        return self

    @property
    def text(self) -> str:
        return f"p{self.percentile} {self.metric} <= {self.at_most_s:g} s"


class CapacityConfig(Strict):
    """A search, in every server life, for the highest level that meets the limits: from `start`, up to `most`,
    until the bracket is no wider than `resolution`. `of` says which kind of level."""

    of: Literal["concurrency", "rate"] = "concurrency"
    start: Annotated[float, Field(gt=0)] = 8.0
    most: Annotated[float, Field(gt=0)] = 1024.0
    resolution: Annotated[float, Field(ge=0.01, le=1)] = 0.05

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.start > self.most:
            raise ValueError(f"start {self.start:g} is above most {self.most:g}; exchange them")
        if self.of == "concurrency" and not (self.start.is_integer() and self.most.is_integer()):
            raise ValueError("start and most are requests in flight: whole numbers; or set of: rate")
        return self


class SquareConfig(Strict):
    """Contenders that make up a 2 x 2, or two of its sides: pairs of a runtime directly and behind the front end.
    A corner that was not run is null."""

    first_runtime: tuple[str | None, str | None]
    second_runtime: tuple[str | None, str | None]

    def corners(self) -> dict[str, str]:
        """Names by corner: runtime A or B, D for direct and F for the front end."""
        names = dict(zip(("AD", "AF", "BD", "BF"), (*self.first_runtime, *self.second_runtime), strict=True))
        return {corner: name for corner, name in names.items() if name is not None}
