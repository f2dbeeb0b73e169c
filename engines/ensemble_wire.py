# SPDX-License-Identifier: Apache-2.0
"""The tensors of the compiled engine's ensemble and BLS models over Triton's HTTP generate extension.

Facts: triton_backend/all_models/inflight_batcher_llm of NVIDIA/TensorRT-LLM. The ensemble decodes each chunk of
tokens by itself, so its text loses spaces and split letters at the joints; BLS with accumulate_tokens does not.
"""

import json
import re
import uuid
from typing import Any, Final

from engines import ledger_rows as rows
from engines import perf_tensors, prometheus, triton_trials, triton_wire, trtllm_settings
from engines.contract import (
    Answer,
    Call,
    Capabilities,
    Counters,
    EventData,
    Evidence,
    LedgerRow,
    Loaded,
    Probe,
    Prompt,
    Reading,
    RowKind,
)
from engines.event_json import parse_event
from engines.log_lines import logged

TRIAL_TOKENS: Final = 16
REQUESTS: Final = "nv_trt_llm_request_metrics"
VERSION: Final = r"Engine version ([\w.+]+) found"
"""A line of the C++ runtime: cpp/tensorrt_llm/runtime/gptJsonConfig.cpp."""
BLOCKS: Final = "nv_trt_llm_kv_cache_block_metrics"


def probes() -> tuple[Probe, ...]:
    """The engine's own model is asked too: its parameters say what was filled in."""
    return (
        Probe("server", "/v2"),
        Probe("config", "/v2/models/{name}/config"),
        Probe("engine config", "/v2/models/tensorrt_llm/config"),
        Probe("preprocessing", "/v2/models/preprocessing/config"),
        Probe("postprocessing", "/v2/models/postprocessing/config"),
        Probe("triton", "/metrics", port="metrics"),
    )


def trials(prompt: Prompt) -> tuple[Probe, ...]:
    body = _body(prompt, TRIAL_TOKENS, forced=True)
    return tuple(Probe(name, triton_wire.STREAM, body | {"id": uuid.uuid4().hex}) for name in ("stream", "again"))


def _body(prompt: Prompt, max_tokens: int, *, forced: bool) -> dict[str, Any]:
    """Other names than the LLM API model's. There is no way to ignore the end token but a minimal length."""
    body: dict[str, Any] = {
        "text_input": prompt.text,
        "stream": True,
        "max_tokens": max_tokens,
        "temperature": prompt.sampling.temperature or 1.0,
        "top_k": prompt.sampling.top_k if prompt.sampling.temperature else 1,
        "top_p": prompt.sampling.top_p,
        "seed": prompt.sampling.seed,
        "repetition_penalty": 1.0,
        "exclude_input_in_output": True,
        "return_perf_metrics": True,
        "return_num_input_tokens": True,
        "return_num_output_tokens": True,
    }
    return body | ({"min_tokens": max_tokens} if forced else {})


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """A streaming request; greedy is top_k 1, with an explicit temperature, whatever defaults the release has."""
    body = _body(prompt, prompt.max_tokens, forced=prompt.forced) | {"id": uuid.uuid4().hex}
    if capabilities.draft_tokens is not None:
        body["num_draft_tokens"] = capabilities.draft_tokens
    return triton_wire.stream_call(capabilities.model, body)


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Tokens come as deltas, text too, unless BLS accumulates it. There is no finish reason: whether the answer
    has as many tokens as asked is for the caller to see, and the body's end is the end."""
    event = parse_event(answer, data)
    if event is None:
        return
    text = str(event.get("text_output") or "")
    if not capabilities.whole_text:
        answer.text += text
    elif text:
        answer.text = text
    answer.tokens += perf_tensors.whole(event, "num_output_tokens") or 0
    answer.server_tokens, answer.ended = answer.tokens, True
    answer.prompt_tokens = perf_tensors.whole(event, "num_input_tokens") or answer.prompt_tokens
    perf_tensors.fold(answer, event, capabilities.block_tokens)


