# SPDX-License-Identifier: Apache-2.0
"""TensorRT-LLM's metrics of one request, as its two Triton models send them.

The LLM API model sends each as a string, whatever its config declares, and names blocks in the singular; the
compiled one sends numbers and the plural. triton_backend/all_models/*/1/model.py of NVIDIA/TensorRT-LLM.
"""

from collections.abc import Mapping
from typing import Any, Final

from engines.contract import Answer, EngineTimes

REUSED: Final = ("kv_cache_reused_block", "kv_cache_reused_blocks")
TIMES: Final = ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns")


def whole(event: Mapping[str, Any], *names: str) -> int | None:
    """The first of these values that is there, whether it came as a number or as text."""
    value = next((event[name] for name in names if name in event), None)
    if isinstance(value, list):
        value = value[0] if value else None
    return None if value is None else int(str(value))


def fold(answer: Answer, event: Mapping[str, Any], block_tokens: int | None) -> None:
    """The last event that has metrics counts. Blocks become tokens where their size is known.

    Nothing drafted is no report: the PyTorch backend's sampler leaves zeros although drafting ran, up to 1.2.1
    (NVIDIA/TensorRT-LLM pull request 17082).
    """
    if TIMES[0] not in event:
        return
    reused, drafted = whole(event, *REUSED), whole(event, "total_draft_tokens")
    if reused is not None and block_tokens is not None:
        answer.cached_tokens = reused * block_tokens
    if drafted:
        answer.drafted_tokens, answer.accepted_tokens = drafted, whole(event, "total_accepted_draft_tokens")
    known = [stamp for name in TIMES if (stamp := whole(event, name)) is not None]
    if len(known) == len(TIMES):
        answer.engine_times = EngineTimes(*known)
