# SPDX-License-Identifier: Apache-2.0
"""The shapes in which the demo checkpoint can be made: its own small one, and those of known models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Shape:
    """The size of a Llama. `vocabulary` is that of its matrices, `context` the longest sequence, in tokens."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    intermediate: int
    vocabulary: int
    context: int
    rope_theta: float
    dtype: str


SHAPES: Final[Mapping[str, Shape]] = {
    "demo": Shape(256, 4, 4, 2, 64, 704, 4096, 2048, 10_000.0, "float32"),
    "demo-llama-3.2-3b": Shape(3072, 28, 24, 8, 128, 8192, 128_256, 8192, 500_000.0, "bfloat16"),
    "demo-llama-3.1-8b": Shape(4096, 32, 32, 8, 128, 14_336, 128_256, 8192, 500_000.0, "bfloat16"),
}
"""By the name that a config gives. Sizes: config.json of meta-llama/Llama-3.2-3B and meta-llama/Llama-3.1-8B; the
context is shorter, and the 3B's head is a matrix of its own (0.4 B more parameters, no more work)."""
