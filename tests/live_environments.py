# SPDX-License-Identifier: Apache-2.0
"""Environments that tests of real engines run in."""

import pytest

from engines.registry import ENGINES
from runners.environments import EngineEnvironment, Recipe, ensure, recipes
from runners.preflight import machine_complaints


def light_environment() -> EngineEnvironment:
    """Of llama.cpp, alone and in Triton."""
    return made_or_skipped(recipes()["llamacpp"])


def made_or_skipped(recipe: Recipe) -> EngineEnvironment:
    """Made where it is not there; where this machine cannot run a Triton in it, the test is skipped."""
    complaints = machine_complaints(ENGINES["triton_llamacpp"], recipe)
    if complaints:
        pytest.skip("; ".join(complaints))
    return ensure(recipe, print)
