# SPDX-License-Identifier: Apache-2.0
"""The engines that are known: ours by name, others' by entry point."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Final

from engines import (
    llamacpp_openai,
    openai_attach,
    triton_engine,
    triton_llamacpp,
    triton_llmapi,
    triton_vllm,
    trtllm_serve,
    vllm_openai,
)
from engines.contract import Engine

ENGINES: Final[Mapping[str, Engine]] = {
    module.ENGINE.name: module.ENGINE
    for module in (
        *(triton_llmapi, triton_engine, trtllm_serve),
        *(vllm_openai, triton_vllm),
        *(llamacpp_openai, triton_llamacpp),
        openai_attach,
    )
}

ENTRY_POINT_GROUP: Final = "bakeoff.engines"


def known_engines() -> Mapping[str, Engine]:
    """Our engines and those that installed packages declare; a name of ours cannot be replaced."""
    others = {point.name: point.load() for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {**others, **ENGINES}
