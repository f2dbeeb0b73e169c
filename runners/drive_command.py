# SPDX-License-Identifier: Apache-2.0
"""`bakeoff drive`: the client alone, against any running server."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from engines.contract import Call, Prompt, Sampling
from engines.dialects import DIALECTS, Dialect
from runners.errors import MendableError
from runners.load.drive import drive
from runners.load.fold import Folding, TokenEnds, ends_by, fold_all
from runners.load.load import Arrivals, Driven, Load
from runners.load.pacing import constant, gamma, replay
from runners.load.proof import nearest, prove
from runners.load.trace import Trace
from runners.load.transport import TRANSPORTS, check_address, transport_of
from runners.report.columns import batches, list_column, write_table

WORDS = "The quick brown fox jumps over the lazy dog near the old stone bridge"


class DriveError(MendableError):
    """Options that do not go together; the message says what would."""


@dataclass(frozen=True)
class Drive:
    """What `bakeoff drive` was asked. `rate` is in requests per second; None is closed loop."""

    url: str
    dialect: str
    model: str
    streams: int
    requests: int
    max_tokens: int
    rate: float | None
    burstiness: float | None
    seed: int
    ignore_eos: bool
    spread_s: float
    idle_limit_s: float
    transport: str
    tokenizer: Path | None
    replay: Path | None
    out: Path


def run_drive(asked: Drive, *, as_json: bool) -> None:
    """Drive, write DIR/traces.parquet and DIR/summary.json, print the summary."""
    dialect = DIALECTS.get(asked.dialect)
    if dialect is None:
        raise DriveError(f"--dialect {asked.dialect}: unknown; say one of {', '.join(DIALECTS)}")
    if (asked.out / "traces.parquet").exists():
        raise DriveError(f"--out {asked.out}: it holds traces already; choose another folder")
    if asked.transport not in TRANSPORTS:
        raise DriveError(f"--transport {asked.transport}: unknown; say one of {', '.join(TRANSPORTS)}")
    if asked.transport != "http" and not dialect.tensors:
        raise DriveError(f"--transport {asked.transport}: only Triton's dialects have it; {dialect.name} is HTTP's")
    load, token_ends = _load(asked), _token_ends(asked.tokenizer)
    transport = transport_of(asked.url, asked.transport)
    check_address(asked.url, transport)
    driven = drive(load, _prompts(asked), _encode(dialect, asked.model), transport)
    traces = fold_all(driven, Folding(dialect.fold, token_ends, needs_reason=dialect.gives_reason))
    slots = asked.streams if load.arrivals is None else None
    summary = {"transport": transport.name} | summarize_drive(driven, traces, slots)
    asked.out.mkdir(parents=True, exist_ok=True)
    write_drive_traces(asked.out / "traces.parquet", driven.start_ns, traces)
    text = json.dumps(summary, indent=2, allow_nan=False)
    (asked.out / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(text if as_json else _told(summary))


def _load(asked: Drive) -> Load:
    return Load(
        level=asked.streams,
        spread_s=asked.spread_s,
        window_s=0.0,
        window_e2e=0.0,
        idle_limit_s=asked.idle_limit_s,
        request_limit_s=20 * asked.idle_limit_s,
        requests=asked.requests,
        arrivals=_arrivals(asked),
    )


def _arrivals(asked: Drive) -> Arrivals | None:
    """Open loop; None is closed loop."""
    if asked.replay is not None:
        if asked.rate is not None:
            raise DriveError("--replay and --rate: the trace has its own times; give one of them")
        return Arrivals(_replayed(asked.replay), asked.requests, asked.streams)
    if asked.rate is None:
        return None
    shape = asked.burstiness
    due_s = constant(asked.rate) if shape is None else gamma(asked.rate, shape, asked.seed)
    return Arrivals(due_s, asked.requests, asked.streams)


def _replayed(path: Path) -> Iterator[float]:
    try:
        return replay([float(line) for line in path.read_text("utf-8").split()])
    except (OSError, ValueError) as error:
        raise DriveError(f"--replay {path}: {error}; one time in seconds a line is wanted") from None


def _token_ends(tokenizer: Path | None) -> TokenEnds | None:
    if tokenizer is None:
        return None
    path = tokenizer / "tokenizer.json" if tokenizer.is_dir() else tokenizer
    if not path.exists():
        raise DriveError(f"--tokenizer {tokenizer}: no tokenizer.json there")
    from tokenizers import Tokenizer

    return ends_by(Tokenizer.from_file(str(path)))


def _prompts(asked: Drive) -> Iterator[Prompt]:
    return repeat(Prompt(WORDS, len(WORDS.split()), asked.max_tokens, asked.ignore_eos, Sampling(seed=asked.seed)))


def _encode(dialect: Dialect, model: str) -> Any:
    def encode(prompt: Prompt, request_id: str) -> Call:
        return dialect.encode(prompt, model, request_id)

    return encode


def summarize_drive(driven: Driven, traces: Sequence[Trace], slots: int | None) -> dict[str, Any]:
    """Figures of the whole run, in seconds and tokens; None is unknown."""
    import numpy as np

    done = [t for t in traces if t.error is None and t.timeline]
    first_s = min((t.due_s for t in traces), default=0.0)
    last_s = max((t.timeline.at_s[-1] for t in done), default=math.nan)
    tokens = sum(t.tokens for t in done)
    spent_s = last_s - first_s if done else None
    gaps = np.concatenate([np.diff(t.timeline.at_s) for t in done] or [np.empty(0)])
    return {
        "requests": len(traces),
        "done": len(done),
        "failed": len(traces) - len(done),
        "errors": _errors(traces),
        "events": sum(t.events for t in traces),
        "received_bytes": sum(t.received_bytes for t in traces),
        "tokens": tokens,
        "duration_s": spent_s,
        "output_tokens_per_s": tokens / spent_s if spent_s else None,
        "ttft_token_s": _quantiles(sorted(t.timeline.at_s[0] - t.due_s for t in done)),
        "ttft_visible_s": _quantiles(sorted(t.visible_s - t.due_s for t in done if t.visible_s is not None)),
        "event_gap_s": _quantiles(np.sort(gaps)),
        "event_gap_mean_s": float(gaps.mean()) if len(gaps) else None,
        "e2e_s": _quantiles(sorted(t.timeline.at_s[-1] - t.due_s for t in done)),
        "client": prove(driven, traces, traces, slots).model_dump(),
    }


def _quantiles(ordered: Any) -> dict[str, float | None]:
    found = {f"p{q:g}": nearest(ordered, q / 100) for q in (50, 95, 99)}
    return {name: None if value is None else float(value) for name, value in found.items()}


def _errors(traces: Sequence[Trace]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for trace in traces:
        if trace.error is not None:
            counted[trace.error] = counted.get(trace.error, 0) + 1
    return dict(sorted(counted.items(), key=lambda item: -item[1])[:10])


TYPES: Final = {
    "request_id": "string",
    "due_ns": "int64",
    "sent_ns": "int64",
    "event_ns": "int64[]",
    "event_user_ns": "int64[]",
    "event_tokens": "int64[]",
    "visible_ns": "int64",
    "end_ns": "int64",
    "server_tokens": "int64",
    "finish_reason": "string",
    "status": "int64",
    "error": "string",
}


def write_drive_traces(path: Path, start_ns: int, traces: Sequence[Trace]) -> None:
    """One row a request. All times are nanoseconds of CLOCK_MONOTONIC; `event_ns` and `event_tokens`
    list the events that brought tokens, by the kernel's stamp where there is one."""
    write_table(path, TYPES, (_columns(batch, start_ns) for batch in batches(traces)))


