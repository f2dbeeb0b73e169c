# SPDX-License-Identifier: Apache-2.0
"""The ledger's rows by name, and when two values of a row are the same setting said in two dialects."""

from collections.abc import Mapping
from typing import Final

WEIGHT_DTYPE: Final = "weight dtype"
QUANTIZATION: Final = "quantization"
KV_DTYPE: Final = "KV dtype"
KV_CAPACITY: Final = "KV capacity (tokens)"
MAXIMUM_LENGTH: Final = "maximum length (tokens)"
BATCH_SEQUENCES: Final = "batch limit (sequences)"
BATCH_TOKENS: Final = "batch limit (tokens)"
CHUNKED_PREFILL: Final = "chunked prefill"
PREFIX_CACHE: Final = "prefix cache"
BLOCK_SIZE: Final = "block size (tokens)"
STREAM_INTERVAL: Final = "stream interval"
SPECULATION: Final = "speculation"
ASYNC_SCHEDULING: Final = "async scheduling"
TENSOR_PARALLEL: Final = "tensor parallel"
PIPELINE_PARALLEL: Final = "pipeline parallel"
TOKENIZER: Final = "tokenizer"
CHAT_TEMPLATE: Final = "chat template"
SPECIAL_TOKENS: Final = "special tokens added"
SAMPLING: Final = "sampling in force"
REVISION: Final = "checkpoint revision"
WEIGHTS: Final = "weights (sha256)"
GPU_MODEL: Final = "GPU model"
GPU_DRIVER: Final = "GPU driver"
GPU_POWER: Final = "GPU power cap"
GPU_CLOCKS: Final = "GPU clocks"
ENGINE_VERSION: Final = "engine version"
FRONT_END: Final = "front end"

MUST_MATCH: Final = (
    *(REVISION, WEIGHTS, WEIGHT_DTYPE, QUANTIZATION, KV_DTYPE, KV_CAPACITY, MAXIMUM_LENGTH),
    *(BATCH_SEQUENCES, BATCH_TOKENS, CHUNKED_PREFILL, PREFIX_CACHE, STREAM_INTERVAL, SPECULATION, ASYNC_SCHEDULING),
    *(TENSOR_PARALLEL, PIPELINE_PARALLEL, TOKENIZER, CHAT_TEMPLATE, SPECIAL_TOKENS, SAMPLING),
    *(GPU_MODEL, GPU_DRIVER, GPU_POWER, GPU_CLOCKS),
)
"""Rows without whose equality two contenders are not comparable."""
OF_KNOB: Final[Mapping[str, str]] = {
    "dtype": WEIGHT_DTYPE,
    "quantization": QUANTIZATION,
    "kv_cache_dtype": KV_DTYPE,
    "kv_cache_tokens": KV_CAPACITY,
    "max_model_len": MAXIMUM_LENGTH,
    "max_num_seqs": BATCH_SEQUENCES,
    "max_num_batched_tokens": BATCH_TOKENS,
    "chunked_prefill": CHUNKED_PREFILL,
    "prefix_cache": PREFIX_CACHE,
    "speculation": SPECULATION,
    "tensor_parallel": TENSOR_PARALLEL,
    "pipeline_parallel": PIPELINE_PARALLEL,
}
"""The row that a matched knob shows in; those without one make up what a contender is."""
LASTING: Final = (GPU_MODEL, GPU_DRIVER, ENGINE_VERSION, FRONT_END)
"""Rows that must also be the same in all lives of one contender."""
CAPACITY_TOLERANCE: Final = 0.01

OFF: Final = "off"
SWITCHES: Final = (CHUNKED_PREFILL, PREFIX_CACHE, ASYNC_SCHEDULING)
ON_WORDS: Final = frozenset(("true", "on", "1", "yes", "enabled"))
OFF_WORDS: Final = frozenset(("false", OFF, "0", "no", "disabled"))
DTYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("float32", "fp32", "f32", "float", "all f32"), "float32"),
    **dict.fromkeys(("float16", "fp16", "f16", "half", "all f16"), "float16"),
    **dict.fromkeys(("bfloat16", "bf16", "all bf16"), "bfloat16"),
    **dict.fromkeys(("fp8", "fp8_e4m3", "float8_e4m3fn"), "fp8"),
}


def plain(row: str, value: str | None, others: Mapping[str, str | None]) -> str | None:
    """A value in one dialect. `others` are the rows of the same engine: a KV dtype of `auto` is its weights'.

    >>> plain("KV dtype", "auto", {"weight dtype": "torch.float32"}), plain("prefix cache", "True", {})
    ('float32', 'on')
    """
    if value is None:
        return None
    word = value.strip().lower().removeprefix("torch.")
    if row == KV_DTYPE and word == "auto":
        return plain(WEIGHT_DTYPE, others.get(WEIGHT_DTYPE), {}) or word
    if row in (WEIGHT_DTYPE, KV_DTYPE):
        return DTYPES.get(word, word)
    if row in SWITCHES:
        return "on" if word in ON_WORDS else OFF if word in OFF_WORDS else word
    if row in (SPECULATION, QUANTIZATION):
        return OFF if word in ("none", OFF, "") else word
    return value.strip()


def same(row: str, one: str, other: str) -> bool:
    """Whether two plain values are the same setting; capacities may lie 1% apart.

    >>> same("KV capacity (tokens)", "32768", "32500"), same("KV capacity (tokens)", "32768", "32000")
    (True, False)
    """
    if row == KV_CAPACITY and one.isdigit() and other.isdigit():
        return abs(int(one) - int(other)) <= CAPACITY_TOLERANCE * max(int(one), int(other))
    return one == other


def drafting(kind: str, tokens: int | str | None) -> str:
    """Speculation in one dialect: its kind by the knob's name, and its draft length.

    >>> drafting("ngram", 3)
    'ngram, 3 tokens'
    """
    return f"{kind}, {tokens} tokens" if tokens is not None else kind


def quoted(name: str) -> str:
    """A row's name as a key of YAML."""
    return f'"{name}"' if "(" in name else name
