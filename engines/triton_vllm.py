# SPDX-License-Identifier: Apache-2.0
"""vLLM inside Triton Inference Server, with the tensors of Triton's vLLM backend."""

import re
from typing import Final

from engines import model_repository, prometheus, triton_wire, vllm_settings
from engines.contract import (
    Call,
    Capabilities,
    Checkpoint,
    Engine,
    Evidence,
    Knobs,
    Launch,
    Place,
    Prompt,
    Reading,
)


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """The same engine arguments as vLLM's own server, in the model's configuration."""
    args = vllm_settings.engine_args(checkpoint.folder, knobs, place)
    env = vllm_settings.environment(place)
    return model_repository.launch(place, "triton_vllm_model.py", args, env)


def read(evidence: Evidence) -> Reading:
    """vLLM's metrics page comes through our model, or what of it Triton's vLLM backend hands on comes
    with Triton's own; version and settings are in the log."""
    page = triton_wire.engine_page(evidence) or evidence.answers.get("triton") or ""
    samples = prometheus.parse(page)
    version = _logged(evidence.log, r"Initializing a V1 LLM engine \(v([\w.+]+)\)")
    max_len = _logged(evidence.log, r"max_seq_len=(\d+)")
    counters = prometheus.counters(samples, prometheus.VLLM_NAMES)
    capabilities = triton_wire.capabilities(
        evidence,
        engine_version=version,
        max_model_len=int(max_len) if max_len else None,
        speculates=counters.drafted_tokens is not None,
    )
    return Reading(capabilities, vllm_settings.ledger(samples, evidence.log, version), counters)


def _logged(log: str, pattern: str) -> str | None:
    found = re.search(pattern, log)
    return found.group(1) if found else None


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
