# SPDX-License-Identifier: Apache-2.0
"""llama.cpp served by its own OpenAI-compatible server: the light pair's direct side."""

import json
from typing import Final

from engines import llamacpp_settings, openai_wire, prometheus
from engines.contract import Answer, Call, Capabilities, Engine, EventData, Evidence, Probe, Prompt, Reading
from engines.inside_files import inside_path
from engines.launch import Checkpoint, Command, Knobs, Launch, Place


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """Convert once, then serve in one process."""
    settings = llamacpp_settings.settings(checkpoint, knobs, place)
    path = f"{place.folder}/llamacpp.json"
    return Launch(
        files={"llamacpp.json": llamacpp_settings.settings_text(settings)},
        links={},
        prepare=(llamacpp_settings.convert(checkpoint, place),),
        serve=Command((place.python, inside_path("llamacpp_serve.py"), path)),
        url=place.url,
        metrics_url=place.url,
        ready_path="/health",
        ports=(place.http_port,),
    )


def probes() -> tuple[Probe, ...]:
    return (
        Probe("models", "/v1/models"),
        Probe("props", "/props"),
        Probe("metrics", "/metrics"),
    )


def read(evidence: Evidence) -> Reading:
    """Served name by the API, version and sizes by the log, counters by the metrics page."""
    samples = prometheus.parse(evidence.answers.get("metrics") or "")
    model = openai_wire.served(evidence)
    page = json.loads(evidence.answers.get("props") or "{}")
    props = page.get("default_generation_settings", {})
    version = llamacpp_settings.version_in(evidence.log)
    capabilities = Capabilities(
        model=model.get("id", ""),
        engine_version=version,
        front_end="llama.cpp server",
        max_model_len=props.get("n_ctx"),
        tokens_per_event=True,
        forces_length=True,
        reports_cached_tokens=True,
        speculates=llamacpp_settings.speculation_in(evidence.log) not in (None, "NONE"),
        notes=(llamacpp_settings.BY_SLOT,),
    )
    counters = prometheus.counters(samples, prometheus.LLAMACPP_NAMES)
    rows = llamacpp_settings.ledger(evidence.log, version)
    loaded = llamacpp_settings.loaded(evidence.log, page.get("chat_template"))
    return Reading(capabilities, rows, counters, loaded=loaded)


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """A streaming completion; `timings_per_token` makes each event carry the tokens so far."""
    body = openai_wire.base_body(prompt, capabilities.model)
    body |= {"ignore_eos": prompt.forced, "repeat_penalty": 1.0, "timings_per_token": True}
    return Call("/v1/completions", json.dumps(body).encode())


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Text comes as deltas, `timings.predicted_n` as the total so far."""
    event = openai_wire.parse_event(answer, data)
    if event is None:
        return
    so_far = (event.get("timings") or {}).get("predicted_n", answer.tokens)
    answer.tokens = max(answer.tokens, so_far)
    for choice in event.get("choices") or ():
        openai_wire.fold_choice(answer, choice)
    openai_wire.fold_usage(answer, event, missing_cached=None)


ENGINE: Final = Engine(
    name="llamacpp_openai",
    summary="llama.cpp with its own OpenAI-compatible server",
    environments=("llamacpp",),
    package="xllamacpp",
    plan=plan,
    probes=probes,
    read=read,
    encode=encode,
    fold=fold,
)
