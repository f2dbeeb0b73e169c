# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's knobs, conversion and ledger rows, the same whether it serves or is embedded.

Facts were run on xllamacpp 2026.10.11549.
"""

import json
from typing import Any, Final

from engines import ledger_rows as rows
from engines.contract import LedgerRow, Loaded, RowKind
from engines.inside_files import inside_path
from engines.launch import Checkpoint, Command, Knobs, Place, PlanError, refuse_unused
from engines.log_lines import logged

DEFAULT_BATCH_TOKENS: Final = 2048


def gguf_path(checkpoint: Checkpoint, place: Place) -> str:
    """The converted checkpoint, kept between lives, named by all that the conversion takes: weights, tokenizer and
    template are in it."""
    return f"{place.cache}/{checkpoint.identity[:16]}.gguf"


def convert(checkpoint: Checkpoint, place: Place) -> Command:
    """Converts the checkpoint once; later lives find the file."""
    target = gguf_path(checkpoint, place)
    argv = (place.python, inside_path("llamacpp_convert.py"), checkpoint.folder, target)
    return Command(argv, creates=target)


def settings(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> dict[str, Any]:
    """What `engines/inside/llamacpp_serve.py` sets. The context of a slot is the maximum length."""
    _refuse_unknown(knobs)
    return {
        "gguf": gguf_path(checkpoint, place),
        "served_name": place.served_name,
        "port": place.http_port,
        "context_per_slot": knobs.max_model_len,
        "slots": knobs.max_num_seqs,
        "batch_tokens": knobs.max_num_batched_tokens or DEFAULT_BATCH_TOKENS,
        "threads": knobs.threads or 1,
        "prefix_cache": knobs.prefix_cache,
        "seed": knobs.seed,
        "ngram_tokens": knobs.speculation.tokens if knobs.speculation else 0,
    }


def _refuse_unknown(knobs: Knobs) -> None:
    if knobs.dtype not in ("auto", "float32"):
        raise PlanError(f"knobs.dtype: llama.cpp gets the checkpoint as float32 here, not {knobs.dtype}")
    if knobs.kv_cache_tokens not in (None, knobs.max_num_seqs * knobs.max_model_len):
        raise PlanError(
            "knobs.kv_cache_tokens: llama.cpp keeps max_model_len tokens for each sequence; "
            f"leave the key out or say {knobs.max_num_seqs * knobs.max_model_len}"
        )
    if knobs.block_size is not None:
        raise PlanError("knobs.block_size: llama.cpp's cache has no blocks; leave the key out")
    if (knobs.tensor_parallel, knobs.pipeline_parallel) != (1, 1):
        raise PlanError("knobs.tensor_parallel: llama.cpp runs on one processor here; say 1")
    if knobs.quantization is not None or knobs.kv_cache_dtype != "auto":
        raise PlanError("knobs.quantization: llama.cpp gets the checkpoint as it is here; leave the key out")
    if knobs.async_scheduling:
        raise PlanError("knobs.async_scheduling: llama.cpp prepares no step ahead; leave the key out")
    if knobs.extra:
        raise PlanError("knobs.extra: llama.cpp has no settings of its own here; leave the key out")
    if not knobs.chunked_prefill:
        raise PlanError("knobs.chunked_prefill: llama.cpp always splits a prompt at its batch limit; say true")
    if knobs.speculation is not None and knobs.speculation.kind != "ngram":
        raise PlanError(f"knobs.speculation.kind: llama.cpp is planned with ngram here, not {knobs.speculation.kind}")
    if knobs.speculation is not None:
        refuse_unused(knobs.speculation)


BY_SLOT: Final = "prefix cache by slot"
"""A slot reuses what its own last prompt shares with the next one, token by token; there are no blocks, so that no
hit rate follows from the prompts."""


def settings_text(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, sort_keys=True) + "\n"


def ledger(log: str, version: str | None) -> tuple[LedgerRow, ...]:
    """Settings in force by llama.cpp's own log of its start, and by the line that our programs print of the parameters
    that they gave it."""
    slots, per_slot = logged(log, r"n_slots = (\d+)"), logged(log, r"n_ctx_slot = (\d+)")
    capacity = str(int(slots) * int(per_slot)) if slots and per_slot else None
    where, announced = "log: load_model: initializing", "its own line in the log"
    must, identity = RowKind.MUST_MATCH, RowKind.IDENTITY
    return (
        LedgerRow(rows.ENGINE_VERSION, version, announced, identity),
        LedgerRow(rows.KV_CAPACITY, capacity, where, must),
        LedgerRow(rows.KV_DTYPE, _announced(log, "cache"), announced, must),
        LedgerRow(rows.MAXIMUM_LENGTH, per_slot, where, must),
        LedgerRow(rows.BATCH_SEQUENCES, slots, where, must),
        LedgerRow(rows.BATCH_TOKENS, _announced(log, "batch"), announced, must),
        LedgerRow(rows.PREFIX_CACHE, _announced(log, "prefix-cache"), announced, must),
        LedgerRow(
            rows.CHUNKED_PREFILL, "on" if version else None, "it always splits a prompt at its batch limit", must
        ),
        LedgerRow(rows.SPECULATION, _drafting(log), announced, must),
        LedgerRow(rows.TENSOR_PARALLEL, "1" if version else None, "one processor, by its build", must),
        LedgerRow(rows.PIPELINE_PARALLEL, "1" if version else None, "one processor, by its build", must),
        LedgerRow(rows.WEIGHT_DTYPE, "float32" if version else None, "the conversion, which makes no other", must),
        LedgerRow(rows.QUANTIZATION, rows.OFF if version else None, "the conversion, which makes no other", must),
        LedgerRow("shared KV pool", logged(log, r"kv_unified = '(\w+)'"), where, identity),
    )


def loaded(log: str, template: str | None = None) -> Loaded:
    """Tokenizer and template are in the converted file; of its own server `/props` has the template's text."""
    file = logged(log, r"loading model '([^']+)'")
    neutral = "neutral" if version_in(log) else None
    return Loaded(tokenizer=file, renders=template is not None, template=template, sampling_defaults=neutral)


def version_in(log: str) -> str | None:
    """The version that the programs of `engines/inside` announce."""
    return logged(log, r"engine xllamacpp ([\w.+]+)")


def speculation_in(log: str) -> str | None:
    """The kinds of speculation that they announce; NONE where it is off."""
    return _announced(log, "speculation")


def _announced(log: str, name: str) -> str | None:
    return logged(log, rf"engine xllamacpp \S+.*? {name} (\w+)")


def _drafting(log: str) -> str | None:
    """Kind and draft length by the knobs' names."""
    kind = speculation_in(log)
    if kind is None or kind == "NONE":
        return None if kind is None else rows.OFF
    return rows.drafting("ngram" if kind == "NGRAM_SIMPLE" else kind, _announced(log, "drafting"))
