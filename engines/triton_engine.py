# SPDX-License-Identifier: Apache-2.0
"""A compiled TensorRT-LLM engine inside Triton: tokenizer, engine and detokenizer as an ensemble, or driven by BLS.

Facts: triton_backend/all_models/inflight_batcher_llm and tools/fill_template.py of NVIDIA/TensorRT-LLM up to 1.2.1;
gone from 1.3 on, so this path is at the end of its life.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from engines import engine_build, ensemble_wire, triton_server, trtllm_settings
from engines.contract import Engine
from engines.launch import Checkpoint, Command, Knobs, Launch, Place, PlanError, draft_model

TEMPLATES: Final = "all_models/inflight_batcher_llm"
FRONT: Final = "front"
"""Setting in knobs.extra: `ensemble` (text of each token chunk by itself) or `bls` (decoded as it accumulates)."""
COUNTS: Final = ("preprocessing_instance_count", "postprocessing_instance_count", "bls_instance_count")
OWN_EXTRAS: Final = frozenset((FRONT, "engine_dir", "decoupled", *COUNTS, *engine_build.BUILD_EXTRAS))
MOST_INSTANCES: Final = 8
"""Tokenizing is done in these processes: with one, it is the bottleneck (triton-inference-server/tensorrtllm_backend
#257, #416)."""
ORDERED: Final = 1
"""Detokenizers of an ensemble: each chunk of a stream is a request of its own to them, and two of them exchange the
order of chunks (seen on Triton 2.51). BLS waits for each chunk, so that it may have many."""

KNOB_OF: Final[Mapping[str, str]] = {
    "max_batch_size": "max_num_seqs",
    "max_seq_len": "max_model_len",
    "max_input_len": "max_model_len",
    "max_num_tokens": "max_num_batched_tokens",
    "tokens_per_block": "block_size",
    "enable_kv_cache_reuse": "prefix_cache",
    "enable_chunked_context": "chunked_prefill",
    "max_tokens_in_paged_kv_cache": "kv_cache_tokens",
    "speculative_decoding_mode": "speculation",
    "max_draft_len": "speculation",
}


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """Build once, copy NVIDIA's templates, fill them in, serve. Draft and target models are two engines in one
    server, which its orchestrator mode drives."""
    _refuse(knobs)
    vendor = trtllm_settings.vendor(place)
    drafting = knobs.speculation if knobs.speculation and knobs.speculation.kind == "draft_target" else None
    target = engine_build.build(checkpoint, knobs, place)
    builds = [*target.commands]
    models = {"tensorrt_llm": target.engine}
    if drafting is not None:
        draft = _draft(checkpoint, knobs, place)
        builds += draft.commands
        models["tensorrt_llm_draft"] = draft.engine
    front = "bls" if drafting is not None else str(knobs.extra.get(FRONT, "ensemble"))
    layout = _layout(f"{vendor.app}/{TEMPLATES}", place, front, models)
    filled = [
        _fill(place, name, values) for name, values in parameters(checkpoint, knobs, place, front, models).items()
    ]
    if drafting is not None:
        options: tuple[str, ...] = ("--multi-model",)
    else:
        options = ("--world_size", str(knobs.tensor_parallel * knobs.pipeline_parallel))
    script, serve = triton_server.by_script(place, vendor, *options)
    links = triton_server.backend_links(place, "tensorrtllm")
    checks, copies = trtllm_settings.checks(place), triton_server.backend_copies(place)
    return triton_server.launch(place, script, links, serve, (*checks, *builds, *layout, *filled, *copies))


def _refuse(knobs: Knobs) -> None:
    if knobs.async_scheduling:
        raise PlanError("knobs.async_scheduling: compiled engines prepare no step ahead; leave the key out")
    trtllm_settings.refuse_knobs(knobs, KNOB_OF)
    unknown = sorted(set(knobs.extra) - OWN_EXTRAS)
    if unknown:
        raise PlanError(f"knobs.extra.{unknown[0]}: unknown here; there are {', '.join(sorted(OWN_EXTRAS))}")
    if knobs.extra.get(FRONT, "ensemble") not in ("ensemble", "bls"):
        raise PlanError(f"knobs.extra.{FRONT}: {knobs.extra[FRONT]!r}; say ensemble or bls")


def _draft(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> engine_build.Build:
    """The draft model's engine: the target's knobs without speculation."""
    assert knobs.speculation is not None
    model = draft_model(knobs.speculation)
    drafter = replace(checkpoint, folder=model, sha256=model)
    return engine_build.build(drafter, replace(knobs, speculation=None), place)


def _layout(templates: str, place: Place, front: str, models: Mapping[str, str]) -> tuple[Command, ...]:
    """Copies of the templates under the names that they serve under; the front's is the served name."""
    folder = f"{place.folder}/models"
    source = "ensemble" if front == "ensemble" else "tensorrt_llm_bls"
    copies = {
        "preprocessing": "preprocessing",
        "postprocessing": "postprocessing",
        **dict.fromkeys(models, "tensorrt_llm"),
        place.served_name: source,
    }
    commands = [Command(("mkdir", "-p", folder))]
    for name, template in copies.items():
        commands.append(Command(("cp", "-rL", f"{templates}/{template}", f"{folder}/{name}")))
        if name != template:
            rename = f's/^name: "{template}"/name: "{name}"/'
            commands.append(Command(("sed", "-i", rename, f"{folder}/{name}/config.pbtxt")))
    return tuple(commands)


def parameters(
    checkpoint: Checkpoint, knobs: Knobs, place: Place, front: str, models: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """What the placeholders of each template are filled with. Those left out stay as they are, which the readers
    take for unset."""
    tokenizer = {"tokenizer_dir": checkpoint.folder, "triton_max_batch_size": knobs.max_num_seqs}
    instances = min(knobs.max_num_seqs, MOST_INSTANCES)
    usual = {
        COUNTS[0]: instances,
        COUNTS[1]: ORDERED if front == "ensemble" else instances,
        COUNTS[2]: knobs.max_num_seqs,
    }
    counts = {name: knobs.extra.get(name, count) for name, count in usual.items()}
    filled: dict[str, dict[str, Any]] = {
        "preprocessing": tokenizer
        | {COUNTS[0]: counts[COUNTS[0]], "add_special_tokens": True, "max_queue_delay_microseconds": 0}
        | {"engine_dir": models["tensorrt_llm"], "max_queue_size": 0},
        "postprocessing": tokenizer | {COUNTS[1]: counts[COUNTS[1]], "skip_special_tokens": True},
    }
    for name, engine in models.items():
        filled[name] = _engine_parameters(knobs, place, engine, drafter=name != "tensorrt_llm")
    front_values: dict[str, Any] = {"triton_max_batch_size": knobs.max_num_seqs, "logits_datatype": "TYPE_FP32"}
    if front == "bls":
        front_values |= {
            "decoupled_mode": True,
            COUNTS[2]: counts[COUNTS[2]],
            "accumulate_tokens": True,
            "tensorrt_llm_model_name": "tensorrt_llm",
        }
        if "tensorrt_llm_draft" in models:
            front_values["tensorrt_llm_draft_model_name"] = "tensorrt_llm_draft"
    filled[place.served_name] = front_values
    return filled


def _engine_parameters(knobs: Knobs, place: Place, engine: str, *, drafter: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "triton_backend": "tensorrtllm",
        "triton_max_batch_size": knobs.max_num_seqs,
        "decoupled_mode": True,
        "engine_dir": engine,
        "max_beam_width": 1,
        "batching_strategy": "inflight_fused_batching",
        "batch_scheduler_policy": "guaranteed_no_evict",
        "logits_datatype": "TYPE_FP32",
        "encoder_input_features_data_type": "TYPE_FP16",
        "prompt_embedding_table_data_type": "TYPE_FP16",
        "max_queue_delay_microseconds": 0,
        "max_queue_size": 0,
        "enable_kv_cache_reuse": knobs.prefix_cache,
        "enable_chunked_context": knobs.chunked_prefill,
        "exclude_input_in_output": True,
        "cuda_graph_mode": knobs.cuda_graphs,
        "multi_block_mode": True,
        "normalize_log_probs": False,
    }
    if knobs.kv_cache_tokens is not None:
        values["max_tokens_in_paged_kv_cache"] = knobs.kv_cache_tokens
    if knobs.speculation and knobs.speculation.kind == "draft_target":
        values["gpu_device_ids"] = _devices(knobs, place, drafter=drafter)
    return values | ({} if drafter else _decoding(knobs))


def _devices(knobs: Knobs, place: Place, *, drafter: bool) -> str:
    """GPUs of a model by their place among the visible ones: the drafter's follow the target's where there are some
    left, else both share."""
    ranks = knobs.tensor_parallel * knobs.pipeline_parallel
    first = ranks if drafter and len(place.gpus) >= 2 * ranks else 0
    return ",".join(str(rank) for rank in range(first, first + ranks))


def _decoding(knobs: Knobs) -> dict[str, Any]:
    wanted = knobs.speculation
    if wanted is None or wanted.kind == "draft_target":
        return {}
    if wanted.kind == "lookahead":
        sizes = (wanted.window, wanted.ngram, wanted.verification)
        if None in sizes:
            raise PlanError("knobs.speculation: lookahead needs window, ngram and verification; set all three")
        names = ("lookahead_window_size", "lookahead_ngram_size", "lookahead_verification_set_size")
        return {"decoding_mode": "lookahead", **dict(zip(names, sizes, strict=True))}
    values: dict[str, Any] = {"decoding_mode": wanted.kind}
    if wanted.choices:
        tree = ", ".join("{" + ", ".join(str(step) for step in path) + "}" for path in wanted.choices)
        values[f"{wanted.kind}_choices"] = "{" + tree + "}"
    return values


def _fill(place: Place, model: str, values: Mapping[str, Any]) -> Command:
    """NVIDIA's own tool, in place."""
    vendor = trtllm_settings.vendor(place)
    text = ",".join(f"{key}:{_escaped(value)}" for key, value in values.items())
    path = f"{place.folder}/models/{model}/config.pbtxt"
    return Command((place.python, f"{vendor.app}/tools/fill_template.py", "-i", path, text))


def _escaped(value: object) -> str:
    """The tool splits at commas, then at colons, and each pass undoes one level of backslashes."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\" * 4).replace(",", "\\,").replace(":", "\\\\:")


ENGINE: Final = Engine(
    name="triton_engine",
    summary="a compiled TensorRT-LLM engine inside Triton Inference Server (end of life: up to 1.2.1)",
    environments=("tensorrt-llm",),
    package="tensorrt_llm",
    plan=plan,
    probes=ensemble_wire.probes,
    trials=ensemble_wire.trials,
    read=ensemble_wire.read,
    encode=ensemble_wire.encode,
    fold=ensemble_wire.fold,
    unsupported=engine_build.unsupported,
)
