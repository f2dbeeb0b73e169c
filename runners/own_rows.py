# SPDX-License-Identifier: Apache-2.0
"""Rows of the ledger that this tool establishes itself, in the same way for every contender."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engines import ledger_rows as rows
from engines.contract import Capabilities, LedgerRow, Loaded, Prompt, Reading, RowKind
from engines.launch import Checkpoint
from runners.checkpoint import template_hash, tokenizer_hash
from runners.gpu_settings import GpuSettings
from runners.load.rendering import chat_template
from runners.load.trace import Trace
from runners.report.prompt_counts import told

SHOWN: Final = 16
"""Digits of a hash that are shown."""
NO_GPU: Final = "none"
NOT_STARTED: Final = "somebody else's server"
MUST: Final = RowKind.MUST_MATCH


@dataclass(frozen=True)
class Given:
    """What a contender was started with. `gpus` is None of a server that was not started here, empty of none;
    `kv_cache_tokens` is the knob."""

    checkpoint: Checkpoint
    gpus: tuple[GpuSettings, ...] | None
    kv_cache_tokens: int | None


def with_own_rows(
    reading: Reading, given: Given, canary: Prompt, trace: Trace, counted: Sequence[Trace] = (), bos: str | None = None
) -> tuple[LedgerRow, ...]:
    """The engine's rows with those that are known without it. What was seen counts before what an engine says.
    `counted` are answers to further prompts."""
    own = (
        *_weights(given),
        _tokenizer(given.checkpoint, reading.loaded),
        _template(given.checkpoint, reading.loaded),
        _special_tokens([trace, *counted], bos),
        _sampling(canary, reading.loaded),
        *_gpu(given.gpus),
        LedgerRow(rows.FRONT_END, reading.capabilities.front_end, "its own answer", RowKind.IDENTITY),
    )
    said = {row.name: row for row in reading.ledger}
    said[rows.STREAM_INTERVAL] = _interval(said.get(rows.STREAM_INTERVAL), trace, reading.capabilities)
    return (*said.values(), *own)


def _interval(said: LedgerRow | None, trace: Trace, capabilities: Capabilities) -> LedgerRow:
    """As seen, else as the engine says."""
    seen = observed_interval(trace, capabilities)
    claim = f"; {said.source} says {said.value}" if said is not None and said.value is not None else ""
    if seen is not None:
        return LedgerRow(rows.STREAM_INTERVAL, str(seen), f"tokens per event of a real request{claim}", MUST)
    if said is not None and said.value is not None:
        return said
    why = "its steps bring several tokens" if capabilities.speculates else "its events do not tell"
    return LedgerRow(rows.STREAM_INTERVAL, None, f"{why}, and the engine does not say it", MUST)


def observed_interval(trace: Trace, capabilities: Capabilities) -> int | None:
    """Tokens of an event between the first and the last one: 1 if any brought one, since a busy machine joins events
    and splits none; more if all brought the same. None where neither holds, or an engine that drafts makes several a
    step."""
    if capabilities.speculates or not capabilities.incremental or not capabilities.tokens_per_event:
        return None
    so_far = [int(tokens) for tokens in trace.timeline.tokens]
    added = [after - before for before, after in itertools.pairwise(so_far)]
    inner = set(added[:-1])
    return min(inner) if 1 in inner or len(inner) == 1 else None


def _weights(given: Given) -> tuple[LedgerRow, ...]:
    checkpoint = given.checkpoint
    if given.gpus is None:
        return tuple(LedgerRow(name, None, NOT_STARTED, MUST) for name in (rows.REVISION, rows.WEIGHTS))
    return (
        LedgerRow(rows.REVISION, checkpoint.revision or "a local folder", "the config", MUST),
        LedgerRow(rows.WEIGHTS, checkpoint.sha256[:SHOWN], "the files, read before the start", MUST),
    )


def _tokenizer(checkpoint: Checkpoint, loaded: Loaded) -> LedgerRow:
    """By the folder, or the converted file, that the engine says it loaded."""
    if loaded.tokenizer is None:
        return LedgerRow(rows.TOKENIZER, None, "the engine does not say which it loaded", MUST)
    path = Path(loaded.tokenizer)
    if path.name.startswith(checkpoint.identity[:SHOWN]):
        return LedgerRow(rows.TOKENIZER, _short(checkpoint.tokenizer_sha256), "in the converted file it loaded", MUST)
    found = _short(tokenizer_hash(path))
    return LedgerRow(rows.TOKENIZER, found, f"tokenizer.json in {path}, which it loaded", MUST)


def _template(checkpoint: Checkpoint, loaded: Loaded) -> LedgerRow:
    """Engines that render no messages get the text as this tool rendered it, by the checkpoint's template."""
    if not loaded.renders:
        source = "rendered by this tool; the engine takes text"
        return LedgerRow(rows.CHAT_TEMPLATE, _short(checkpoint.template_sha256) or "none", source, MUST)
    if loaded.template is not None:
        return LedgerRow(rows.CHAT_TEMPLATE, _short(template_hash(loaded.template)), "its own answer", MUST)
    if loaded.template_file is not None:
        return LedgerRow(rows.CHAT_TEMPLATE, _of_file(loaded.template_file), "the template it was given", MUST)
    if loaded.tokenizer is None:
        return LedgerRow(rows.CHAT_TEMPLATE, None, "the engine does not say which it loaded", MUST)
    found = _short(template_hash(chat_template(Path(loaded.tokenizer))))
    return LedgerRow(rows.CHAT_TEMPLATE, found or "none", "in the folder of its tokenizer", MUST)


