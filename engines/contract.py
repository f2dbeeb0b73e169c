# SPDX-License-Identifier: Apache-2.0
"""What an engine has to say about itself: the values and the five functions of `Engine`.

Everything here is pure. An engine does not know how it is started (a runner does that), how the
load is paced, or what is computed from its answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from engines.launch import Checkpoint, Knobs, Launch, Place


@dataclass(frozen=True)
class Probe:
    """One request asked after start. `path` is absolute on the server's address, `{name}` in it is
    the served name; a `body` makes it a POST. `port` is "http" or "metrics". One that is silent for
    `limit_s` has no answer. With `stop` set, that body follows `stop_after_s` later, on its own. A trial that is
    asked `once` is asked in a contender's first life only."""

    name: str
    path: str
    body: Mapping[str, Any] | None = None
    port: str = "http"
    limit_s: float = 30.0
    stop: Mapping[str, Any] | None = None
    stop_after_s: float = 0.0
    once: bool = False


@dataclass(frozen=True)
class Said:
    """How a trial ended: status and body as far as they came, None for no status; how long it took, and
    whether the limit ended it."""

    status: int | None
    body: str
    seconds: float
    silent: bool


@dataclass(frozen=True)
class Evidence:
    """What a running engine said: answers by probe name (None where it gave none), its log, and once,
    after the start, how the trials ended."""

    answers: Mapping[str, str | None]
    log: str
    served_name: str
    trials: Mapping[str, Said] = field(default_factory=dict)


@dataclass(frozen=True)
class Capabilities:
    """What the running engine can do and report, read back from it, never assumed.

    `tokens_per_event`: each event says how many tokens it added, so that TTFT is that of the first
    token and not only of the first text. `forces_length`: an answer of exactly max_tokens can be had.
    `incremental`: a stream comes in as many events as there are steps; otherwise the client has no times
    of it. `whole_text`: each event repeats the text so far. `gives_reason`: an answer without a finish
    reason is broken off. `block_tokens` turns cached blocks into tokens where the engine counts blocks;
    `draft_tokens` is how many each request has to ask to be drafted, where it is the request that says so.
    `spared_blocks` of the cache are computed again although they match, the last ones of a match.
    `notes` are what a reader of every row must know.
    """

    model: str
    engine_version: str | None
    front_end: str
    max_model_len: int | None
    tokens_per_event: bool
    forces_length: bool
    reports_cached_tokens: bool
    speculates: bool
    incremental: bool = True
    whole_text: bool = False
    gives_reason: bool = True
    block_tokens: int | None = None
    draft_tokens: int | None = None
    spared_blocks: int = 0
    notes: tuple[str, ...] = ()


class RowKind(StrEnum):
    """How a row of the ledger is compared."""

    MUST_MATCH = "must match"
    IDENTITY = "identity"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True)
class LedgerRow:
    """One setting read back from the running engine, and where it was read."""

    name: str
    value: str | None
    source: str
    kind: RowKind


@dataclass(frozen=True)
class Loaded:
    """What an engine says it loaded beside weights, for the tool to compare with the checkpoint.

    `tokenizer` is the folder it was taken from, or the file that a checkpoint was converted to. `renders`: the engine
    has a chat template; its text where the engine tells it, its file where it was given one, else the tokenizer's
    own. `sampling_defaults` are what fields get that no request names. None was not said.
    """

    tokenizer: str | None = None
    renders: bool = False
    template: str | None = None
    template_file: str | None = None
    sampling_defaults: str | None = None


@dataclass(frozen=True)
class Counters:
    """An engine's own counts since its start: tokens, drafts, requests. None is "not reported".

    `cached_tokens` are prompt tokens taken from the prefix cache. `drafts` are steps with a draft, `steps` all that
    added tokens to a request, each request's counted by itself; `accepted_by_position` are accepted tokens by their
    place in the draft.
    `running` and `waiting` are requests at this moment. `queue_s`, `prefill_s` and `decode_s` are sums over the
    `timed_requests`: until scheduled, from there to the first token, and from the first to the last.
    """

    requests: float | None = None
    running: float | None = None
    waiting: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    generated_tokens: float | None = None
    drafts: float | None = None
    drafted_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_by_position: tuple[float, ...] | None = None
    steps: float | None = None
    timed_requests: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True)
