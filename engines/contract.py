# SPDX-License-Identifier: Apache-2.0
"""What an engine has to say about itself: the values and the five functions of `Engine`.

Everything here is pure. An engine does not know how it is started (a runner does that), how the
load is paced, or what is computed from its answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class PlanError(ValueError):
    """A knob that this engine cannot honour; the message names the knob and what would be right."""


@dataclass(frozen=True)
class Checkpoint:
    """A Hugging Face folder on this machine.

    `revision` is the commit of the hub, or None for a local folder; `sha256` covers the weight
    files, so it names the weights wherever the folder lies. `context` is in tokens.
    """

    folder: str
    sha256: str
    revision: str | None
    context: int | None


@dataclass(frozen=True)
class Speculation:
    """Drafting of tokens ahead: `kind` is "ngram", `tokens` is the draft length in tokens."""

    kind: str
    tokens: int


@dataclass(frozen=True)
class Knobs:
    """Matched settings, said once and translated by each engine's `plan`.

    None leaves the choice to the engine; a knob that an engine lacks is a PlanError, never
    dropped. Lengths, batch limits and cache capacity are in tokens or sequences.
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int | None = None
    dtype: str = "auto"
    kv_cache_tokens: int | None = None
    block_size: int | None = None
    prefix_cache: bool = True
    chunked_prefill: bool = True
    cuda_graphs: bool = True
    speculation: Speculation | None = None
    tensor_parallel: int = 1
    threads: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Place:
    """Where a launch happens: an engine's environment, a folder of its own, ports, GPUs.

    `version` is the version of the package that `Engine.package` names, as installed there;
    `cache` is a folder kept between lives for what is derived from the checkpoint once.
    """

    python: str
    site_packages: str
    lib_dir: str
    python_version: str
    version: str
    folder: str
    cache: str
    served_name: str
    http_port: int
    grpc_port: int
    metrics_port: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Command:
    """A program to run: its argv, what is added to its environment, and a file it makes once."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    creates: str | None = None


@dataclass(frozen=True)
class Launch:
    """Everything a runner needs to bring an engine up: files first, then commands, then the server.

    `files` maps paths below `Place.folder` to their text, `links` to the files they point at.
    `metrics_url` is where probes of the metrics port go, `grpc_url` (grpc://HOST:PORT) where Triton's
    calls go, `gpus` whose memory has to be free again after the end.
    """

    files: Mapping[str, str]
    links: Mapping[str, str]
    prepare: tuple[Command, ...]
    serve: Command
    url: str
    metrics_url: str
    ready_path: str
    ports: tuple[int, ...]
    gpus: tuple[int, ...] = ()
    grpc_url: str | None = None


@dataclass(frozen=True)
class Probe:
    """One request asked after start. `path` is absolute on the server's address, `{name}` in it is
    the served name; a `body` makes it a POST. `port` is "http" or "metrics"."""

    name: str
    path: str
    body: Mapping[str, Any] | None = None
    port: str = "http"


@dataclass(frozen=True)
class Evidence:
    """What a running engine said: answers by probe name (None where it gave none) and its log."""

    answers: Mapping[str, str | None]
    log: str
    served_name: str


@dataclass(frozen=True)
class Capabilities:
    """What the running engine can do and report, read back from it, never assumed.

    `tokens_per_event`: each event says how many tokens it added, so that TTFT is that of the first
    token and not only of the first text. `forces_length`: an answer of exactly max_tokens can be had.
    """

    model: str
    engine_version: str | None
    front_end: str
    max_model_len: int | None
    tokens_per_event: bool
    forces_length: bool
    reports_cached_tokens: bool
    speculates: bool


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
class Counters:
    """An engine's own counts since its start: tokens, drafts, requests. None is "not reported".

    `cached_tokens` are prompt tokens taken from the prefix cache. `drafts` are steps with a draft.
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
    timed_requests: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True)
class Reading:
    """What `Engine.read` makes of the evidence."""

    capabilities: Capabilities
    ledger: tuple[LedgerRow, ...]
    counters: Counters


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
    count by the checkpoint's tokenizer. `forced`: the answer must have exactly `max_tokens`.
    """

    text: str
    input_tokens: int
    max_tokens: int
    forced: bool
    sampling: Sampling


@dataclass(frozen=True)
class Call:
    """One HTTP request: path and JSON body."""

    path: str
    body: bytes


EventData = bytes | Mapping[str, Any]
"""What `fold` gets of one event: the data of a server-sent event, or the outputs by name from gRPC."""


@dataclass(slots=True)
class Answer:
    """What a stream has said so far; `fold` changes it, event by event.

    `tokens` is the number of generated tokens up to the last event, by what the events say of
    themselves; `server_tokens` the engine's own final count. `ended`: the stream's own end was seen
    (an end marker or a finish reason). `uncounted`: events do not say how many tokens they add, so each
    with text was taken for one. A None was not reported.
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


@dataclass(frozen=True)
class Engine:
    """One way of serving: a name and pure functions, all testable without the engine.

    `environments` lists requirement files under configs/environments that can hold it; `package` is
    the distribution there whose version is the engine's. `triton_stub`: its model runs in Triton's
    Python stub, which has demands of its own on that environment. `fold` gets the answer so far and one
    event and brings the answer up to date; it runs for every event of millions.
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
