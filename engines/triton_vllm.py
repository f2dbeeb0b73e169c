# SPDX-License-Identifier: Apache-2.0
"""vLLM inside Triton Inference Server, with the tensors of Triton's vLLM backend."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from engines import model_repository, prometheus, triton_server, triton_wire, vllm_ledger, vllm_settings
from engines.contract import Call, Capabilities, Engine, Evidence, Prompt, Reading
from engines.launch import Checkpoint, Command, Knobs, Launch, Place
from engines.log_lines import logged


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """The same engine arguments as vLLM's own server, in the model's configuration: of Triton's own vLLM backend
    where an installed Triton has it, else of our model, which the wheel's server can run."""
    args = vllm_settings.engine_args(checkpoint.folder, knobs, place)
    env = vllm_settings.environment(place)
    if place.triton or (place.vendor and place.vendor.backends):
        return _with_backend(args, env, place)
    return model_repository.launch(place, "triton_vllm_model.py", args, env)


def _with_backend(args: Mapping[str, Any], env: Mapping[str, str], place: Place) -> Launch:
    """Tensors and policy come from the backend itself, so that its configuration must be completed by the server.
    triton-inference-server/vllm_backend 8de0c14."""
    repository = f"models/{place.served_name}"
    files = {
        f"{repository}/config.pbtxt": (
            f'name: "{place.served_name}"\nbackend: "vllm"\ninstance_group [ {{ count: 1 kind: KIND_MODEL }} ]\n'
        ),
        f"{repository}/1/model.json": json.dumps(args, indent=2) + "\n",
    }
    argv = (
        *triton_server.server_argv(place),
        f"--model-repository={place.folder}/models",
        *triton_server.ports_argv(place),
    )
    serve = Command(argv, {**env, **triton_server.environment(place)})
    links, copies = triton_server.backend_links(place, "vllm"), triton_server.backend_copies(place)
    return triton_server.launch(place, files, links, serve, copies)


def read(evidence: Evidence) -> Reading:
    """vLLM's metrics page comes through our model, or what of it Triton's vLLM backend hands on comes
    with Triton's own; version and settings are in the log."""
    page = triton_wire.engine_page(evidence) or evidence.answers.get("triton") or ""
    samples = prometheus.parse(page)
    version = logged(evidence.log, r"Initializing a V1 LLM engine \(v([\w.+]+)\)")
    max_len = logged(evidence.log, r"max_seq_len=(\d+)")
    counters = prometheus.counters(samples, prometheus.VLLM_NAMES)
    capabilities = triton_wire.capabilities(
        evidence,
        engine_version=version,
        max_model_len=int(max_len) if max_len else None,
        speculates=counters.drafted_tokens is not None,
    )
    capabilities = replace(capabilities, spared_blocks=vllm_ledger.spared_blocks(evidence.log))
    rows = vllm_ledger.ledger(samples, evidence.log, version)
    return Reading(capabilities, rows, counters, loaded=vllm_ledger.loaded(evidence.log, renders=False))


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """The sampling fields that vLLM's own server is sent, by SamplingParams' names."""
    chosen = prompt.sampling
    fields = {
        "temperature": chosen.temperature,
        "top_p": chosen.top_p,
        "top_k": chosen.top_k,
        "seed": chosen.seed,
    }
    sampling = vllm_settings.sampling(prompt.max_tokens, prompt.forced, fields)
    return triton_wire.encode(prompt, capabilities, sampling)


ENGINE: Final = Engine(
    name="triton_vllm",
    summary="vLLM inside Triton Inference Server",
    environments=("vllm-cpu", "vllm-cuda"),
    package="vllm",
    plan=plan,
    probes=triton_wire.probes,
    read=read,
    encode=encode,
    fold=triton_wire.fold,
    triton_stub=True,
)
