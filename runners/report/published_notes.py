# SPDX-License-Identifier: Apache-2.0
"""The notes of a published table: what its figures mean, how they came about, and when they no longer hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from engines import ledger_rows
from engines.contract import RowKind
from runners.cells import balanced
from runners.config import Bakeoff
from runners.config_workload import WorkloadConfig
from runners.report.blocks import exclusions, without_excluded
from runners.report.clocks import FLAG
from runners.report.compare import ALPHA
from runners.report.equivalence import equivalence_of
from runners.report.gpu_notes import energy_note
from runners.report.ledger import ComparedRow, footnotes, ledger_of
from runners.report.opened import Results
from runners.report.record import Run
from runners.report.workload_text import asked_text, cache_text

STALE_AFTER: Final = timedelta(days=180)


@dataclass(frozen=True)
class Note:
    """`key` is what columns name it by."""

    key: str
    title: str
    text: str


DEFINITIONS: Final = (
    "TTFT runs from the moment a request was due to its first visible text; TPOT is the time per output token after "
    "the first event; E2E runs to the last token; tok/s of a user is 1 / median TPOT; goodput is the share of requests "
    "due in the window that met every limit; tok/s per GPU is that of the host where a contender has none. A failed "
    "request counts as infinitely slow and stays in every denominator. Percentiles are order statistics over requests "
    "due in the window, `n too small` under 6, 72 and 368 of them for p50, p95 and p99. ISL and OSL are measured means "
    "of prompt and output tokens. A dash is unknown, never 0."
)
INTERVALS: Final = (
    "Figures are geometric means over blocks with a 95% t interval over them, counts are sums. The ratio is to the "
    "reference, paired within blocks, above 1 is better: of output tokens per second in closed loop, of TTFT p95 in "
    "open loop. Verdicts, in this order: the interval lies inside the margin, equal; p Holm, over contenders and "
    "levels of a workload, is at most the error of a look, faster or slower; else undecided. The margin was "
    "{margin:.0%}, declared before the run; intervals of ratios are at {confidence:.1%}."
)


def notes(results: Results, by: str | None = None) -> tuple[Note, ...]:
    """All notes, in the order in which they are numbered. `by` says who ran it."""
    run = results.run
    bakeoff = Bakeoff.model_validate(run.config)
    ledger = ledger_of(without_excluded(run))
    told = (
        Note("definitions", "Definitions", DEFINITIONS),
        Note("load", "Load", " ".join(_driven(w) for w in bakeoff.workloads)),
        Note("window", "Window and warm-up", _window(run, bakeoff)),
        Note("cache", "Cache state", " ".join(cache_text(w) for w in bakeoff.workloads) + f" {_cache_read(run)}"),
        Note("stream", "Stream interval", _stream(ledger)),
        Note("length", "Length of answers", _lengths(bakeoff)),
        Note("order", "Order and restarts", _order(run, bakeoff)),
        Note("intervals", "Intervals and verdicts", _intervals(run, bakeoff)),
        Note("unequal", "Settings", _settings(ledger, bakeoff)),
        Note("equivalence", "Equivalence", _equivalence(run, bakeoff)),
        Note("clock", "Engine clock", _clock(run)),
        Note("speculation", "Speculation", _speculation(run)),
        Note("hardware", "Hardware", f"{_hardware(results.hosts)} {_clocks(ledger)}"),
        Note("energy", "Energy", energy_note(run)),
        Note("cost", "Cost", _cost(bakeoff)),
        Note("client", "Client", _client(results)),
        Note("who", "Who and when", _who(results, by or results.by)),
        Note("age", "Stale", _stale(results)),
    )
    return tuple(note for note in told if note.text.strip())


def _driven(workload: WorkloadConfig) -> str:
    """How one workload arrives."""
    text = asked_text(workload)
    if workload.concurrency:
        text += "; closed loop, the level is requests in flight"
    if workload.rates:
        shape = f" with burstiness {workload.burstiness:g}" if workload.burstiness else ""
        text += (
            f"; open loop, the level is requests due per second, {workload.arrivals} arrivals{shape}, "
            f"at most {workload.max_in_flight} in flight"
        )
    limits = ", ".join(limit.text for limit in workload.limits)
    return text + (f"; limits: {limits}." if limits else ".")


def _window(run: Run, bakeoff: Bakeoff) -> str:
    windows = [c.summary.window_s for c in run.cells if c.summary.window_s is not None]
    warm = [c.phases.warm_up_s for c in run.cells]
    text = (
        "Throughput is tokens whose time falls into the steady window / its length: in closed loop from when every "
        f"slot has finished one request, in open loop after the ramp, to the last send; {bakeoff.window_s:g} s and 12 "
        "mean request times at least"
    )
    if windows:
        text += f" (here {min(windows):.1f} to {max(windows):.1f} s)"
    text += ". Before it, requests with other prompts at the level to be measured, until times settled"
    text += f" ({min(warm):.1f} to {max(warm):.1f} s)." if warm else "."
    if any(FLAG in c.summary.flags for c in run.cells):
        text += (
            " Since a contender's streams come in one event, throughput counts tokens of completed requests, for all."
        )
    return text


def _cache_read(run: Run) -> str:
    """By what the state of the cache was verified."""
    told = [c.summary.cache_hit_rate is not None for c in run.cells]
    by = (
        "No contender tells cached tokens"
        if not any(told)
        else "Hits are cached / prompt tokens by the engines' own counts"
    )
    by += "" if all(told) or not any(told) else "; a dash where they tell none"
    return f"Prompts are new in every cell of a server life, warm-up included, but for shared openings. {by}."


def _stream(ledger: Sequence[ComparedRow]) -> str:
    values = next((row.values for row in ledger if row.name == ledger_rows.STREAM_INTERVAL), {})
    return f"Tokens between two events, as read back: {_listed(values)}." if values else "Not read back."


def _listed(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{contender} {value or 'not read back'}" for contender, value in values.items())


def _lengths(bakeoff: Bakeoff) -> str:
    sampling = bakeoff.sampling
    kind = "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}"
    rule = (
        "forced: every answer has exactly the length drawn"
        if bakeoff.output_length == "forced"
        else "natural: an answer ends by itself or at the length drawn"
    )
    return f"Output length is {rule}. Sampling is {kind}, every field sent explicitly."


def _order(run: Run, bakeoff: Bakeoff) -> str:
    blocks = {cell.block for cell in run.cells}
    evenly = "balanced" if balanced(len(bakeoff.contenders), len(blocks)) else "not balanced"
    text = (
        f"{len(blocks)} blocks; each starts every contender once, in an order drawn from seed {bakeoff.seed}, "
        f"{evenly} over positions. The replicate is a server life."
    )
    out = exclusions(run)
    if out:
        text += " Excluded, for all contenders: " + "; ".join(f"block {b}: {reason}" for b, reason in out.items()) + "."
    attached = dict.fromkeys(cell.contender for cell in run.cells if cell.runner == "attach")
    return text + (f" Never restarted: {', '.join(attached)}." if attached else "")


def _intervals(run: Run, bakeoff: Bakeoff) -> str:
    looks = max(1, len(run.looks))
    text = INTERVALS.format(margin=bakeoff.margin, confidence=1 - ALPHA / looks)
    if run.looks:
        text += f" Looks were planned after {', '.join(map(str, run.looks))} blocks, each at its share of the error."
    return text


def _settings(ledger: Sequence[ComparedRow], bakeoff: Bakeoff) -> str:
    """What is unequal, and why that is allowed; what could not be read back."""
    must = [row for row in ledger if row.kind == RowKind.MUST_MATCH]
    text = f"{len(must)} settings that must match were read back from the running engines, not taken from flags."
    unequal = [
        f"{contender}: {'; '.join(told)}"
        for contender in (c.name for c in bakeoff.contenders)
        if (told := footnotes(ledger, contender, bakeoff.reference_name))
    ]
    text += f" Unequal to {bakeoff.reference_name}: {'. '.join(unequal)}." if unequal else " None is unequal."
    silent = [row.name for row in must if row.state == "not read back"]
    return text + (f" Not read back of every contender: {', '.join(silent)}." if silent else "")


def _equivalence(run: Run, bakeoff: Bakeoff) -> str:
    if not equivalence_of(run):
        return "No greedy answers were compared."
    return (
        f"Share of greedy answers at concurrency 1 that are {bakeoff.reference_name}'s token by token, and whether "
        f"they agree with it as far as {bakeoff.reference_name} agrees with itself across two starts, as the gate "
        "demands. Its own share stands in its row."
    )


def _clock(run: Run) -> str:
    if not any(c.summary.ttft_engine for c in run.cells):
        return ""
    return "By the engine's own stamps of each request; never compared with the client's clock."


def _speculation(run: Run) -> str:
    if not any(life.capabilities.get("speculates") for life in run.lives):
        return ""
    return (
        "Acceptance is accepted / drafted tokens; its length is 1 + accepted / drafts. Drafting that an engine does "
        "not report is a dash."
    )


def _hardware(hosts: Sequence[Mapping[str, Any]]) -> str:
    if not hosts:
        return "Not recorded."
    host = hosts[0]
    gpus = [f"{gpu['name']} (driver {gpu['driver']}, {gpu['memory_bytes'] / 2**30:.0f} GiB)" for gpu in host["gpus"]]
    text = (
        f"{host['cpu'] or 'unknown processor'}, {host['cpu_cores']} cores, {host['memory_gib']:g} GiB, kernel "
        f"{host['kernel']}; GPUs: {', '.join(gpus) or 'none'}. Checkpoint {host['checkpoint']['sha256'][:16]}"
    )
    revision = host["checkpoint"].get("revision")
    text += f" at revision {revision}." if revision else "."
    packages = [
        f"{name}: {', '.join(f'{package} {version}' for package, version in of.items())}"
        for name, of in host["environments"].items()
        if of
    ]
    return text + (f" Environments: {'; '.join(packages)}." if packages else "")


def _clocks(ledger: Sequence[ComparedRow]) -> str:
    rows = [row for row in ledger if row.name in (ledger_rows.GPU_POWER, ledger_rows.GPU_CLOCKS)]
    told = [f"{row.name}: {_listed(row.values)}" for row in rows if any(row.values.values())]
    return f"{'; '.join(told)}." if told else "Clocks and power cap were not recorded."


def _cost(bakeoff: Bakeoff) -> str:
    prices = {c.name: bakeoff.price_per_hour(c.name) for c in bakeoff.contenders}
    known = [f"{name} {price:g}" for name, price in prices.items() if price is not None]
    if not known:
        return "No price was given."
    return f"Price of an hour: {', '.join(known)}. Either kind of token is charged the whole cost."


def _client(results: Results) -> str:
    text = "Headroom is the rate that the client held against a server that computes nothing / the rate of the row"
    checks = [
        f"{c.reached_events_per_s:.0f} of {c.asked_events_per_s:.0f} events/s at {c.streams} streams, "
        f"{'held' if c.held else 'NOT held'}"
        for c in results.checks
    ]
    return f"{text}; it was asked for no more: {'; '.join(checks)}." if checks else f"{text}; no such check is there."


def _who(results: Results, by: str | None) -> str:
    days = results.days
    tool = results.hosts[0]["bakeoff"] if results.hosts else "of unknown version"
    when = (
        "at an unknown time" if days is None else f"on {days[0]}" if days[0] == days[1] else f"{days[0]} to {days[1]}"
    )
    return f"Run by {by or 'somebody who is not named'} {when} with bakeoff {tool}."


def _stale(results: Results) -> str:
    days = results.days
    if days is None:
        return ""
    until = date.fromisoformat(days[1]) + STALE_AFTER
    return (
        f"After {until.isoformat()}, or with the next release of any engine, driver or checkpoint named here, "
        "whichever comes first. Only comparable with tables of the same definitions (results/CHANGELOG.md)."
    )
