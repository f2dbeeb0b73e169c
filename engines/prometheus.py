# SPDX-License-Identifier: Apache-2.0
"""Reads an engine's metrics page: exact names, summed over label sets, absent is not zero."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engines.contract import Counters

Names = Mapping[str, str | tuple[str, ...]]
"""Fields of Counters by an engine's names for them; a field of several is their sum. `accepted_by_position` is a metric
with a label `position`."""

VLLM_NAMES: Final[Names] = {
    "requests": "vllm:request_success_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prompt_tokens_cached_total",
    "generated_tokens": "vllm:generation_tokens_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "drafted_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "accepted_by_position": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "steps": ("vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count"),
    "timed_requests": "vllm:request_queue_time_seconds_count",
    "queue_s": "vllm:request_queue_time_seconds_sum",
    "prefill_s": "vllm:request_prefill_time_seconds_sum",
    "decode_s": "vllm:request_decode_time_seconds_sum",
}
"""vllm/v1/metrics/loggers.py and vllm/v1/spec_decode/metrics.py, 0.20.2 and 0.33.0. Of each request the first step is
observed as a time to the first token, and every later one as one latency, however many tokens it brought."""

LLAMACPP_NAMES: Final[Names] = {
    "running": "llamacpp:requests_processing",
    "waiting": "llamacpp:requests_deferred",
    "cached_tokens": "llamacpp:prompt_tokens_cached_total",
    "generated_tokens": "llamacpp:tokens_predicted_total",
    "drafts": "llamacpp:spec_decode_num_drafts_total",
    "drafted_tokens": "llamacpp:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "llamacpp:spec_decode_num_accepted_tokens_total",
}
"""As served by xllamacpp 2026.10.11549; its prompt counter leaves the cached tokens out."""

TRTLLM_NAMES: Final[Names] = {
    "requests": "trtllm_request_success_total",
    "running": "trtllm_num_requests_running",
    "waiting": "trtllm_num_requests_waiting",
    "prompt_tokens": "trtllm_prompt_tokens_total",
    "cached_tokens": "trtllm_prompt_cached_tokens_total",
    "generated_tokens": "trtllm_generation_tokens_total",
    "drafted_tokens": "trtllm_spec_decode_num_draft_tokens_total",
    "accepted_tokens": "trtllm_spec_decode_num_accepted_tokens_total",
}
"""tensorrt_llm/metrics/collector.py of NVIDIA/TensorRT-LLM, 050f80d; 1.2 has only the first."""

SGLANG_NAMES: Final[Names] = {
    "running": "sglang:num_running_reqs",
    "waiting": "sglang:num_queue_reqs",
    "prompt_tokens": "sglang:prompt_tokens_total",
    "generated_tokens": "sglang:generation_tokens_total",
}
"""sglang 0.5.23. Its cached tokens are a series per source beside their own total: usage has them better."""


@dataclass(frozen=True)
class Sample:
    """One line of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(page: str) -> tuple[Sample, ...]:
    """All samples of a page in Prometheus' text format. Raises ValueError on text that is none."""
    from prometheus_client.parser import text_string_to_metric_families

    return tuple(
        Sample(sample.name, sample.labels, float(sample.value))
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    )


def total(samples: tuple[Sample, ...], name: str) -> float | None:
    """Sum of a metric over all its label sets; None where the page has no such name."""
    values = [sample.value for sample in samples if sample.name == name]
    return sum(values) if values else None


def labels(samples: tuple[Sample, ...], name: str) -> Mapping[str, str]:
    """Labels of the first sample of that name, for metrics that carry settings; empty if absent."""
    return next((sample.labels for sample in samples if sample.name == name), {})


def by_position(samples: tuple[Sample, ...], name: str) -> tuple[float, ...] | None:
    """A metric's values by its label `position`, from 0; None where the page has no such name."""
    values: dict[int, float] = {}
    for sample in samples:
        if sample.name == name:
            place = int(sample.labels["position"])
            values[place] = values.get(place, 0.0) + sample.value
    return tuple(values[place] for place in sorted(values)) if values else None


def counters(samples: tuple[Sample, ...], names: Names) -> Counters:
    """The counters that the page has, under the names that an engine uses for them."""
    found: dict[str, Any] = {}
    for field, name in names.items():
        if isinstance(name, tuple):
            totals = [total(samples, one) for one in name]
            found[field] = None if None in totals else sum(filter(None, totals))
        else:
            found[field] = (by_position if field == "accepted_by_position" else total)(samples, name)
    return Counters(**found)
