# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM's LLM arguments, architectures and ledger rows, the same whether Triton's model or its own
server takes them.

Facts: tensorrt_llm/llmapi/llm_args.py of NVIDIA/TensorRT-LLM at about 1.2 and 1.3rc; unknown arguments end the
start. Lines of the log: cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp and the package's own banner.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from engines import ledger_rows as rows
from engines.contract import LedgerRow, Loaded, RowKind
from engines.inside_files import inside_path
from engines.launch import (
    Checkpoint,
    Command,
    Knobs,
    Place,
    PlanError,
    Speculation,
    Vendor,
    draft_model,
    overlaps,
    refuse_unused,
)
from engines.ledger_rows import drafting
from engines.log_lines import logged

BLOCK_TOKENS: Final = 32
"""kv_cache_config.tokens_per_block where no knob says otherwise."""

KNOB_OF: Final[Mapping[str, str]] = {
    "max_seq_len": "max_model_len",
    "max_batch_size": "max_num_seqs",
    "max_num_tokens": "max_num_batched_tokens",
    "dtype": "dtype",
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "enable_chunked_prefill": "chunked_prefill",
    "kv_cache_config": "kv_cache_tokens, block_size, prefix_cache, kv_cache_dtype",
    "cuda_graph_config": "cuda_graphs",
    "speculative_config": "speculation",
    "disable_overlap_scheduler": "async_scheduling",
}
"""Arguments that a knob says already: two sayings could differ."""

KV_DTYPES: Final = ("auto", "fp8")
KINDS: Final[Mapping[str, str]] = {"ngram": "NGram", "eagle3": "Eagle3", "draft_target": "DraftTarget", "mtp": "MTP"}
"""Speculation by the names of `decoding_type`."""
GATHERS: Final = ("gather_context_logits", "gather_generation_logits", "gather_all_token_logits")
"""Slow Triton about forty times: triton-inference-server/tensorrtllm_backend #642."""

LATER_ARCHITECTURES: Final = frozenset(
    (
        *("AfmoeForCausalLM", "Cohere2ForCausalLM", "DeepseekV4ForCausalLM", "Gemma3nForConditionalGeneration"),
        *("Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration", "Glm4MoeLiteForCausalLM"),
        *("GlmMoeDsaForCausalLM", "GraniteMoeHybridForCausalLM", "InklingForConditionalGeneration"),
        *("KimiK25ForConditionalGeneration", "LagunaForCausalLM", "MiniMaxM3SparseForConditionalGeneration"),
        *("Olmo3ForCausalLM", "Qwen3_5MoeForCausalLM", "Step3p7ForConditionalGeneration"),
    )
)
"""In docs/source/models/supported-models.md of 1.3rc and later, not in that of 1.2."""

UNKNOWN_ARCHITECTURE: Final = r"Unknown architecture for AutoModelForCausalLM: \w+"
"""What the start says of any other that it does not know: tensorrt_llm/_torch/models/modeling_auto.py."""


def unsupported(checkpoint: Checkpoint, version: str) -> str | None:
    """Why a release up to 1.2 cannot load the checkpoint, where that is known before the start."""
    if checkpoint.architecture in LATER_ARCHITECTURES and up_to(version, (1, 2)):
        return f"TensorRT-LLM {version} does not know the architecture {checkpoint.architecture}"
    return None


def up_to(version: str, last: tuple[int, int]) -> bool:
    """Whether a version is of the minor release `last` or an earlier one; False where it is not known."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return len(numbers) == 2 and numbers <= last


def vendor(place: Place) -> Vendor:
    """NVIDIA's files. Raises PlanError where the environment has none."""
    if place.vendor is None:
        raise PlanError("environment: it names no folder with NVIDIA's files; use tensorrt-llm")
    return place.vendor


def checks(place: Place) -> tuple[Command, ...]:
    """Programs that end with a sentence where the environment would fail later, and badly."""
    return (
        Command((place.python, inside_path("version_check.py"), vendor(place).app, place.version)),
        Command((place.python, inside_path("openai_check.py"))),
    )


