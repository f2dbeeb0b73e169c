# SPDX-License-Identifier: Apache-2.0
"""Requirements: does an engine meet each limit, over all blocks, with an interval; and who owns the delay."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from runners.config import Bakeoff
from runners.config_judging import LimitConfig
from runners.config_workload import Level, WorkloadConfig
from runners.report.compare import fit, geometric_of_all
from runners.report.metrics import Quantile
from runners.report.record import CellRecord, Run, Summary


@dataclass(frozen=True)
class Requirement:
    """One limit for one contender at one level. `value` and its 95% interval are in seconds, or a share for
    goodput; `outcome` is pass, fail or undecided, `reason` why there is no interval."""

    workload: str
    contender: str
    level: str
    limit: str
    value: float | None
    low: float | None
    high: float | None
    outcome: str
    reason: str | None
    delay: str | None


def requirements(run: Run) -> tuple[Requirement, ...]:
    """Every limit on its own, in the order of the config."""
    bakeoff = Bakeoff.model_validate(run.config)
    found: list[Requirement] = []
    for workload in bakeoff.workloads:
        for level in workload.levels:
            for contender in bakeoff.contenders:
                of_one = [c for c in run.cells if (c.workload, c.contender) == (workload.name, contender.name)]
                cells = [c for c in of_one if (c.level_kind, c.level) == (level.kind, level.value)]
                if cells:
                    found += [_judge_limit(cells, limit) for limit in workload.limits_at(level)]
                    found += _judge_goodput(cells, workload, level)
    return tuple(found)


def overall(of_one: Sequence[Requirement]) -> str:
    """What all limits of a contender at a level come to: one that fails is a fail, all must pass for a pass."""
    outcomes = {requirement.outcome for requirement in of_one}
    return "fail" if "fail" in outcomes else "undecided" if "undecided" in outcomes else "pass"


def percentile_of(summary: Summary, limit: LimitConfig) -> Quantile | None:
    """The percentile that a limit is about; None where the engine does not let it be measured."""
    of_metric = {
        "ttft_visible": summary.ttft_visible,
        "ttft_token": summary.ttft_token,
        "tpot": summary.tpot,
        "e2e": summary.e2e,
    }[limit.metric]
    return None if of_metric is None else of_metric.at(limit.percentile)


def misses(summary: Summary, workload: WorkloadConfig, level: Level) -> list[str]:
    """What one cell missed of its limits, by its own figures; unknown is missed."""
    found = []
    for limit in workload.limits_at(level):
        quantile = percentile_of(summary, limit)
        if quantile is None or quantile.value is None:
            found.append(f"{limit.text}: {quantile.reason if quantile else 'not measured'}")
        elif quantile.value > limit.at_most_s:
            found.append(f"{limit.text}: {quantile.value:.3g} s")
    least = workload.goodput_at_least
    if least is not None and (summary.goodput is None or summary.goodput < least):
        found.append(f"goodput >= {least:.1%}: {'unknown' if summary.goodput is None else f'{summary.goodput:.1%}'}")
    return found


def _judge_limit(cells: Sequence[CellRecord], limit: LimitConfig) -> Requirement:
    quantiles = [percentile_of(cell.summary, limit) for cell in cells]
    mean = geometric_of_all([q.value if q else None for q in quantiles])
    delay = _delay(cells, limit.metric)
    if mean is None:
        outcome, reason = _without_value(quantiles)
        return _requirement(cells[0], limit.text, None, None, None, outcome, reason, delay)
    if mean.low is None or mean.high is None:
        reason = "one block has no spread"
        return _requirement(cells[0], limit.text, mean.value, None, None, "undecided", reason, delay)
    outcome = "pass" if mean.high <= limit.at_most_s else "fail" if mean.low > limit.at_most_s else "undecided"
    return _requirement(cells[0], limit.text, mean.value, mean.low, mean.high, outcome, None, delay)


def _without_value(quantiles: Sequence[Quantile | None]) -> tuple[str, str]:
    """Failures that reach the percentile in every block are a fail; anything else that is unknown is undecided."""
    reasons = [q.reason for q in quantiles if q is not None and q.reason]
    if not reasons:
        return "undecided", "not measured for this engine"
    failed = [r for r in reasons if not r.startswith("n too small")]
    if len(failed) == len(quantiles):
        return "fail", f"{failed[0]}, in every block"
    return "undecided", f"{(failed or reasons)[0]}, in {len(failed or reasons)} of {len(quantiles)} blocks"


def _judge_goodput(cells: Sequence[CellRecord], workload: WorkloadConfig, level: Level) -> list[Requirement]:
    least = workload.goodput_at_least
    if least is None or not workload.limits_at(level):
        return []
    shares = [cell.summary.goodput for cell in cells]
    known = [s for s in shares if s is not None]
    text = f"goodput >= {least:.1%}"
    if len(known) < len(shares):
        return [_requirement(cells[0], text, None, None, None, "undecided", "no request was due in the window", None)]
    if len(known) < 2:
        return [_requirement(cells[0], text, known[0], None, None, "undecided", "one block has no spread", None)]
    found = fit(np.asarray(known), np.zeros(len(known)))
    mean, half = float(found.mean), float(found.half_width())
    outcome = "pass" if mean - half >= least else "fail" if mean + half < least else "undecided"
    low, high = max(0.0, mean - half), min(1.0, mean + half)
    return [_requirement(cells[0], text, mean, low, high, outcome, None, _delay(cells, "e2e"))]


def _requirement(
    cell: CellRecord,
    limit: str,
    value: float | None,
    low: float | None,
    high: float | None,
    outcome: str,
    reason: str | None,
    delay: str | None,
) -> Requirement:
    level = str(Level(cell.level_kind, cell.level))
    return Requirement(cell.workload, cell.contender, level, limit, value, low, high, outcome, reason, delay)


def _delay(cells: Sequence[CellRecord], metric: str) -> str | None:
    """Which layers the time of a metric goes to, the longest first: by the engine's own times where every cell has
    them, else by the client's medians. None for goodput of nothing."""
    delays = [cell.summary.delays for cell in cells]
    known = [d for d in delays if d is not None]
    client_first = metric in ("ttft_visible", "ttft_token", "tpot")
    if len(known) < len(cells) or (client_first and any(d.ttft_s is None for d in known)):
        return _split_by_client(cells)
    queue, prefill, decode = (
        fmean(of) for of in zip(*((d.queue_s, d.prefill_s, d.decode_s) for d in known), strict=True)
    )
    to_first = {"engine queue": queue, "prefill": prefill}
    if metric.startswith("ttft"):
        return _shares(to_first, fmean(d.ttft_s for d in known if d.ttft_s is not None))
    if metric == "tpot":
        return _shares({"decode": decode}, fmean(d.e2e_s - d.ttft_s for d in known if d.ttft_s is not None))
    return _shares({**to_first, "decode": decode}, fmean(d.e2e_s for d in known))


def _shares(layers: dict[str, float], whole_s: float) -> str | None:
    """What the engine does not account for is the front end's."""
    if whole_s <= 0:
        return None
    all_layers = {**layers, "front end": max(0.0, whole_s - sum(layers.values()))}
    ranked = sorted(all_layers.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {seconds / whole_s:.0%}" for name, seconds in ranked)


def _split_by_client(cells: Sequence[CellRecord]) -> str | None:
    """The engine reports no times: what came before the first token, and what after."""
    first = [c.summary.ttft_visible.p50.value for c in cells]
    whole = [c.summary.e2e.p50.value for c in cells]
    pairs = [(f, w) for f, w in zip(first, whole, strict=True) if f is not None and w]
    if not pairs:
        return None
    share = math.exp(fmean(math.log(f / w) for f, w in pairs))
    before = f"before the first token {share:.0%}"
    return f"{before}, decode {1 - share:.0%}" if share > 0.5 else f"decode {1 - share:.0%}, {before}"
