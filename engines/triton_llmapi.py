# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM's LLM API inside Triton: NVIDIA's own wrapper, its repository written out here.

Facts: triton_backend/all_models/llmapi of NVIDIA/TensorRT-LLM, config.pbtxt c8c6df0 and 0ebb153, model.py b35ac1b
(up to 1.2: a stream is one event) and 0ebb153 (1.3: events with the text so far).
"""

import json
from dataclasses import replace
from typing import Final

from engines import llmapi_wire, triton_server, trtllm_settings
from engines.contract import Engine
from engines.launch import Checkpoint, Knobs, Launch, Place, PlanError
from engines.model_repository import tensors_pbtxt

INPUTS: Final = (
    ("text_input", "TYPE_STRING", -1, False),
    ("streaming", "TYPE_BOOL", 1, True),
    ("sampling_param_best_of", "TYPE_INT32", 1, True),
    ("sampling_param_temperature", "TYPE_FP32", 1, True),
    ("sampling_param_top_k", "TYPE_INT32", 1, True),
    ("sampling_param_top_p", "TYPE_FP32", 1, True),
    ("sampling_param_frequency_penalty", "TYPE_FP32", 1, True),
    ("sampling_param_presence_penalty", "TYPE_FP32", 1, True),
    ("sampling_param_max_tokens", "TYPE_INT32", 1, True),
    ("sampling_param_stop", "TYPE_STRING", -1, True),
    ("sampling_param_seed", "TYPE_UINT64", 1, True),
    ("sampling_param_exclude_input_from_output", "TYPE_BOOL", 1, True),
    ("sampling_param_return_perf_metrics", "TYPE_BOOL", 1, True),
    ("return_finish_reason", "TYPE_BOOL", 1, True),
    ("return_stop_reason", "TYPE_BOOL", 1, True),
    ("return_cumulative_logprob", "TYPE_BOOL", 1, True),
    ("stop", "TYPE_BOOL", 1, True),
)
LATER_INPUTS: Final = (
    ("lora_id", "TYPE_UINT64", 1, True),
    ("lora_name", "TYPE_STRING", 1, True),
    ("lora_path", "TYPE_STRING", 1, True),
    ("lora_ckpt_source", "TYPE_STRING", 1, True),
)
"""Declared from 1.3 on; never sent here."""
OUTPUTS: Final = (
    ("text_output", "TYPE_STRING", -1),
    ("finish_reason", "TYPE_STRING", -1),
    ("stop_reason", "TYPE_STRING", -1),
    ("cumulative_logprob", "TYPE_FP32", -1),
    ("kv_cache_reused_block", "TYPE_INT32", -1),
    ("kv_cache_missed_block", "TYPE_INT32", -1),
    ("kv_cache_alloc_new_blocks", "TYPE_INT32", -1),
    ("kv_cache_alloc_total_blocks", "TYPE_INT32", -1),
    ("kv_cache_hit_rate", "TYPE_FP32", -1),
    ("arrival_time_ns", "TYPE_INT64", 1),
    ("first_scheduled_time_ns", "TYPE_INT64", 1),
    ("first_token_time_ns", "TYPE_INT64", 1),
    ("last_token_time_ns", "TYPE_INT64", 1),
    ("acceptance_rate", "TYPE_FP32", 1),
    ("total_accepted_draft_tokens", "TYPE_INT32", 1),
    ("total_draft_tokens", "TYPE_INT32", 1),
)
WRAPPER: Final = "all_models/llmapi/tensorrt_llm/1"
TRITON_CONFIG: Final = {"max_batch_size": 0, "decoupled": True, "cancellation_check_period_ms": 100}
INSTANCES: Final = "instances"
"""Setting in knobs.extra: copies of the engine, each with its share of the GPUs."""


def plan(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Launch:
    """Decoupled in both files: either alone makes streams hang or the start fail, by version and launcher."""
    files_of_nvidia = trtllm_settings.vendor(place)
    instances = _instances(knobs, place)
    trtllm_settings.refuse_knobs(knobs, trtllm_settings.KNOB_OF)
    extra = {name: value for name, value in knobs.extra.items() if name not in (INSTANCES, "decoupled")}
    args = trtllm_settings.llm_args(checkpoint.folder, replace(knobs, extra=extra), place.version)
    repository = f"models/{place.served_name}"
    options = ("--no-mpi",) if instances > 1 else ()
    script, serve = triton_server.by_script(place, files_of_nvidia, *options)
    files = {
        f"{repository}/config.pbtxt": config_pbtxt(place, instances),
        f"{repository}/1/model.yaml": json.dumps(args | {"triton_config": TRITON_CONFIG}, indent=2) + "\n",
        **script,
    }
    links = {f"{repository}/1/{name}": f"{files_of_nvidia.app}/{WRAPPER}/{name}" for name in ("model.py", "helpers.py")}
    links |= triton_server.backend_links(place)
    return triton_server.launch(place, files, links, serve, trtllm_settings.checks(place))


def _instances(knobs: Knobs, place: Place) -> int:
    count = knobs.extra.get(INSTANCES, 1)
    if not isinstance(count, int) or count < 1:
        raise PlanError(f"knobs.extra.{INSTANCES}: {count!r}; say how many copies, 1 or more")
    needed = count * knobs.tensor_parallel * knobs.pipeline_parallel
    if count > 1 and len(place.gpus) != needed:
        raise PlanError(f"knobs.extra.{INSTANCES}: {count} copies need {needed} GPUs, `gpus` names {len(place.gpus)}")
    return count


def config_pbtxt(place: Place, instances: int) -> str:
    """The release's tensors, the policy that its file leaves to model.yaml, and the GPUs of each instance."""
    inputs = [*INPUTS, *(() if trtllm_settings.up_to(place.version, (1, 2)) else LATER_INPUTS)]
    share = len(place.gpus) // instances
    groups = (place.gpus[first : first + share] for first in range(0, instances * share, share or 1))
    gpus = ";".join(",".join(str(gpu) for gpu in group) for group in groups)
    parameter = f'parameters {{ key: "gpu_device_ids" value {{ string_value: "{gpus}" }} }}\n' if instances > 1 else ""
    return (
        f'name: "{place.served_name}"\nbackend: "python"\nmax_batch_size: 0\n'
        "model_transaction_policy { decoupled: True }\n"
        f"{tensors_pbtxt(inputs, OUTPUTS)}"
        f"instance_group [ {{ count: {instances} kind: KIND_CPU }} ]\n{parameter}"
    )


ENGINE: Final = Engine(
    name="triton_llmapi",
    summary="TensorRT-LLM's LLM API inside Triton Inference Server",
    environments=("tensorrt-llm",),
    package="tensorrt_llm",
    plan=plan,
    probes=llmapi_wire.probes,
    trials=llmapi_wire.trials,
    read=llmapi_wire.read,
    encode=llmapi_wire.encode,
    fold=llmapi_wire.fold,
    unsupported=trtllm_settings.unsupported,
    unsupported_words=trtllm_settings.UNKNOWN_ARCHITECTURE,
)
