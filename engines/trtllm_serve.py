# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM with its own OpenAI-compatible server.

Facts: tensorrt_llm/commands/serve.py and serve/openai_protocol.py of NVIDIA/TensorRT-LLM. Its server refuses fields
that it does not know, takes the model's name from the folder's, and breaks a stream off where it fails.
"""

import json
from typing import Any, Final

from engines import openai_wire, prometheus, trtllm_settings
from engines.contract import Answer, Call, Capabilities, Engine, EventData, Evidence, Probe, Prompt, Reading
from engines.launch import Checkpoint, Command, Knobs, Launch, Place

OPTIONS: Final = "llm_options.yaml"


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """The arguments that Triton's model gets, in a file; the folder is served through a link of the served name."""
    args = trtllm_settings.llm_args(checkpoint.folder, knobs, place.version)
    model = f"{place.folder}/{place.served_name}"
    flags = {
        "host": "127.0.0.1",
        "port": place.http_port,
        "backend": args.pop("backend"),
        "tp_size": args.pop("tensor_parallel_size"),
        "pp_size": args.pop("pipeline_parallel_size"),
        "max_batch_size": args.pop("max_batch_size"),
        "max_seq_len": args.pop("max_seq_len"),
    }
    if "max_num_tokens" in args:
        flags["max_num_tokens"] = args.pop("max_num_tokens")
    del args["model"]
    argv = (place.python, f"{trtllm_settings.vendor(place).bin}/trtllm-serve", "serve", model)
    told = (word for name, value in flags.items() for word in (f"--{name}", str(value)))
    serve = (*argv, *told, "--extra_llm_api_options", f"{place.folder}/{OPTIONS}")
    return Launch(
        files={OPTIONS: json.dumps(args, indent=2) + "\n"},
        links={place.served_name: checkpoint.folder},
        prepare=trtllm_settings.checks(place),
        serve=Command(serve, place.gpu_env),
        url=place.url,
        metrics_url=place.url,
        ready_path="/health",
        ports=(place.http_port,),
        gpus=place.gpus,
    )


def probes() -> tuple[Probe, ...]:
    """`/metrics` is no metrics page here: it drains a queue of iteration statistics."""
    return (
        Probe("version", "/version"),
        Probe("models", "/v1/models"),
        Probe("metrics", "/prometheus/metrics"),
    )


def read(evidence: Evidence) -> Reading:
    """Version and name by the API, settings by the log, counters as far as the release has them."""
    samples = prometheus.parse(evidence.answers.get("metrics") or "")
    version = json.loads(evidence.answers.get("version") or "{}").get("version")
    model = openai_wire.served(evidence)
    longest = trtllm_settings.argument(evidence.log, "max_seq_len")
    capabilities = Capabilities(
        model=model.get("id", ""),
        engine_version=version,
        front_end="trtllm-serve",
        max_model_len=int(longest) if longest and longest.isdigit() else None,
        tokens_per_event=True,
        forces_length=True,
        reports_cached_tokens=True,
        speculates=trtllm_settings.argument(evidence.log, "decoding_type") is not None,
    )
    counters = prometheus.counters(samples, prometheus.TRTLLM_NAMES)
    loaded = trtllm_settings.loaded(evidence.log, renders=True)
    return Reading(capabilities, trtllm_settings.ledger(evidence.log, version), counters, loaded=loaded)


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """A streaming completion with usage in every event. `top_k` 0 is off here."""
    body: dict[str, Any] = openai_wire.base_body(prompt, capabilities.model)
    body |= {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "ignore_eos": prompt.forced,
        "min_tokens": prompt.max_tokens if prompt.forced else 0,
        "repetition_penalty": 1.0,
    }
    return Call("/v1/completions", json.dumps(body).encode())


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Text comes as deltas, tokens as the total so far in each event's usage."""
    event = openai_wire.parse_event(answer, data)
    if event is None:
        return
    openai_wire.fold_running_usage(answer, event)
    for choice in event.get("choices") or ():
        openai_wire.fold_choice(answer, choice)
    openai_wire.fold_usage(answer, event, missing_cached=None)


ENGINE: Final = Engine(
    name="trtllm_serve",
    summary="TensorRT-LLM with its own OpenAI-compatible server",
    environments=("tensorrt-llm",),
    package="tensorrt_llm",
    plan=plan,
    probes=probes,
    read=read,
    encode=encode,
    fold=fold,
    unsupported=trtllm_settings.unsupported,
    unsupported_words=trtllm_settings.UNKNOWN_ARCHITECTURE,
)
