# SPDX-License-Identifier: Apache-2.0
"""Any OpenAI-compatible server that somebody else runs: SGLang and NIM among them.

It is asked by trials which fields beyond the protocol it takes. Of its settings nothing can be read back.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from engines import openai_wire, prometheus
from engines.contract import (
    Answer,
    Call,
    Capabilities,
    Engine,
    EventData,
    Evidence,
    LedgerRow,
    Probe,
    Prompt,
    Reading,
    RowKind,
    Said,
)
from engines.event_json import data_lines
from engines.launch import Checkpoint, Command, Knobs, Launch, Place, PlanError
from engines.ledger_rows import MAXIMUM_LENGTH, OF_KNOB

TRIAL_TOKENS: Final = 8
UNTOLD: Final = "somebody else's server, which says nothing of it: no knob was set there"
KNOBS_UNTOLD: Final = tuple(name for name in OF_KNOB.values() if name != MAXIMUM_LENGTH)
VERSION_PAGES: Final = ("version", "server info", "nim version")
FAMILIES: Final[Mapping[str, prometheus.Names]] = {
    "vllm:": prometheus.VLLM_NAMES,
    "sglang:": prometheus.SGLANG_NAMES,
}


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """Nothing to start. Knobs cannot be set, so that those which change an answer are refused."""
    if knobs.extra or knobs.speculation or knobs.quantization:
        raise PlanError("knobs: a server that somebody else runs takes no settings from here; leave them out")
    return Launch({}, {}, (), Command(()), place.url, place.url, "/v1/models", (place.http_port,), place.gpus)


def probes() -> tuple[Probe, ...]:
    return (
        Probe("models", "/v1/models"),
        Probe("version", "/version"),
        Probe("server info", "/server_info"),
        Probe("nim version", "/v1/version"),
        Probe("metrics", "/metrics"),
    )


def trials(prompt: Prompt) -> tuple[Probe, ...]:
    """With and without the fields that are no part of the protocol."""
    model = "{name}"
    return (
        Probe("extended", "/v1/completions", _body(prompt, model, TRIAL_TOKENS, forced=True, extended=True)),
        Probe("plain", "/v1/completions", _body(prompt, model, TRIAL_TOKENS, forced=False, extended=False)),
    )


def _body(prompt: Prompt, model: str, max_tokens: int, *, forced: bool, extended: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt.text,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": prompt.sampling.temperature,
        "top_p": prompt.sampling.top_p,
        "seed": prompt.sampling.seed,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }
    if extended:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        body |= {"ignore_eos": forced, "min_tokens": max_tokens if forced else 0}
        body |= {"top_k": prompt.sampling.top_k or -1, "min_p": 0.0, "repetition_penalty": 1.0}
    return body


def read(evidence: Evidence) -> Reading:
    """Name, version and counters by the pages that the known servers have; abilities by the trials."""
    page = evidence.answers.get("metrics") or ""
    names = next((names for family, names in FAMILIES.items() if family in page), None)
    counters = prometheus.counters(prometheus.parse(page if names else ""), names or {})
    model = openai_wire.served(evidence)
    version = next(filter(None, (_version(evidence.answers.get(name)) for name in VERSION_PAGES)), None)
    extended, answer = _tried(evidence)
    longest = model.get("max_model_len")
    capabilities = Capabilities(
        model=model.get("id", ""),
        engine_version=version,
        front_end=f"OpenAI API{', extended' if extended else ''}",
        max_model_len=longest,
        tokens_per_event=answer.tokens == TRIAL_TOKENS,
        forces_length=extended and answer.server_tokens == TRIAL_TOKENS,
        reports_cached_tokens=answer.cached_tokens is not None,
        speculates=counters.drafted_tokens is not None,
    )
    owner = LedgerRow("owner", model.get("owned_by"), "/v1/models", RowKind.IDENTITY)
    settings = (
        LedgerRow(MAXIMUM_LENGTH, None if longest is None else str(longest), "/v1/models", RowKind.MUST_MATCH),
        *(LedgerRow(name, None, UNTOLD, RowKind.MUST_MATCH) for name in KNOBS_UNTOLD),
    )
    return Reading(capabilities, (owner, *settings), counters, _refusals(evidence))


def _version(page: str | None) -> str | None:
    try:
        value = json.loads(page or "{}")
    except ValueError:
        return None
    version = value.get("version") or value.get("release") if isinstance(value, dict) else None
    return str(version) if version else None


def _tried(evidence: Evidence) -> tuple[bool, Answer]:
    """Whether the extended request was taken, and the answer of the richer of the two that were."""
    extended, plain = evidence.trials.get("extended"), evidence.trials.get("plain")
    taken = extended is not None and extended.status == 200
    said = extended if taken else plain
    return taken, _answer(said) if said is not None else Answer()


def _answer(said: Said) -> Answer:
    answer = Answer()
    for data in data_lines(said.body.encode()):
        openai_wire.fold_any(answer, data)
    return answer


def _refusals(evidence: Evidence) -> tuple[str, ...]:
    plain = evidence.trials.get("plain")
    if plain is None or plain.status == 200:
        return ()
    return (f"a completion by the protocol's own fields failed: HTTP {plain.status}: {plain.body.strip()[:200]}",)


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """With the fields beyond the protocol where the trial had them taken."""
    extended = capabilities.front_end.endswith("extended")
    body = _body(prompt, capabilities.model, prompt.max_tokens, forced=prompt.forced, extended=extended)
    return Call("/v1/completions", json.dumps(body).encode())


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Text as deltas; tokens as the usage so far, else one for each event with text."""
    openai_wire.fold_any(answer, data)


ENGINE: Final = Engine(
    name="openai_attach",
    summary="any OpenAI-compatible server that somebody else runs (runner: attach)",
    environments=(),
    package="",
    plan=plan,
    probes=probes,
    trials=trials,
    read=read,
    encode=encode,
    fold=fold,
)