class Reading:
    """What `Engine.read` makes of the evidence. `refusals` are sentences that say why figures of this
    server would be wrong."""

    capabilities: Capabilities
    ledger: tuple[LedgerRow, ...]
    counters: Counters
    refusals: tuple[str, ...] = ()
    loaded: Loaded = Loaded()


@dataclass(frozen=True)
class Sampling:
    """Sampling fields, all of them sent explicitly; temperature 0 is greedy. top_k 0 is off."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Prompt:
    """One request before it is encoded for an engine.

    `text` is rendered with the checkpoint's template, without a leading BOS; `input_tokens` is the
    count by the checkpoint's tokenizer. `forced`: the answer must have exactly `max_tokens`. `reused_tokens`: as many
    of its first tokens were sent before, by construction; None where it was not constructed.
    """

    text: str
    input_tokens: int
    max_tokens: int
    forced: bool
    sampling: Sampling
    reused_tokens: int | None = None


@dataclass(frozen=True)
class Call:
    """One HTTP request: path and JSON body."""

    path: str
    body: bytes


class EngineTimes(NamedTuple):
    """One request on the engine's own clock, in nanoseconds: only differences mean anything."""

    arrival_ns: int
    scheduled_ns: int
    first_token_ns: int
    last_token_ns: int

    @classmethod
    def of_spans(cls, queue_ns: int, prefill_ns: int, decode_ns: int) -> "EngineTimes":
        """Where an engine tells the lengths only: arrival to scheduled, to the first token, to the last."""
        return cls(0, queue_ns, queue_ns + prefill_ns, queue_ns + prefill_ns + decode_ns)


EventData = bytes | Mapping[str, Any]
"""What `fold` gets of one event: the data of a server-sent event, or the outputs by name from gRPC."""


@dataclass(slots=True)
class Answer:
    """What a stream has said so far; `fold` changes it, event by event.

    `tokens` is the number of generated tokens up to the last event, by what the events say of
    themselves; `server_tokens` the engine's own final count. `ended`: the stream's own end was seen
    (an end marker or a finish reason). `uncounted`: events do not say how many tokens they add, so each
    with text was taken for one. `drafted_tokens`, `accepted_tokens` and `engine_times` are this request's
    own. A None was not reported.
    """

    text: str = ""
    tokens: int = 0
    server_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    ended: bool = False
    uncounted: bool = False
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    engine_times: EngineTimes | None = None


def supports_all(_checkpoint: Checkpoint, _version: str) -> str | None:
    """For engines whose own refusal is clear enough."""
    return None


def no_trials(_prompt: Prompt) -> tuple[Probe, ...]:
    """For engines whose probes say all."""
    return ()


@dataclass(frozen=True)
class Engine:
    """One way of serving: a name and pure functions, all testable without the engine.

    `environments` lists requirement files under configs/environments that can hold it; `package` is
    the distribution there whose version is the engine's. `triton_stub`: its model runs in Triton's
    Python stub, which has demands of its own on that environment. `fold` gets the answer so far and one
    event and brings the answer up to date; it runs for every event of millions. `trials` are requests asked
    once, in order, after the start. `unsupported` says why a checkpoint cannot run in a version, or None;
    `unsupported_words` is a pattern of what the engine itself says then while it starts.
    """

    name: str
    summary: str
    environments: tuple[str, ...]
    package: str
    plan: Callable[[Checkpoint, Knobs, Place], Launch]
    probes: Callable[[], tuple[Probe, ...]]
    read: Callable[[Evidence], Reading]
    encode: Callable[[Prompt, Capabilities], Call]
    fold: Callable[[Answer, EventData, Capabilities], None]
    triton_stub: bool = False
    trials: Callable[[Prompt], tuple[Probe, ...]] = no_trials
    unsupported: Callable[[Checkpoint, str], str | None] = supports_all
    unsupported_words: str | None = None
