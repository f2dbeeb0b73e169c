# SPDX-License-Identifier: Apache-2.0
"""vLLM's knobs, environment, counters and ledger rows, the same whether it serves or is embedded.

Facts: vllm/engine/arg_utils.py and vllm/envs.py of 0.20.2 and 0.33.0; CPU: run on 0.32.0.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from engines import prometheus
from engines.contract import LedgerRow, RowKind
from engines.launch import Knobs, Place, PlanError, Speculation, draft_model
from engines.log_lines import logged

CPU_KV_CACHE_GIB: Final = 1
"""Always set: unset, vLLM takes 0.92 of the machine's memory."""


def engine_args(folder: str, knobs: Knobs, place: Place) -> dict[str, Any]:
    """Arguments of AsyncEngineArgs, by its own names; the server's flags are these with dashes."""
    if knobs.threads is not None:
        raise PlanError("knobs.threads: vLLM chooses its threads itself; leave the key out")
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
    if knobs.block_size is not None:
        args["block_size"] = knobs.block_size
    if knobs.kv_cache_tokens is not None:
        args["num_gpu_blocks_override"] = _blocks(knobs)
    if not knobs.cuda_graphs:
        args["enforce_eager"] = True
    if knobs.quantization is not None:
        if knobs.quantization != "fp8":
            raise PlanError(f"knobs.quantization: vLLM quantizes to fp8 at its start, not to {knobs.quantization}")
        args["quantization"] = "fp8"
    if knobs.speculation is not None:
        args["speculative_config"] = _speculation(knobs.speculation)
    repeated = sorted(set(knobs.extra) & set(args))
    if repeated:
        raise PlanError(f"knobs.extra.{repeated[0]}: a knob or this tool says it already; take it out")
    return args | dict(knobs.extra)


def _blocks(knobs: Knobs) -> int:
    if knobs.block_size is None or knobs.kv_cache_tokens is None:
        raise PlanError("knobs.kv_cache_tokens: set knobs.block_size too; vLLM counts in blocks")
    return -(-knobs.kv_cache_tokens // knobs.block_size)


def _speculation(wanted: Speculation) -> dict[str, Any]:
    """vllm/config/speculative.py; n-grams of 2 to 4 tokens are looked up in the prompt."""
    methods = {"ngram": "ngram", "eagle3": "eagle3", "eagle": "eagle", "draft_target": "draft_model", "mtp": "mtp"}
    if wanted.kind not in methods:
        raise PlanError(f"knobs.speculation.kind: vLLM has {', '.join(sorted(methods))}, not {wanted.kind}")
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


def ledger(samples: tuple[prometheus.Sample, ...], log: str, version: str | None) -> tuple[LedgerRow, ...]:
    """Settings in force by `vllm:cache_config_info` and the log's line of engine arguments."""
    cache = prometheus.labels(samples, "vllm:cache_config_info")
    page, line = "vllm:cache_config_info", "log: Initializing a V1 LLM engine"
    must, identity = RowKind.MUST_MATCH, RowKind.IDENTITY
    return (
        LedgerRow("engine version", version, "its own answer", identity),
        LedgerRow("KV capacity (tokens)", _kv_tokens(cache), page, must),
        LedgerRow("KV dtype", cache.get("cache_dtype"), page, must),
        LedgerRow("prefix cache", cache.get("enable_prefix_caching"), page, must),
        LedgerRow("block size (tokens)", cache.get("block_size"), page, identity),
        LedgerRow("weight dtype", _logged(log, r"dtype=torch\.(\w+)"), line, must),
        LedgerRow("quantization", _logged(log, r"quantization=(\w+)"), line, must),
        LedgerRow("maximum length (tokens)", _logged(log, r"max_seq_len=(\d+)"), line, must),
        LedgerRow("tensor parallel", _logged(log, r"tensor_parallel_size=(\d+)"), line, must),
        LedgerRow("chunked prefill", _logged(log, r"enable_chunked_prefill=(\w+)"), line, must),
        LedgerRow("speculation", _logged(log, r"speculative_config=(None|SpeculativeConfig\([^)]*\))"), line, must),
        LedgerRow("eager execution", _logged(log, r"enforce_eager=(\w+)"), line, identity),
    )


def _kv_tokens(cache: Mapping[str, str]) -> str | None:
    if "kv_cache_size_tokens" in cache:
        return cache["kv_cache_size_tokens"]
    blocks, size = cache.get("num_gpu_blocks"), cache.get("block_size")
    if blocks is None or size is None or not (blocks.isdigit() and size.isdigit()):
        return None
    return str(int(blocks) * int(size))


def _logged(log: str, pattern: str) -> str | None:
    return logged(log, r"Initializing a V1 LLM engine.*?" + pattern)


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
