# SPDX-License-Identifier: Apache-2.0
"""The part of a config that says how contenders are held to the reference's answers."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from runners.config_base import Count, Strict


class GateConfig(Strict):
    """Greedy answers of `prompts` prompts of the first workload, of up to `tokens` tokens each, are compared with the
    reference's. A contender passes whose agreement with the reference is `at_least` this share of the reference's
    agreement with itself across two starts. `task` is a file of lines {"prompt": ..., "answer": ...}, whose answers may
    take `task_tokens`; a relative path counts from the working directory."""

    prompts: Count = 16
    tokens: Count = 64
    at_least: Annotated[float, Field(gt=0, le=1)] = 0.4
    task: Annotated[str, Field(min_length=1)] | None = None
    task_tokens: Count = 64


def _switched(value: object) -> object:
    """`false` is no gate, `true` the usual one."""
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


Gate = Annotated[GateConfig | None, BeforeValidator(_switched, json_schema_input_type=bool | GateConfig | None)]
