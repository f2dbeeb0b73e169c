# SPDX-License-Identifier: Apache-2.0
"""llama.cpp inside Triton Inference Server: the light pair's other side."""

from dataclasses import replace
from typing import Any, Final

from engines import llamacpp_settings, model_repository, prometheus, triton_wire
from engines.contract import Call, Capabilities, Engine, Evidence, Prompt, Reading
from engines.inside_files import inside_text
from engines.launch import Checkpoint, Knobs, Launch, Place


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """The same settings as llama.cpp's own server; its HTTP side gets a port that nobody is told."""
    settings: dict[str, Any] = llamacpp_settings.settings(checkpoint, knobs, place) | {"port": 0}
    launch = model_repository.launch(place, "triton_llamacpp_model.py", settings, {})
    parameters = f"models/{place.served_name}/1/llamacpp_serve.py"
    return replace(
        launch,
        files={**launch.files, parameters: inside_text("llamacpp_serve.py")},
        prepare=(llamacpp_settings.convert(checkpoint, place),),
    )


def read(evidence: Evidence) -> Reading:
    """Counters by llama.cpp's page, fetched through the model; sizes and version by Triton's log."""
    samples = prometheus.parse(triton_wire.engine_page(evidence))
    version = llamacpp_settings.version_in(evidence.log)
    ledger = llamacpp_settings.ledger(evidence.log, version)
    max_len = next(row.value for row in ledger if row.name == "maximum length (tokens)")
    capabilities = triton_wire.capabilities(
        evidence,
        engine_version=version,
        max_model_len=int(max_len) if max_len else None,
        speculates=llamacpp_settings.speculation_in(evidence.log) not in (None, "NONE"),
        notes=(llamacpp_settings.BY_SLOT,),
    )
    counters = prometheus.counters(samples, prometheus.LLAMACPP_NAMES)
    return Reading(capabilities, ledger, counters, loaded=llamacpp_settings.loaded(evidence.log))


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """llama.cpp's own field names, inside the sampling tensor."""
    chosen = prompt.sampling
    fields = {
        "max_tokens": prompt.max_tokens,
        "ignore_eos": prompt.forced,
        "temperature": chosen.temperature,
        "top_p": chosen.top_p,
        "top_k": chosen.top_k,
        "min_p": 0.0,
        "seed": chosen.seed,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "repeat_penalty": 1.0,
    }
    return triton_wire.encode(prompt, capabilities, fields)


ENGINE: Final = Engine(
    name="triton_llamacpp",
    summary="llama.cpp inside Triton Inference Server",
    environments=("llamacpp",),
    package="xllamacpp",
    plan=plan,
    probes=triton_wire.probes,
    read=read,
    encode=encode,
    fold=triton_wire.fold,
    triton_stub=True,
)
