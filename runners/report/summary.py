# SPDX-License-Identifier: Apache-2.0
"""From a cell's traces and counters to its summary and flags."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from engines.contract import Capabilities, Counters
from runners.config_workload import Level, WorkloadConfig
from runners.load.conversation import sent_early
from runners.load.load import Driven
from runners.load.proof import ClientProof, prove
from runners.load.trace import Trace
from runners.report import metrics
from runners.report.caching import NOT_READ_BACK, PrefixCache, cache_flags, hit_rates
from runners.report.delays import delays_of
from runners.report.metrics import Quantile, difference, share, sum_of
from runners.report.percentiles import lengths_of, percentiles
from runners.report.record import Flag, Percentiles, Summary
from runners.report.speculating import drafting

SHORTEST_WINDOW_E2E = 10.0
"""A steady window shorter than so many mean request times is biased by 12 to 50 percent."""
LAG_SHARE_OF_TTFT = 0.05
LATENCY_BOUND = "client-bound latency"
KEPT_UP = 0.9
"""An engine that ends fewer of the requests due in a window than this share falls behind for good."""
CLOCK_DRIFT_S = 0.001
NO_TIMES = Quantile(None, None, None, "one event")
ONE_EVENT = Percentiles(p50=NO_TIMES, p95=NO_TIMES, p99=NO_TIMES)
"""A stream that comes whole has no times of its own; those of the engine stand beside them."""


@dataclass(frozen=True)
class Measured:
    """All that a cell's summary is computed from."""

    workload: WorkloadConfig
    level: Level
    margin: float
    driven: Driven
    traces: Sequence[Trace]
    capabilities: Capabilities
    before: Counters
    after: Counters
    cache: PrefixCache = NOT_READ_BACK


def summarize(measured: Measured) -> Summary:
    """Compute a cell's summary; pure."""
    traces, driven = measured.traces, measured.driven
    window = _window(driven)
    inside = [t for t in traces if window and window[0] <= t.due_s <= window[1]]
    done = [t for t in traces if t.error is None]
    mean_e2e_s = fmean(metrics.e2e_s(t) for t in done) if done else None
    window_s = window[1] - window[0] if window else None
    window_in_e2e = share(window_s, mean_e2e_s)
    incremental = measured.capabilities.incremental
    ttft_visible = percentiles(inside, metrics.ttft_visible_s) if incremental else ONE_EVENT
    slots = int(measured.level.value) if measured.level.kind == "concurrency" else None
    client = prove(driven, traces, inside, slots)
    good = [t for t in inside if t.error is None]
    drafts = drafting(good, measured.before, measured.after)
    hits = hit_rates(good, done, measured.before, measured.after, measured.cache)
    return Summary(
        requests_due=len(traces),
        requests_done=len(done),
        requests_failed=len(traces) - len(done),
        requests_in_window=len(inside),
        token_mismatches=sum(t.mismatch for t in traces),
        client_uncounted=sum(t.client_tokens is None for t in done),
        prompt_tokens=sum_of(done, lambda t: t.prompt_tokens),
        input_tokens=sum(t.input_tokens for t in done),
        output_tokens=sum_of(done, lambda t: t.server_tokens),
        client_output_tokens=sum_of(done, lambda t: t.client_tokens),
        finish_reasons=dict(Counter(t.finish_reason or "not given" for t in done)),
        answer_lengths=lengths_of(done),
        window_s=window_s,
        window_in_e2e=window_in_e2e,
        requests_in_flight=metrics.in_flight(traces, *window) if window else None,
        output_tokens_per_s=share(metrics.tokens_between(traces, *window), window_s) if window else None,
        output_tokens_per_s_whole_run=_whole_run(done),
        completed_tokens_per_s=share(metrics.completed_between(traces, *window), window_s) if window else None,
        ttft_visible=ttft_visible,
        ttft_token=percentiles(inside, metrics.ttft_token_s) if measured.capabilities.tokens_per_event else None,
        tpot=percentiles(inside, metrics.tpot_s) if incremental else ONE_EVENT,
        ttft_engine=_engine_percentiles(inside, metrics.ttft_engine_s),
        tpot_engine=_engine_percentiles(inside, metrics.tpot_engine_s),
        e2e=percentiles(inside, metrics.e2e_s),
        goodput=_goodput(measured, inside),
        delays=delays_of(inside, done, measured.before, measured.after, incremental=incremental),
        cache_hit_rate=hits.measured,
        cache_expected=hits.expected,
        acceptance_rate=drafts.rate,
        acceptance_length=drafts.length,
        tokens_per_step=drafts.tokens_per_step,
        acceptance_by_position=drafts.by_position,
        client=client,
        flags=(*_flags(measured, window_in_e2e, client, ttft_visible), *cache_flags(hits)),
    )


def _window(driven: Driven) -> tuple[float, float] | None:
    if driven.steady_s is None or driven.last_send_s <= driven.steady_s:
        return None
    return driven.steady_s, driven.last_send_s


def _engine_percentiles(traces: Sequence[Trace], value: Callable[[Trace], float | None]) -> Percentiles | None:
    """None where no request told its engine's times."""
    return percentiles(traces, value) if any(t.engine_times for t in traces) else None


def _whole_run(done: Sequence[Trace]) -> float | None:
    """Tokens of completed requests from the first due time to the last token, ramp and drain included."""
    if not done:
        return None
    last_s = max(t.timeline.at_s[-1] for t in done if t.timeline)
    return share(sum(t.tokens for t in done), last_s - min(t.due_s for t in done))