def llm_args(folder: str, knobs: Knobs, version: str) -> dict[str, Any]:
    """Keyword arguments of LLM(), every one that decides a comparison. Raises PlanError.

    Quantization is not among them: it comes with the checkpoint, in hf_quant_config.json.
    """
    _refuse(knobs)
    args: dict[str, Any] = {
        "model": folder,
        "backend": "pytorch",
        "dtype": knobs.dtype,
        "tensor_parallel_size": knobs.tensor_parallel,
        "pipeline_parallel_size": knobs.pipeline_parallel,
        "max_batch_size": knobs.max_num_seqs,
        "max_seq_len": knobs.max_model_len,
        "enable_chunked_prefill": knobs.chunked_prefill,
        "stream_interval": 1,
        "return_perf_metrics": True,
        "kv_cache_config": _kv_cache(knobs),
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": knobs.max_num_seqs}
        if knobs.cuda_graphs
        else None,
    }
    if knobs.max_num_batched_tokens is not None:
        args["max_num_tokens"] = knobs.max_num_batched_tokens
    args["disable_overlap_scheduler"] = not overlaps(knobs)
    if knobs.speculation is not None:
        args["speculative_config"] = _speculation(knobs.speculation, version)
    return args | dict(knobs.extra)


def _kv_cache(knobs: Knobs) -> dict[str, Any]:
    """Partial blocks are not reused, as in vLLM; a capacity in tokens, not a share of what is free."""
    config: dict[str, Any] = {
        "enable_block_reuse": knobs.prefix_cache,
        "enable_partial_reuse": False,
        "tokens_per_block": knobs.block_size or BLOCK_TOKENS,
        "dtype": knobs.kv_cache_dtype,
    }
    return config if knobs.kv_cache_tokens is None else config | {"max_tokens": knobs.kv_cache_tokens}


def _speculation(wanted: Speculation, version: str) -> dict[str, Any]:
    """Names changed with 1.3: the draft model's, and the length for multi-token prediction."""
    earlier = up_to(version, (1, 2))
    if wanted.kind not in KINDS:
        raise PlanError(
            f"knobs.speculation.kind: {wanted.kind} exists only for compiled engines; "
            f"the LLM API has {', '.join(sorted(KINDS))}"
        )
    refuse_unused(wanted, *({"ngram": ("ngram",), "mtp": ()}.get(wanted.kind, ("model",))))
    if wanted.kind == "mtp":
        length = "num_nextn_predict_layers" if earlier else "max_draft_len"
        return {"decoding_type": "MTP", length: wanted.tokens}
    config: dict[str, Any] = {"decoding_type": KINDS[wanted.kind], "max_draft_len": wanted.tokens}
    if wanted.kind == "ngram":
        return config | {"max_matching_ngram_size": wanted.ngram or 4}
    return config | {"speculative_model_dir" if earlier else "speculative_model": draft_model(wanted)}


def _refuse(knobs: Knobs) -> None:
    if knobs.quantization is not None:
        raise PlanError(
            "knobs.quantization: the LLM API takes it from the checkpoint (hf_quant_config.json); "
            "give a quantized checkpoint and leave the key out"
        )
    if knobs.kv_cache_dtype not in KV_DTYPES:
        raise PlanError(f"knobs.kv_cache_dtype: the LLM API has {' and '.join(KV_DTYPES)}, not {knobs.kv_cache_dtype}")
    refuse_knobs(knobs, KNOB_OF)


def refuse_knobs(knobs: Knobs, knob_of: Mapping[str, str]) -> None:
    """Threads, and settings in `extra` that slow everything down, or that contradict or repeat a knob. Raises
    PlanError."""
    if knobs.threads is not None:
        raise PlanError("knobs.threads: TensorRT-LLM chooses its threads itself; leave the key out")
    for name, value in knobs.extra.items():
        if name in GATHERS and value:
            raise PlanError(f"knobs.extra.{name}: gathering logits slows Triton about forty times; take it out")
        if name == "decoupled" and not value:
            raise PlanError("knobs.extra.decoupled: every request streams, which needs it on; take it out")
        if name in ("max_seq_len", "max_input_len") and isinstance(value, int) and value < knobs.max_model_len:
            raise PlanError(
                f"knobs.extra.{name}: {value} is less than knobs.max_model_len {knobs.max_model_len}, "
                "which prompts and answers may fill; take it out"
            )
        if name in knob_of:
            raise PlanError(f"knobs.extra.{name}: say it by knobs.{knob_of[name]}")


