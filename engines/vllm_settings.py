# SPDX-License-Identifier: Apache-2.0
"""vLLM's knobs and environment, the same whether it serves or is embedded.

Facts: vllm/engine/arg_utils.py and vllm/envs.py of 0.20.2 and 0.33.0; CPU: run on 0.32.0.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from engines.launch import Knobs, Place, PlanError, Speculation, draft_model, refuse_unused
from engines.ledger_rows import CAPACITY_TOLERANCE

CPU_KV_CACHE_GIB: Final = 1
"""Always set: unset, vLLM takes 0.92 of the machine's memory."""
GPU_BLOCKS: Final = (16,)
CPU_BLOCKS: Final = (128, 64, 32)
"""Block sizes in tokens where no knob says one, vLLM's own default first: vllm/config/cache.py of 0.20.2,
vllm/platforms/cpu.py of 0.32.0, whose kernels prefer multiples of 32. Some backends force others, which the capacity
read back after the start shows."""
KV_DTYPES: Final = ("auto", "fp8")


def engine_args(folder: str, knobs: Knobs, place: Place) -> dict[str, Any]:
    """Arguments of AsyncEngineArgs, by its own names; the server's flags are these with dashes."""
    _refuse(knobs)
    args: dict[str, Any] = {
        "model": folder,
        "tokenizer": folder,
        "served_model_name": place.served_name,
        "dtype": knobs.dtype,
        "seed": knobs.seed,
        "generation_config": "vllm",
        "max_model_len": knobs.max_model_len,
        "max_num_seqs": knobs.max_num_seqs,
        "tensor_parallel_size": knobs.tensor_parallel,
        "pipeline_parallel_size": knobs.pipeline_parallel,
        "kv_cache_dtype": knobs.kv_cache_dtype,
        "enable_prefix_caching": knobs.prefix_cache,
        "enable_chunked_prefill": knobs.chunked_prefill,
        "stream_interval": 1,
    }
    if knobs.max_num_batched_tokens is not None:
        args["max_num_batched_tokens"] = knobs.max_num_batched_tokens
    args |= _blocks(knobs, place)
    if not knobs.cuda_graphs:
        args["enforce_eager"] = True
    if knobs.quantization is not None:
        if knobs.quantization != "fp8":
            raise PlanError(f"knobs.quantization: vLLM quantizes to fp8 at its start, not to {knobs.quantization}")
        args["quantization"] = "fp8"
    if knobs.async_scheduling is not None:
        if knobs.async_scheduling and knobs.speculation and knobs.speculation.kind == "ngram":
            raise PlanError("knobs.async_scheduling: vLLM's n-grams wait for the last step; say false")
        args["async_scheduling"] = knobs.async_scheduling
    if knobs.speculation is not None:
        args["speculative_config"] = _speculation(knobs.speculation)
    repeated = sorted(set(knobs.extra) & set(args))
    if repeated:
        raise PlanError(f"knobs.extra.{repeated[0]}: a knob or this tool says it already; take it out")
    return args | dict(knobs.extra)


def _refuse(knobs: Knobs) -> None:
    if knobs.threads is not None:
        raise PlanError("knobs.threads: vLLM chooses its threads itself; leave the key out")
    if knobs.kv_cache_dtype not in KV_DTYPES:
        raise PlanError(f"knobs.kv_cache_dtype: vLLM has {' and '.join(KV_DTYPES)}, not {knobs.kv_cache_dtype}")


def _blocks(knobs: Knobs, place: Place) -> dict[str, int]:
    """A capacity in tokens becomes a number of blocks, whose size is then fixed too. Raises PlanError where no number
    of blocks comes close enough."""
    wanted = knobs.kv_cache_tokens
    if wanted is None:
        return {} if knobs.block_size is None else {"block_size": knobs.block_size}
    sizes = (knobs.block_size,) if knobs.block_size else GPU_BLOCKS if place.gpus else CPU_BLOCKS
    for size in sizes:
        blocks = round(wanted / size)
        if abs(blocks * size - wanted) <= CAPACITY_TOLERANCE * wanted:
            return {"block_size": size, "num_gpu_blocks_override": blocks}
    size = sizes[-1]
    raise PlanError(
        f"knobs.kv_cache_tokens: {wanted} is not within {CAPACITY_TOLERANCE:.0%} of whole blocks of {size} tokens, in "
        f"which vLLM counts; say {wanted // size * size or size} or {(wanted // size + 1) * size}"
    )


def _speculation(wanted: Speculation) -> dict[str, Any]:
    """vllm/config/speculative.py; n-grams of 2 to 4 tokens are looked up in the prompt."""
    methods = {"ngram": "ngram", "eagle3": "eagle3", "eagle": "eagle", "draft_target": "draft_model", "mtp": "mtp"}
    if wanted.kind not in methods:
        raise PlanError(f"knobs.speculation.kind: vLLM has {', '.join(sorted(methods))}, not {wanted.kind}")
    refuse_unused(wanted, *({"ngram": ("ngram",), "mtp": ()}.get(wanted.kind, ("model",))))
    config: dict[str, Any] = {"method": methods[wanted.kind], "num_speculative_tokens": wanted.tokens}
    if wanted.kind == "ngram":
        return config | {"prompt_lookup_min": 2, "prompt_lookup_max": wanted.ngram or 4}
    if wanted.kind == "mtp":
        return config
    return config | {"model": draft_model(wanted)}


def environment(place: Place) -> dict[str, str]:
    """What vLLM's processes get on top of the few variables that a runner hands on."""
    env = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    return env | (place.gpu_env or {"VLLM_CPU_KVCACHE_SPACE": str(CPU_KV_CACHE_GIB)})


def version_tuple(version: str) -> tuple[int, ...]:
    """(0, 33, 0) of "0.33.0+cpu": what flags are chosen by."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def sampling(max_tokens: int, forced: bool, fields: Mapping[str, Any]) -> dict[str, Any]:
    """SamplingParams by their own names, every field in force named."""
    return {
        "max_tokens": max_tokens,
        "min_tokens": max_tokens if forced else 0,
        "ignore_eos": forced,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        **fields,
    }


def as_flags(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Engine arguments as the server's flags: booleans become `--x` or `--no-x`, objects JSON."""
    flags: list[str] = []
    for name, value in args.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, dict):
            flags += [f"--{flag}", json.dumps(value, sort_keys=True)]
        else:
            flags += [f"--{flag}", str(value)]
    return tuple(flags)
