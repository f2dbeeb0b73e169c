# SPDX-License-Identifier: Apache-2.0
"""What a workload asks, in words: its prompts and answers, and what of them a prefix cache can know."""

from runners.config_workload import Span, WorkloadConfig


def asked_text(workload: WorkloadConfig) -> str:
    """Prompts and answers by their lengths in tokens."""
    if workload.input_tokens is None or workload.output_tokens is None:
        return f"{workload.name}: prompts of the file {workload.file}{', over and over' if workload.repeat else ''}"
    asked, answered = _span(workload.input_tokens), _span(workload.output_tokens)
    repeating = ", phrases repeated" if workload.text == "repeating" else ""
    if workload.turns > 1:
        return f"{workload.name}: {workload.turns} turns of {asked} tokens, answers of {answered}{repeating}"
    return f"{workload.name}: prompts of {asked} tokens, answers of {answered}{repeating}"


def _span(span: Span) -> str:
    return f"{span.low} to {span.high}" if span.low < span.high else f"{span.low}"


def cache_text(workload: WorkloadConfig) -> str:
    """What prompts share by intent."""
    shared = workload.shared_prefix
    if workload.turns > 1:
        return f"{workload.name}: each prompt holds the turns before it, with answers made up for them."
    if workload.repeat:
        return f"{workload.name}: prompts come again, so that hits are wanted and no rate is foreseen."
    if workload.file is not None:
        return f"{workload.name}: each line of the file once in a server life."
    if shared is None:
        return f"{workload.name}: cold, no prompt shares a beginning with another by intent."
    which = "each prompt begins" if shared.share == 1 else f"{shared.share:.0%} of the prompts begin"
    order = "in turn" if shared.order == "round-robin" else "drawn"
    return (
        f"{workload.name}: {which} with one of {shared.count} openings of {shared.tokens} tokens, {order}, each sent "
        "once before driving."
    )