def _of_file(given: str) -> str | None:
    """A template is given as a file or as text."""
    path = Path(given)
    if "{" in given or not path.is_file():
        return _short(template_hash(given)) if "{" in given else None
    return _short(template_hash(path.read_text("utf-8")))


def _short(digest: str | None) -> str | None:
    return digest[:SHOWN] if digest else None


def _special_tokens(traces: Sequence[Trace], bos: str | None) -> LedgerRow:
    """How many tokens the engine adds to rendered prompts: it has to be the same for all prompts, and for all
    engines."""
    added = [t.prompt_tokens - t.input_tokens for t in traces if t.prompt_tokens is not None and t.error is None]
    if not added:
        return LedgerRow(rows.SPECIAL_TOKENS, None, "the engine reports no prompt counts", MUST)
    source = f"prompt tokens of {len(added)} real request{'s' if len(added) > 1 else ''}"
    return LedgerRow(rows.SPECIAL_TOKENS, told(added, bos), source, MUST)


def _sampling(canary: Prompt, loaded: Loaded) -> LedgerRow:
    """The fields that every request names, and where the others come from."""
    sent = canary.sampling
    fields = f"temperature {sent.temperature:g}, top_p {sent.top_p:g}, top_k {sent.top_k or 'off'}, seed {sent.seed}"
    if loaded.sampling_defaults is None:
        return LedgerRow(rows.SAMPLING, None, f"sent: {fields}; the engine does not say its defaults", MUST)
    return LedgerRow(rows.SAMPLING, f"{fields}; defaults {loaded.sampling_defaults}", "requests and its log", MUST)


def _gpu(gpus: Sequence[GpuSettings] | None) -> tuple[LedgerRow, ...]:
    """By NVML; one value where all GPUs of a contender agree."""
    names = (rows.GPU_MODEL, rows.GPU_DRIVER, rows.GPU_POWER, rows.GPU_CLOCKS)
    if gpus is None:
        return tuple(LedgerRow(name, None, NOT_STARTED, MUST) for name in names)
    if not gpus:
        return tuple(LedgerRow(name, NO_GPU, "the config: no GPU", MUST) for name in names)
    columns = zip(*(_gpu_values(gpu) for gpu in gpus), strict=True)
    return tuple(LedgerRow(name, _all(values), "NVML", MUST) for name, values in zip(names, columns, strict=True))


def _gpu_values(gpu: GpuSettings) -> tuple[str | None, ...]:
    power = None if gpu.power_cap_w is None else f"{gpu.power_cap_w:.0f} W"
    clocks = None if gpu.sm_mhz is None else f"{gpu.sm_mhz} / {gpu.memory_mhz or '?'} MHz"
    return gpu.name, gpu.driver, power, clocks


def _all(values: Sequence[str | None]) -> str | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    count = f"{len(known)} x " if len(known) > 1 else ""
    return " + ".join(known) if len(set(known)) > 1 else f"{count}{known[0]}"
