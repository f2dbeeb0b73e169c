# SPDX-License-Identifier: Apache-2.0
"""vLLM's ledger rows and what it loaded, the same whether it serves or is embedded.

Its metrics page has the cache's settings, its log two lines of others: `Initializing a V1 LLM engine`
(vllm/config/vllm.py, `VllmConfig.__str__`) and, of its own server, `non-default args` (vllm/entrypoints/utils.py of
0.20.2, api_utils.py of 0.32.0), in which an argument that is missing has its default. Our Triton model says what is in
that second line by a line of its own.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

from engines import ledger_rows as rows
from engines import prometheus
from engines.contract import LedgerRow, Loaded, RowKind
from engines.ledger_rows import drafting
from engines.log_lines import logged

CONFIG_LINE: Final = "log: Initializing a V1 LLM engine"
ARGUMENTS_LINE: Final = "log: non-default args"
EMBEDDED_LINE: Final = "log: engine vllm settings"
PAGE: Final = "vllm:cache_config_info"
METHODS: Final[Mapping[str, str]] = {"draft_model": "draft_target"}
"""Methods of speculation that a knob calls otherwise."""
NEUTRAL: Final = "vllm"
"""`generation_config` with which vLLM takes no sampling defaults from the checkpoint."""


def ledger(samples: tuple[prometheus.Sample, ...], log: str, version: str | None) -> tuple[LedgerRow, ...]:
    """Settings in force by metrics page and log."""
    cache = prometheus.labels(samples, PAGE)
    must, identity = RowKind.MUST_MATCH, RowKind.IDENTITY
    told = _told_in(log)
    eager = _config(log, r"enforce_eager=(\w+)")
    return (
        LedgerRow(rows.ENGINE_VERSION, version, "its own answer", identity),
        LedgerRow(rows.KV_CAPACITY, _kv_tokens(cache), PAGE, must),
        LedgerRow(rows.KV_DTYPE, cache.get("cache_dtype"), PAGE, must),
        LedgerRow(rows.PREFIX_CACHE, cache.get("enable_prefix_caching"), PAGE, must),
        LedgerRow(rows.BLOCK_SIZE, cache.get("block_size"), PAGE, identity),
        LedgerRow(rows.WEIGHT_DTYPE, _config(log, r"[ (]dtype=torch\.(\w+)"), CONFIG_LINE, must),
        LedgerRow(rows.QUANTIZATION, _config(log, r"quantization=(\w+)"), CONFIG_LINE, must),
        LedgerRow(rows.MAXIMUM_LENGTH, _config(log, r"max_seq_len=(\d+)"), CONFIG_LINE, must),
        LedgerRow(rows.TENSOR_PARALLEL, _config(log, r"tensor_parallel_size=(\d+)"), CONFIG_LINE, must),
        LedgerRow(rows.PIPELINE_PARALLEL, _config(log, r"pipeline_parallel_size=(\d+)"), CONFIG_LINE, must),
        LedgerRow(rows.CHUNKED_PREFILL, _config(log, r"enable_chunked_prefill=(\w+)"), CONFIG_LINE, must),
        LedgerRow(rows.SPECULATION, _speculation(log), CONFIG_LINE, must),
        LedgerRow(rows.BATCH_SEQUENCES, _argument(log, "max_num_seqs"), told, must),
        LedgerRow(rows.BATCH_TOKENS, _argument(log, "max_num_batched_tokens"), told, must),
        LedgerRow(rows.STREAM_INTERVAL, _argument(log, "stream_interval", default="1"), told, must),
        LedgerRow("CUDA graphs", {"True": "off", "False": "on"}.get(eager or ""), CONFIG_LINE, identity),
        _scheduling(log, told),
        LedgerRow("attention", logged(log, r"Using (\w+) (?:attention )?backend"), "log: its choice", identity),
    )


def spared_blocks(log: str) -> int:
    """Heads of EAGLE's kind and multi-token prediction need the hidden states of a match's last block:
    vllm/v1/core/single_type_kv_cache_manager.py, 0.32.0, and kv_cache_manager.py, 0.20.2."""
    kind = (_speculation(log) or "").partition(",")[0]
    return 1 if kind in ("eagle", "eagle3", "mtp") else 0


def loaded(log: str, *, renders: bool) -> Loaded:
    """Where the tokenizer came from, which template it was given, and where sampling defaults come from."""
    source = _argument(log, "generation_config", default="auto")
    override = _argument(log, "override_generation_config")
    return Loaded(
        tokenizer=_config(log, r"[ (]tokenizer='([^']*)'"),
        template_file=_argument(log, "chat_template"),
        renders=renders,
        sampling_defaults=None if source is None else _defaults(source, override),
    )


def _defaults(source: str, override: str | None) -> str:
    found = "neutral" if source == NEUTRAL else f"generation_config {source}"
    return f"{found}, override {override}" if override and override != "{}" else found


def _told_in(log: str) -> str:
    return EMBEDDED_LINE if "engine vllm settings" in log else ARGUMENTS_LINE


def _argument(log: str, name: str, default: str | None = None) -> str | None:
    """An argument in either line; `default` where there is a line and it does not name it. None without a line."""
    line = logged(log, r"(?:non-default args:|engine vllm settings) *(\{.*\})")
    if line is None:
        return None
    found = re.search(rf"\\?['\"]{name}\\?['\"]: (?:\\?['\"](.*?)\\?['\"]|(\{{[^}}]*\}}|[^,}}]+))", line)
    value = next((group for group in found.groups() if group is not None), None) if found else None
    return default if value in (None, "None", "null") else value


def _config(log: str, pattern: str) -> str | None:
    return logged(log, r"Initializing a V1 LLM engine.*?" + pattern)


def _scheduling(log: str, told: str) -> LedgerRow:
    """0.20.2 says what it resolved to, and so does our Triton model; 0.32.0 and 0.33.0 do not, but off stays off where
    it was told."""
    resolved = logged(log, r"Asynchronous scheduling is (\w+)")
    if resolved is not None:
        return LedgerRow(rows.ASYNC_SCHEDULING, resolved, "log: Asynchronous scheduling", RowKind.MUST_MATCH)
    argument = {"false": rows.OFF, "true": "on"}.get((_argument(log, "async_scheduling") or "").lower())
    sure = told == EMBEDDED_LINE or argument == rows.OFF
    return LedgerRow(rows.ASYNC_SCHEDULING, argument if sure else None, told, RowKind.MUST_MATCH)


def _speculation(log: str) -> str | None:
    """A kind and a draft length; `off` where the line says None."""
    said = _config(log, r"speculative_config=(None|SpeculativeConfig\([^)]*\))")
    if said is None or said == "None":
        return None if said is None else rows.OFF
    method, tokens = logged(said, r"method='(\w+)'"), logged(said, r"num_spec_tokens=(\d+)")
    return drafting(METHODS.get(method or "", method or said), tokens)


def _kv_tokens(cache: Mapping[str, str]) -> str | None:
    """Blocks times their size. `kv_cache_size_tokens`, where a release says it, is how many requests of maximal length
    fit, times that length: less, where a request does not fill its last block (vllm/v1/core/kv_cache_utils.py of
    0.32.0). It counts where a request takes more blocks than its tokens fill, as in models of several cache groups."""
    said, blocks, size = (_whole(cache.get(name)) for name in ("kv_cache_size_tokens", "num_gpu_blocks", "block_size"))
    if blocks is None or size is None:
        return None if said is None else str(said)
    requests = float(cache.get("kv_cache_max_concurrency") or 0)
    if said and requests and round(blocks / requests) > math.ceil(round(said / requests) / size):
        return str(said)
    return str(blocks * size)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
