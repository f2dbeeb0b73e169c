# SPDX-License-Identifier: Apache-2.0
"""What is going to be asked, checked before anything starts: files of prompts, and lengths that can be made."""

from collections.abc import Mapping
from pathlib import Path

from runners.config import Bakeoff, ConfigError
from runners.config_workload import Span, WorkloadConfig
from runners.load.prompt_file import PromptFile, PromptFileError, read_prompts
from runners.load.rendering import DrawError, Rendering
from runners.load.workload import Draw


def shortest_context(bakeoff: Bakeoff) -> int:
    """The smallest maximum length of all contenders, in tokens."""
    return min(bakeoff.knobs_of(contender).max_model_len for contender in bakeoff.contenders)


def with_files(bakeoff: Bakeoff, rendering: Rendering, source: str) -> tuple[Bakeoff, Mapping[str, PromptFile]]:
    """The files of prompts by their workloads, and the config with their lengths, which warm-up prompts have, too.
    Raises ConfigError with every line that is wrong."""
    files: dict[str, PromptFile] = {}
    workloads = []
    for workload in bakeoff.workloads:
        if workload.file is not None:
            files[workload.name] = _read(workload, Path(workload.file), shortest_context(bakeoff), rendering, source)
            workloads.append(_with_lengths(workload, files[workload.name], rendering))
        else:
            workloads.append(workload)
    return bakeoff.model_copy(update={"workloads": tuple(workloads)}), files


def _read(workload: WorkloadConfig, path: Path, context: int, rendering: Rendering, source: str) -> PromptFile:
    try:
        return read_prompts(path, rendering, context, len(workload.levels), repeat=workload.repeat)
    except PromptFileError as error:
        lines = str(error).splitlines()
        raise ConfigError("\n".join(f"{source}: workloads.{workload.name}.file: {line}" for line in lines)) from None


def _with_lengths(workload: WorkloadConfig, file: PromptFile, rendering: Rendering) -> WorkloadConfig:
    """A prompt of words needs one word at least within the template."""
    least = rendering.tokens(rendering.render(rendering.words[0])) + 1
    asked, answered = [line.input_tokens for line in file.lines], [line.max_tokens for line in file.lines]
    lengths = {
        "input_tokens": Span(low=max(least, min(asked)), high=max(least, *asked)),
        "output_tokens": Span(low=min(answered), high=max(answered)),
    }
    return workload.model_copy(update=lengths)


def check_prompts(bakeoff: Bakeoff, rendering: Rendering, source: str) -> None:
    """The shortest prompt that a workload may draw has room for the template, and for each shared opening; the last
    turn of the longest conversation has room in every contender. Raises ConfigError."""
    for workload in bakeoff.workloads:
        asked, answered = workload.lengths
        shortest, longest = (
            Draw(rendering, _fixed(workload, *lengths), bakeoff.sampling_fields(), False, (), ())
            for lengths in ((asked.low, answered.low), (asked.high, answered.high))
        )
        try:
            _ = shortest.primers(), next(shortest.prompts())
            last = longest.conversations.turns(0, 0)[-1] if workload.turns > 1 else next(longest.prompts())
        except DrawError as error:
            raise ConfigError(f"{source}: {error}") from None
        whole, context = last.input_tokens + last.max_tokens, shortest_context(bakeoff)
        if whole > context:
            raise ConfigError(
                f"{source}: workloads.{workload.name}.turns: the last turn may take {whole} tokens with what the chat "
                f"template puts in between, more than knobs.max_model_len {context}; fewer turns, or raise it"
            )


def _fixed(workload: WorkloadConfig, asked: int, answered: int) -> WorkloadConfig:
    lengths = {"input_tokens": Span(low=asked, high=asked), "output_tokens": Span(low=answered, high=answered)}
    return workload.model_copy(update=lengths)
