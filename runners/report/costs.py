# SPDX-License-Identifier: Apache-2.0
"""What tokens cost, in money and in energy, and when an engine that has to be built first has caught up.

Money is in the currency of `price_per_gpu_hour`. Each kind of token is charged the whole cost: the prices per
million input and per million output tokens are two views of one bill and do not add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runners.config import Bakeoff, ContenderConfig
from runners.config_workload import LevelKind
from runners.report.capacities import capacities
from runners.report.compare import Estimate, geometric_of_all
from runners.report.record import CellRecord, LifeRecord, Run

MILLION: Final = 1e6
HOUR_S: Final = 3600.0


@dataclass(frozen=True)
class Cost:
    """At one level, or at capacity where `level` is None. Times in seconds; None is unknown or has no price.

    `caught_up_s`: from when its build began until a contender has made as many tokens at this level as the
    reference that needed no build; None where nothing was built, or where it is not faster.
    """

    workload: str
    contender: str
    level_kind: LevelKind
    level: float | None
    per_million_output: Estimate | None
    per_million_input: Estimate | None
    joules_per_output_token: Estimate | None
    start_up_s: float | None
    build_s: float | None
    caught_up_s: float | None


def costs(run: Run) -> tuple[Cost, ...]:
    """In the order of the config."""
    bakeoff = Bakeoff.model_validate(run.config)
    found: list[Cost] = []
    for workload in bakeoff.workloads:
        of_workload = [c for c in run.cells if c.workload == workload.name]
        for contender in bakeoff.contenders:
            mine = [c for c in of_workload if c.contender == contender.name]
            for kind, level in dict.fromkeys((c.level_kind, c.level) for c in mine):
                here = [c for c in of_workload if (c.level_kind, c.level) == (kind, level)]
                found.append(_at_level(here, contender, run, bakeoff))
            found += _at_capacity(workload.name, mine, contender, run, bakeoff)
    return tuple(found)


def _at_level(here: Sequence[CellRecord], contender: ContenderConfig, run: Run, bakeoff: Bakeoff) -> Cost:
    """`here` are the cells of all contenders at one level."""
    mine = [c for c in here if c.contender == contender.name]
    rates = [c.summary.output_tokens_per_s for c in mine]
    base = geometric_of_all([c.summary.output_tokens_per_s for c in here if c.contender == bakeoff.reference_name])
    return _cost(
        mine,
        contender,
        run,
        bakeoff,
        level=mine[0].level,
        output=geometric_of_all(rates),
        input_=geometric_of_all([_input_rate(c) for c in mine]),
        base=base,
    )


def _at_capacity(
    workload: str, mine: Sequence[CellRecord], contender: ContenderConfig, run: Run, bakeoff: Bakeoff
) -> list[Cost]:
    """With the prompt tokens that there were to an output token at the planned levels."""
    at = next((c for c in capacities(run) if (c.workload, c.contender) == (workload, contender.name)), None)
    if at is None or at.output_tokens_per_s is None or not mine:
        return []
    output = at.output_tokens_per_s
    shares = geometric_of_all([_prompt_share(c) for c in mine])
    input_ = Estimate(output.value * shares.value, None, None, None, output.n) if shares else None
    return [_cost(mine, contender, run, bakeoff, level=None, output=output, input_=input_, base=None)]


def _cost(
    mine: Sequence[CellRecord],
    contender: ContenderConfig,
    run: Run,
    bakeoff: Bakeoff,
    *,
    level: float | None,
    output: Estimate | None,
    input_: Estimate | None,
    base: Estimate | None,
) -> Cost:
    lives = [life for life in run.lives if life.contender == contender.name]
    price = bakeoff.price_per_hour(contender.name)
    build_s = max((life.build_s for life in lives if life.build_s is not None), default=None)
    return Cost(
        workload=mine[0].workload,
        contender=contender.name,
        level_kind=mine[0].level_kind,
        level=level,
        per_million_output=_per_million(price, output),
        per_million_input=_per_million(price, input_),
        joules_per_output_token=None if level is None else geometric_of_all([joules_per_token(c) for c in mine]),
        start_up_s=_start_up(lives),
        build_s=build_s,
        caught_up_s=caught_up_s(build_s, output.value, base.value) if build_s and output and base else None,
    )


def caught_up_s(build_s: float, rate: float, base: float) -> float | None:
    """The t at which rate x (t - build) = base x t; None where it is never.

    >>> caught_up_s(600.0, 1.5, 1.0)
    1800.0
    """
    return build_s * rate / (rate - base) if rate > base else None


def _per_million(price_per_hour: float | None, rate: Estimate | None) -> Estimate | None:
    """A rate in tokens per second turned into money per million of them; bounds change places."""
    if price_per_hour is None or rate is None:
        return None

    def money(tokens_per_s: float) -> float:
        return price_per_hour / HOUR_S / tokens_per_s * MILLION

    low = None if rate.high is None else money(rate.high)
    high = None if rate.low is None else money(rate.low)
    return Estimate(money(rate.value), low, high, None, rate.n)


def joules_per_token(cell: CellRecord) -> float | None:
    """Energy of the contender's GPUs while the cell was driven / its output tokens, ramp and drain included."""
    if cell.gpu is None or cell.gpu.energy_j is None or not cell.summary.output_tokens:
        return None
    return cell.gpu.energy_j / cell.summary.output_tokens


def watts(cell: CellRecord) -> float | None:
    """Mean power of the contender's GPUs together while the cell was driven."""
    if cell.gpu is None or cell.gpu.energy_j is None or not cell.gpu.seconds:
        return None
    return cell.gpu.energy_j / cell.gpu.seconds


def _input_rate(cell: CellRecord) -> float | None:
    share, rate = _prompt_share(cell), cell.summary.output_tokens_per_s
    return None if share is None or rate is None else share * rate


def _prompt_share(cell: CellRecord) -> float | None:
    """Prompt tokens to an output token, of the requests done."""
    prompts, outputs = cell.summary.prompt_tokens, cell.summary.output_tokens
    return prompts / outputs if prompts and outputs else None


def _start_up(lives: Sequence[LifeRecord]) -> float | None:
    mean = geometric_of_all([life.start_up_s for life in lives])
    return mean.value if mean else None
