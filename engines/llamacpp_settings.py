# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's knobs, conversion and ledger rows, the same whether it serves or is embedded.

Facts were run on xllamacpp 2026.10.11549.
"""

import json
from typing import Any, Final

from engines.contract import LedgerRow, RowKind
from engines.inside_files import inside_path
from engines.launch import Checkpoint, Command, Knobs, Place, PlanError
from engines.log_lines import logged

DEFAULT_BATCH_TOKENS: Final = 2048


def gguf_path(checkpoint: Checkpoint, place: Place) -> str:
    """The converted checkpoint, named by its weights, kept between lives."""
    return f"{place.cache}/{checkpoint.sha256[:16]}.gguf"


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
    if knobs.extra:
        raise PlanError("knobs.extra: llama.cpp has no settings of its own here; leave the key out")
    if knobs.speculation is not None and knobs.speculation.kind != "ngram":
        raise PlanError(f"knobs.speculation.kind: llama.cpp is planned with ngram here, not {knobs.speculation.kind}")


BY_SLOT: Final = "prefix cache by slot"
"""A slot reuses what its own last prompt shares with the next one, token by token; there are no blocks, so that no
hit rate follows from the prompts."""


def settings_text(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, sort_keys=True) + "\n"


def ledger(log: str, version: str | None) -> tuple[LedgerRow, ...]:
    """Settings in force by llama.cpp's own log of its start."""
    slots, per_slot = logged(log, r"n_slots = (\d+)"), logged(log, r"n_ctx_slot = (\d+)")
    capacity = str(int(slots) * int(per_slot)) if slots and per_slot else None
    where = "log: load_model: initializing"
    must = RowKind.MUST_MATCH
    return (
        LedgerRow("engine version", version, "its own line in the log", RowKind.IDENTITY),
        LedgerRow("KV capacity (tokens)", capacity, where, must),
        LedgerRow("maximum length (tokens)", per_slot, where, must),
        LedgerRow("batch limit (sequences)", slots, where, must),
        LedgerRow("speculation", speculation_in(log), "its own line in the log", must),
        LedgerRow("shared KV pool", logged(log, r"kv_unified = '(\w+)'"), where, RowKind.IDENTITY),
        LedgerRow("weight dtype", None, "not in the log", RowKind.NOT_OBSERVABLE),
        LedgerRow("prefix cache", None, "not in the log", RowKind.NOT_OBSERVABLE),
    )


def version_in(log: str) -> str | None:
    """The version that the programs of `engines/inside` announce."""
    return logged(log, r"engine xllamacpp ([\w.+]+)")


def speculation_in(log: str) -> str | None:
    """The kinds of speculation that they announce; NONE where it is off."""
    return logged(log, r"engine xllamacpp \S+ speculation (\w+)")