def version_in(log: str) -> str | None:
    """What the package prints when it is imported."""
    return logged(log, r"TensorRT[- ]LLM version: ([\w.+]+)")


def ledger(log: str, version: str | None) -> tuple[LedgerRow, ...]:
    """Settings in force: the arguments that the log says the engine starts with, and the cache it allocated."""
    args, cache = "log: engine arguments", "log: KV cache"
    must, identity = RowKind.MUST_MATCH, RowKind.IDENTITY
    return (
        LedgerRow(rows.ENGINE_VERSION, version, "log: its banner", identity),
        LedgerRow(rows.KV_CAPACITY, kv_tokens(log), cache, must),
        LedgerRow(rows.KV_DTYPE, argument(log, "dtype", after="kv_cache_config"), args, must),
        LedgerRow(rows.PREFIX_CACHE, argument(log, "enable_block_reuse"), args, must),
        LedgerRow(rows.BLOCK_SIZE, block_tokens(log), cache, identity),
        LedgerRow(rows.WEIGHT_DTYPE, argument(log, "dtype"), args, must),
        LedgerRow(rows.QUANTIZATION, None, "not in the log: it comes with the checkpoint", must),
        LedgerRow(rows.MAXIMUM_LENGTH, argument(log, "max_seq_len"), args, must),
        LedgerRow(rows.BATCH_SEQUENCES, argument(log, "max_batch_size"), args, must),
        LedgerRow(rows.BATCH_TOKENS, argument(log, "max_num_tokens"), args, must),
        LedgerRow(rows.TENSOR_PARALLEL, argument(log, "tensor_parallel_size"), args, must),
        LedgerRow(rows.PIPELINE_PARALLEL, argument(log, "pipeline_parallel_size"), args, must),
        LedgerRow(rows.CHUNKED_PREFILL, argument(log, "enable_chunked_prefill"), args, must),
        LedgerRow(rows.SPECULATION, _drafting(log), args, must),
        LedgerRow(rows.ASYNC_SCHEDULING, _overlap(log), args, must),
        LedgerRow(rows.STREAM_INTERVAL, argument(log, "stream_interval"), args, must),
        LedgerRow("CUDA graphs", _graphs(log), args, identity),
    )


def loaded(log: str, *, renders: bool) -> Loaded:
    """The tokenizer comes from the model's folder unless another is named; no sampling defaults but neutral ones."""
    folder = argument(log, "tokenizer", pattern=PATH) or argument(log, "model", pattern=PATH)
    return Loaded(tokenizer=folder, renders=renders, sampling_defaults="neutral" if folder else None)


def _overlap(log: str) -> str | None:
    said = argument(log, "disable_overlap_scheduler")
    return None if said is None else "off" if said == "True" else "on"


def _graphs(log: str) -> str | None:
    """They are on unless their configuration is None."""
    if argument(log, "max_seq_len") is None:
        return None
    return "off" if argument(log, "cuda_graph_config") == "None" else "on"


def _drafting(log: str) -> str | None:
    """Kind and draft length by the knobs' names."""
    said = argument(log, "decoding_type")
    if said is None:
        return rows.OFF if argument(log, "max_seq_len") else None
    kind = next((knob for knob, name in KINDS.items() if name.lower() == said.lower()), said)
    return drafting(kind, argument(log, "max_draft_len") or argument(log, "num_nextn_predict_layers"))


def kv_tokens(log: str) -> str | None:
    """Capacity of the KV cache in tokens, as allocated; the last line counts, the first may be a trial."""
    found = re.findall(r"max tokens in paged KV cache \((\d+)\)", log)
    return found[-1] if found else None


def block_tokens(log: str) -> str | None:
    """Tokens of a block of the KV cache."""
    return logged(log, r"[Tt]okens per block[:=] ?(\d+)")


WORD: Final = r"[\w.+-]+"
PATH: Final = r"[^'\",]+"


def argument(log: str, name: str, after: str = "engine with args", pattern: str = WORD) -> str | None:
    """An argument in the line that announces the start, whether written as a dict or as an object."""
    line = next((line for line in log.splitlines() if "engine with args" in line), "")
    rest = line.partition(after)[2]
    found = re.search(rf"['\"]?\b{name}['\"]?\s*[:=]\s*['\"]?({pattern})", rest)
    return found.group(1) if found else None