TIMES: Final[Mapping[str, Callable[[Trace], float | None]]] = {
    "ttft_visible": metrics.ttft_visible_s,
    "ttft_token": metrics.ttft_token_s,
    "tpot": metrics.tpot_s,
    "e2e": metrics.e2e_s,
}


def _goodput(measured: Measured, inside: Sequence[Trace]) -> float | None:
    """Requests that met every limit's time by themselves / all due; a time that a request has not is met."""
    limits = measured.workload.limits_at(measured.level)
    if not limits:
        return None
    good = sum(all((TIMES[x.metric](t) or 0.0) <= x.at_most_s for x in limits) for t in inside)
    return share(good, len(inside))


def _flags(measured: Measured, window_in_e2e: float | None, client: ClientProof, ttft: Percentiles) -> list[Flag]:
    flags = [*_load_flags(measured, window_in_e2e), *_arrival_flags(measured), *_count_flags(measured)]
    idle, lag_s = client.slot_idle_share, client.send_lag_p99_s
    if idle is not None and idle > measured.margin / 4:
        flags.append(Flag(code="client-bound throughput", detail=f"slots idle {idle:.1%} of the time", no_verdict=True))
    if lag_s is not None and ttft.p50.value is not None and lag_s > LAG_SHARE_OF_TTFT * ttft.p50.value:
        flags.append(Flag(code=LATENCY_BOUND, detail=f"p99 send lag {lag_s * 1e3:.2f} ms"))
    if abs(client.clock_drift_s) > CLOCK_DRIFT_S:
        drift_ms = client.clock_drift_s * 1e3
        flags.append(Flag(code="wall clock moved", detail=f"{drift_ms:.1f} ms; kernel stamps are off by up to that"))
    return flags


def _load_flags(measured: Measured, window_in_e2e: float | None) -> list[Flag]:
    flags = []
    if measured.driven.gave_up:
        flags.append(Flag(code="gave up", detail="too many requests failed in a row", no_verdict=True))
    if window_in_e2e is None or window_in_e2e < SHORTEST_WINDOW_E2E:
        length = "none" if window_in_e2e is None else f"{window_in_e2e:.1f} mean request times"
        flags.append(
            Flag(
                code="window too short",
                detail=f"{length}; {SHORTEST_WINDOW_E2E:g} are needed",
                no_verdict=True,
            )
        )
    (_, span), level = measured.workload.lengths, measured.level
    if span.low == span.high and level.kind == "concurrency" and level.value > 1:
        flags.append(Flag(code="lockstep", detail="answers of one length keep the slots in step"))
    return flags + _turn_flags(measured)


def _turn_flags(measured: Measured) -> list[Flag]:
    """Conversations: turns that could not reuse the turn before."""
    if measured.workload.turns == 1:
        return []
    traces, alive = measured.traces, measured.workload.alive_at(measured.level)
    early = sent_early([t.sent_s for t in traces], [t.end_s for t in traces], alive)
    detail = f"{early} of {len(traces)} turns were sent before the turn before them was answered"
    return [Flag(code="turns sent early", detail=detail)] if early else []


def _arrival_flags(measured: Measured) -> list[Flag]:
    """Open loop: what shows that the engine, or the cap, did not keep up with the arrivals."""
    flags: list[Flag] = []
    window = _window(measured.driven)
    if measured.level.kind != "rate" or window is None:
        return flags
    if measured.driven.over_cap:
        detail = f"{measured.driven.over_cap} requests waited since {measured.workload.max_in_flight} were in flight"
        flags.append(Flag(code="in-flight cap", detail=detail))
    due = sum(window[0] <= t.due_s <= window[1] for t in measured.traces)
    ended = sum(window[0] <= t.end_s <= window[1] for t in measured.traces)
    if ended < KEPT_UP * due:
        detail = f"{ended} requests ended while {due} were due: times grow with the length of the run"
        flags.append(Flag(code="saturated", detail=detail, no_verdict=True))
    return flags


def _count_flags(measured: Measured) -> list[Flag]:
    flags = []
    failed = [t for t in measured.traces if t.error]
    if failed:
        flags.append(Flag(code="failed requests", detail=f"{len(failed)}; the first: {failed[0].error}"))
    mismatches = [t for t in measured.traces if t.mismatch]
    if mismatches:
        one = mismatches[0]
        detail = (
            f"{len(mismatches)}; the first: server {one.server_tokens}, client {one.client_tokens}, events {one.tokens}"
        )
        flags.append(Flag(code="token mismatch", detail=detail))
    counted = difference(measured.after.requests, measured.before.requests)
    done = len(measured.traces) - len(failed)
    if counted is not None and counted != done:
        flags.append(
            Flag(code="foreign traffic", detail=f"the engine finished {counted:.0f} requests, {done} were ours")
        )
    flags += [Flag(code=note, detail="of this engine, at every level") for note in measured.capabilities.notes]
    if not measured.capabilities.incremental:
        flags.append(Flag(code="stream in one event", detail="no client TTFT or TPOT; see the engine clock's"))
    if measured.capabilities.block_tokens is not None:
        detail = f"blocks of {measured.capabilities.block_tokens} tokens, as the engine counts them"
        flags.append(Flag(code="cache in blocks", detail=detail))
    good = [t for t in measured.traces if not t.error]
    drafts = drafting(good, measured.before, measured.after)
    if measured.capabilities.speculates and not drafts.drafted_tokens:
        flags.append(Flag(code="speculation not reported", detail="drafting is on and no draft was counted"))
    return flags
