# SPDX-License-Identifier: Apache-2.0
"""The tensors of TensorRT-LLM's LLM API model over Triton's HTTP generate extension, and the trials that find
out how the release at hand behaves.

Facts: triton_backend/all_models/llmapi of NVIDIA/TensorRT-LLM; what was seen of two generations of its wrapper on
a real Triton 2.51 stands in the docstrings below.
"""

import json
import uuid
from typing import Any, Final

from engines import perf_tensors, triton_trials, triton_wire, trtllm_settings
from engines.contract import (
    Answer,
    Call,
    Capabilities,
    Counters,
    EventData,
    Evidence,
    LedgerRow,
    Probe,
    Prompt,
    Reading,
    RowKind,
    Said,
    Sampling,
)
from engines.event_json import parse_event

GENERATE: Final = "/v2/models/{name}/generate"
SILENT_LIMIT_S: Final = 2.0
CANCEL_AFTER_S: Final = 0.2
CANCEL_LIMIT_S: Final = 1.0
CANCELLED_TOKENS: Final = 512
SHORT_TOKENS: Final = 16


def probes() -> tuple[Probe, ...]:
    return (
        Probe("server", "/v2"),
        Probe("config", "/v2/models/{name}/config"),
        Probe("ready", "/v2/health/ready"),
    )


def trials(prompt: Prompt) -> tuple[Probe, ...]:
    """What only a request can tell: events, text, metrics, reuse, errors and cancellation of this release. One that
    is not answered keeps the server from ending until its exit timeout, so it is asked once."""
    short = _body(prompt, SHORT_TOKENS)
    long_id = uuid.uuid4().hex
    long = _body(prompt, CANCELLED_TOKENS) | {"id": long_id}
    return (
        Probe("stream", triton_wire.STREAM, short | {"id": uuid.uuid4().hex}),
        Probe("again", triton_wire.STREAM, short | {"id": uuid.uuid4().hex}),
        Probe("generate", GENERATE, short | {"streaming": False}),
        Probe("no text", GENERATE, {"sampling_param_max_tokens": 1}, limit_s=SILENT_LIMIT_S, once=True),
        Probe("cancel", triton_wire.STREAM, long, stop={"id": long_id, "stop": True}, stop_after_s=CANCEL_AFTER_S),
    )


def _body(prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    """Every input that decides an answer, by its exact name: others are dropped in silence, and absent ones
    fall to defaults (32 tokens; the prompt before the answer)."""
    return {
        "text_input": prompt.text,
        "streaming": True,
        "sampling_param_max_tokens": max_tokens,
        "sampling_param_temperature": prompt.sampling.temperature,
        "sampling_param_top_k": prompt.sampling.top_k or 1,
        "sampling_param_top_p": prompt.sampling.top_p,
        "sampling_param_seed": prompt.sampling.seed,
        "sampling_param_frequency_penalty": 0.0,
        "sampling_param_presence_penalty": 0.0,
        "sampling_param_exclude_input_from_output": True,
        "sampling_param_return_perf_metrics": True,
        "return_finish_reason": True,
    }


SENT: Final = tuple(_body(Prompt("", 0, 1, False, Sampling()), 1))
"""Inputs of every request, by name."""


def encode(prompt: Prompt, capabilities: Capabilities) -> Call:
    """A streaming request. Its id is a string of its own: two live requests of one id hide each other."""
    body = _body(prompt, prompt.max_tokens) | {"id": uuid.uuid4().hex}
    if prompt.sampling.top_k == 0 and prompt.sampling.temperature > 0:
        del body["sampling_param_top_k"]
    return triton_wire.stream_call(capabilities.model, body)


def fold(answer: Answer, data: EventData, capabilities: Capabilities) -> None:
    """Each event repeats the text so far; one whose text does not start with the text so far replaces it. Events
    without new text occur, and a last one without any output. Tokens are not counted by the model.
    """
    event = parse_event(answer, data)
    if event is None:
        return
    text = event.get("text_output", answer.text)
    text = str(text[0] if isinstance(text, list) and text else text)
    if text != answer.text:
        answer.text, answer.tokens, answer.uncounted = text, answer.tokens + 1, True
    answer.ended |= triton_wire.fold_reason(answer, event)
    perf_tensors.fold(answer, event, capabilities.block_tokens)


def read(evidence: Evidence) -> Reading:
    """Version and settings by the log, the rest by what the trials showed."""
    server = json.loads(evidence.answers.get("server") or "{}")
    config = json.loads(evidence.answers.get("config") or "{}")
    version = trtllm_settings.version_in(evidence.log)
    block, longest = trtllm_settings.block_tokens(evidence.log), trtllm_settings.argument(evidence.log, "max_seq_len")
    capabilities = Capabilities(
        model=config.get("name", ""),
        engine_version=version,
        front_end=triton_wire.front_end(server),
        max_model_len=int(longest) if longest and longest.isdigit() else None,
        tokens_per_event=False,
        forces_length=False,
        reports_cached_tokens=block is not None,
        speculates=trtllm_settings.argument(evidence.log, "decoding_type") is not None,
        incremental=triton_trials.incremental(evidence.trials.get("stream")),
        whole_text=True,
        block_tokens=int(block) if block else None,
    )
    rows = (*trtllm_settings.ledger(evidence.log, version), *_behaviour(evidence))
    loaded = trtllm_settings.loaded(evidence.log, renders=False)
    return Reading(capabilities, rows, Counters(), _refusals(config, evidence), loaded)


def _refusals(config: dict[str, Any], evidence: Evidence) -> tuple[str, ...]:
    found = []
    if config and not config.get("model_transaction_policy", {}).get("decoupled"):
        found.append(
            "the model is not decoupled, so that streams hang; set model_transaction_policy in config.pbtxt "
            "and triton_config.decoupled in model.yaml"
        )
    missing = set(SENT) - {tensor["name"] for tensor in config.get("input", ())}
    if config and missing:
        found.append(f"the model has no input {', '.join(sorted(missing))}; Triton drops what it does not know")
    found += triton_trials.refusals(evidence.trials.get("stream"), whole_text=True)
    return tuple(found)


def _behaviour(evidence: Evidence) -> tuple[LedgerRow, ...]:
    """How this release behaves, for the reader of a record; none of it decides a comparison."""
    trials = evidence.trials
    if not trials:
        return ()
    stream, again = triton_trials.events(trials.get("stream")), triton_trials.events(trials.get("again"))
    last = again[-1] if again else {}
    reused = perf_tensors.whole(last, *perf_tensors.REUSED)
    identity = RowKind.IDENTITY

    def row(name: str, value: str | None) -> LedgerRow:
        return LedgerRow(name, value, "a trial after the start", identity)

    return (
        row("events of a stream of 16 tokens", str(len(stream)) if stream else None),
        row("blocks reused by an equal prompt", None if reused is None else str(reused)),
        row("metrics arrive as", _kind(last.get("kv_cache_reused_block", last.get("kv_cache_reused_blocks")))),
        row("generate on a decoupled model", triton_trials.outcome(trials.get("generate"))),
        row("a request without text", triton_trials.outcome(trials.get("no text"))),
        row("a stop request", _cancelled(trials.get("cancel"))),
    )


def _kind(value: object) -> str | None:
    return None if value is None else "text" if isinstance(value, str) else "numbers"


def _cancelled(said: Said | None) -> str | None:
    if said is None:
        return None
    ended = "cancelled" in said.body.lower()
    return f"{'ends' if ended else 'does not end'} the stream"