def _columns(traces: Sequence[Trace], start_ns: int) -> dict[str, Any]:
    import numpy as np

    def ns(seconds: float | None) -> int | None:
        return None if seconds is None else start_ns + round(seconds * 1e9)

    def all_ns(seconds: Any) -> Any:
        return start_ns + np.rint(np.asarray(seconds) * 1e9).astype(np.int64)

    return {
        "request_id": [t.request_id for t in traces],
        "due_ns": [ns(t.due_s) for t in traces],
        "sent_ns": [ns(t.sent_s) for t in traces],
        "event_ns": list_column(all_ns(t.timeline.at_s) for t in traces),
        "event_user_ns": list_column(all_ns(t.timeline.user_s) for t in traces),
        "event_tokens": list_column(np.diff(t.timeline.tokens, prepend=0) for t in traces),
        "visible_ns": [ns(t.visible_s) for t in traces],
        "end_ns": [ns(t.end_s) for t in traces],
        "server_tokens": [t.server_tokens for t in traces],
        "finish_reason": [t.finish_reason for t in traces],
        "status": [t.status for t in traces],
        "error": [t.error for t in traces],
    }


def _told(summary: dict[str, Any]) -> str:
    lines = []
    for name, value in summary.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        lines += [f"{name}{'.' if key else ''}{key}: {'-' if one is None else one}" for key, one in inner]
    return "\n".join(lines)
