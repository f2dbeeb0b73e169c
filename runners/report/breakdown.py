# SPDX-License-Identifier: Apache-2.0
"""Where the time went, cell by cell over all blocks: engine queue, prefill, decode, and the front end around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from runners.config import Bakeoff
from runners.config_workload import Level, LevelKind
from runners.report import markdown
from runners.report.compare import geometric_of_all
from runners.report.record import CellRecord, Delays, Percentiles, Run

MILLISECONDS = 1e3


@dataclass(frozen=True)
class Layer:
    """Seconds of a request: the mean over blocks, and, where requests tell, medians and 95th percentiles."""

    mean_s: float
    p50_s: float | None
    p95_s: float | None


@dataclass(frozen=True)
class Breakdown:
    """The layers of one contender's requests, which add up to the mean end-to-end time.

    `front_end` is what the client saw and the engine did not account for: to the first token `to_first_s` of it, after
    it `after_first_s`; those two are None where a stream comes whole. `of` says whether the engine's times are each
    request's own or its counters' means.
    """

    workload: str
    contender: str
    level_kind: LevelKind
    level: float
    of: Literal["requests", "counters"]
    queue: Layer
    prefill: Layer
    decode: Layer
    front_end: Layer
    to_first_s: float | None
    after_first_s: float | None
    e2e_s: float


def breakdown(run: Run) -> tuple[Breakdown, ...]:
    """In the order of the config; only cells whose engine reports times in every block."""
    bakeoff = Bakeoff.model_validate(run.config)
    found = []
    for workload in bakeoff.workloads:
        for level in workload.levels:
            for contender in bakeoff.contenders:
                wanted = (workload.name, level.kind, level.value, contender.name)
                cells = [c for c in run.cells if (c.workload, c.level_kind, c.level, c.contender) == wanted]
                delays = [c.summary.delays for c in cells if c.summary.delays is not None]
                if cells and len(delays) == len(cells):
                    found.append(_of(cells[0], delays))
    return tuple(found)


def _of(cell: CellRecord, delays: Sequence[Delays]) -> Breakdown:
    firsts = [d.front_first_s for d in delays if d.front_first_s is not None]
    rests = [d.front_rest_s for d in delays if d.front_rest_s is not None]
    return Breakdown(
        workload=cell.workload,
        contender=cell.contender,
        level_kind=cell.level_kind,
        level=cell.level,
        of="requests" if all(d.of == "requests" for d in delays) else "counters",
        queue=_layer([d.queue_s for d in delays], [d.queue for d in delays]),
        prefill=_layer([d.prefill_s for d in delays], [d.prefill for d in delays]),
        decode=_layer([d.decode_s for d in delays], [d.decode for d in delays]),
        front_end=_layer([d.front_end_s for d in delays], [d.front_end for d in delays]),
        to_first_s=fmean(firsts) if len(firsts) == len(delays) else None,
        after_first_s=fmean(rests) if len(rests) == len(delays) else None,
        e2e_s=fmean(d.e2e_s for d in delays),
    )


def _layer(means: Sequence[float], found: Sequence[Percentiles | None]) -> Layer:
    return Layer(fmean(means), _over_blocks(found, 50), _over_blocks(found, 95))


def _over_blocks(found: Sequence[Percentiles | None], percent: Literal[50, 95]) -> float | None:
    """The mean over blocks that all have it: times of 0 have no geometric one."""
    values = [None if p is None else p.at(percent).value for p in found]
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return None
    mean = geometric_of_all(known) if all(v > 0 for v in known) else None
    return mean.value if mean else fmean(known)


def breakdown_lines(found: Sequence[Breakdown]) -> list[str]:
    """The table and how to read it; nothing where no engine reports times."""
    if not found:
        return []
    columns = (
        *("contender", "workload", "level", "E2E ms", "engine queue ms", "prefill ms", "decode ms", "front end ms"),
        *("to the first token", "after it", "engine's times"),
    )
    rows = [
        [
            b.contender,
            b.workload,
            str(Level(b.level_kind, b.level)),
            _milliseconds(b.e2e_s),
            *(_told(layer) for layer in (b.queue, b.prefill, b.decode, b.front_end)),
            _milliseconds(b.to_first_s),
            _milliseconds(b.after_first_s),
            "each request's" if b.of == "requests" else "counters",
        ]
        for b in found
    ]
    return [
        *markdown.table(columns, rows),
        "",
        "Means, which add up; in brackets p50 and p95, where requests tell. The engine's times are differences on its "
        "own clock; the front end's is what the client saw beyond them: client TTFT - engine TTFT to the first token, "
        "and the rest after it, which is below 0 where the first token's way took longer than the last one's.",
    ]


def _told(layer: Layer) -> str:
    mean = _milliseconds(layer.mean_s)
    if layer.p50_s is None:
        return mean
    return f"{mean} ({_milliseconds(layer.p50_s)}, {_milliseconds(layer.p95_s)})"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * MILLISECONDS:.1f}"