def read(evidence: Evidence) -> Reading:
    """Sizes by the C++ backend's metrics and its log, settings by the filled-in parameters."""
    answers = {name: _object(evidence.answers.get(name)) for name in ("server", "config", "engine config")}
    samples = prometheus.parse(evidence.answers.get("triton") or "")
    engine = answers["engine config"].get("parameters", {})
    version = logged(evidence.log, VERSION)
    block = _metric(samples, BLOCKS, "kv_cache_block_type", "tokens_per")
    block = block or (float(found) if (found := trtllm_settings.block_tokens(evidence.log)) else None)
    drafter = _parameter(answers["config"].get("parameters", {}), "tensorrt_llm_draft_model_name")
    drafts = _whole(_runtime(evidence.log, "maxDraftLen")) if drafter else None
    capabilities = Capabilities(
        model=answers["config"].get("name", ""),
        engine_version=version,
        front_end=triton_wire.front_end(answers["server"]),
        max_model_len=_whole(_runtime(evidence.log, "maxSequenceLen")),
        tokens_per_event=True,
        forces_length=True,
        reports_cached_tokens=block is not None,
        speculates=drafter is not None or _parameter(engine, "decoding_mode") is not None,
        incremental=triton_trials.incremental(evidence.trials.get("stream")),
        whole_text=bool(triton_trials.repeats_text(evidence.trials.get("stream"))),
        gives_reason=False,
        block_tokens=int(block) if block else None,
        draft_tokens=drafts,
        notes=_notes(evidence) if version else (),
    )
    counters = Counters(
        running=_metric(samples, REQUESTS, "request_type", "active"),
        waiting=_metric(samples, REQUESTS, "request_type", "waiting"),
    )
    refusals = triton_trials.refusals(evidence.trials.get("stream"), whole_text=capabilities.whole_text)
    rows_said = _ledger(evidence, engine, version, block, drafter=drafter is not None)
    preprocessing = _object(evidence.answers.get("preprocessing")).get("parameters", {})
    folder = _parameter(preprocessing, "tokenizer_dir")
    loaded = Loaded(tokenizer=folder, sampling_defaults="neutral" if folder else None)
    return Reading(capabilities, rows_said, counters, tuple(refusals), loaded)


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text or "{}")
    return value if isinstance(value, dict) else {}


def _whole(text: str | None) -> int | None:
    return int(text) if text else None


def _metric(samples: tuple[prometheus.Sample, ...], name: str, label: str, value: str) -> float | None:
    return next((s.value for s in samples if s.name == name and s.labels.get(label) == value), None)


def _parameter(parameters: dict[str, Any], name: str) -> str | None:
    """A parameter of a model; a placeholder that was not filled in is unset."""
    value = parameters.get(name, {}).get("string_value")
    return None if value is None or value.startswith("${") else str(value)


def _ledger(
    evidence: Evidence, engine: dict[str, Any], version: str | None, block: float | None, *, drafter: bool
) -> tuple[LedgerRow, ...]:
    config, log = "the model's own configuration", "log: the engine's start"
    must, identity = RowKind.MUST_MATCH, RowKind.IDENTITY
    life = None if version is None else "end of life: the path is gone after 1.2.1"
    return (
        LedgerRow(rows.ENGINE_VERSION, version, log, identity),
        LedgerRow("maintained", life, "tensorrt_llm's release notes", identity),
        LedgerRow(rows.KV_CAPACITY, trtllm_settings.kv_tokens(evidence.log), log, must),
        LedgerRow(rows.PREFIX_CACHE, _parameter(engine, "enable_kv_cache_reuse"), config, must),
        LedgerRow(rows.CHUNKED_PREFILL, _parameter(engine, "enable_chunked_context"), config, must),
        LedgerRow(rows.BLOCK_SIZE, None if block is None else str(int(block)), log, identity),
        LedgerRow(rows.MAXIMUM_LENGTH, _runtime(evidence.log, "maxSequenceLen"), log, must),
        LedgerRow(
            rows.BATCH_SEQUENCES,
            logged(evidence.log, r"TRTGptModel maxBatchSize: (\d+)"),
            log,
            must,
        ),
        LedgerRow(rows.BATCH_TOKENS, logged(evidence.log, r"TRTGptModel maxNumTokens: (\d+)"), log, must),
        LedgerRow(rows.WEIGHT_DTYPE, None, "not in the log; the plan has it", RowKind.NOT_OBSERVABLE),
        LedgerRow(rows.QUANTIZATION, None, "not in the log; the plan has it", RowKind.NOT_OBSERVABLE),
        LedgerRow(rows.KV_DTYPE, None, "not in the log; the plan has it", RowKind.NOT_OBSERVABLE),
        LedgerRow(rows.SPECULATION, _drafting(evidence.log, engine, drafter=drafter), f"{config}; {log}", must),
        LedgerRow("CUDA graphs", _parameter(engine, "cuda_graph_mode"), config, identity),
        *(
            LedgerRow(f"{name} processes", _instances(evidence.answers.get(name)), config, identity)
            for name in ("preprocessing", "postprocessing")
        ),
    )


def _drafting(log: str, engine: dict[str, Any], *, drafter: bool) -> str | None:
    """Kind and draft length by the knobs' names."""
    length, kind = _runtime(log, "maxDraftLen"), _parameter(engine, "decoding_mode")
    if drafter:
        return rows.drafting("draft_target", length)
    if kind is not None:
        return rows.drafting(kind, length)
    return rows.OFF if length is not None else None


def _runtime(log: str, name: str) -> str | None:
    """A size that the C++ runtime logs at its start: cpp/tensorrt_llm/batch_manager. Of a target and its drafter the
    larger counts."""
    found = re.findall(rf"TRTGptModel {name}: (\d+)", log)
    return max(found, key=int) if found else None


def _notes(evidence: Evidence) -> tuple[str, ...]:
    counts = [_instances(evidence.answers.get(name)) for name in ("preprocessing", "postprocessing")]
    return ("end of life", f"{counts[0] or '?'} tokenizers, {counts[1] or '?'} detokenizers")


def _instances(text: str | None) -> str | None:
    groups = _object(text).get("instance_group", ())
    return str(sum(group.get("count", 1) for group in groups)) if groups else None
