# SPDX-License-Identifier: Apache-2.0
"""Draws the demo checkpoint's matrices and writes them: seeded, whatever the number of processors."""

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from runners.demo_shapes import Shape

SEED: Final = 20261130
LAYERS_A_FILE: Final = 4


@dataclass(frozen=True)
class Tensor:
    """One matrix (or vector) of the checkpoint, drawn when it is written: normal with `deviation`, else ones."""

    shape: tuple[int, ...]
    deviation: float | None
    number: int = 0

    def draw(self) -> Any:
        """float32, by its own number, so that tensors can be drawn side by side."""
        import numpy as np

        if self.deviation is None:
            return np.ones(self.shape, dtype=np.float32)
        values = np.random.default_rng((SEED, self.number)).standard_normal(self.shape, dtype=np.float32)
        values *= np.float32(self.deviation)
        return values


@dataclass(frozen=True)
class Head:
    """The output matrix: the row of a word is the sum of the embeddings of the words that it may follow."""

    embedding: Tensor
    followers: Mapping[int, list[int]]

    def draw(self) -> Any:
        """float32."""
        import numpy as np

        embedding = self.embedding.draw()
        head = np.zeros_like(embedding)
        for word, followers in self.followers.items():
            for follower in followers:
                head[follower] += embedding[word]
        return head


def layout(shape: Shape, followers: Mapping[int, list[int]]) -> Iterator[dict[str, Tensor | Head]]:
    """The tensors of each file: ends first, then some layers at a time.

    However many the layers, what they add to an embedding is about as large as itself.
    """
    inward, outward = 1.0 / shape.hidden**0.5, 0.6 / shape.hidden * (4 / shape.layers) ** 0.5
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    embedding = Tensor((shape.vocabulary, shape.hidden), inward)
    yield {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": Tensor((shape.hidden,), None),
        "lm_head.weight": Head(embedding, followers),
    }
    matrices = {
        "self_attn.q_proj": (queries, shape.hidden, inward),
        "self_attn.k_proj": (keys, shape.hidden, inward),
        "self_attn.v_proj": (keys, shape.hidden, inward),
        "self_attn.o_proj": (shape.hidden, queries, outward),
        "mlp.gate_proj": (shape.intermediate, shape.hidden, inward),
        "mlp.up_proj": (shape.intermediate, shape.hidden, inward),
        "mlp.down_proj": (shape.hidden, shape.intermediate, outward),
    }
    for first in range(0, shape.layers, LAYERS_A_FILE):
        found: dict[str, Tensor | Head] = {}
        for layer in range(first, min(shape.layers, first + LAYERS_A_FILE)):
            prefix = f"model.layers.{layer}."
            for name in ("input_layernorm", "post_attention_layernorm"):
                found[f"{prefix}{name}.weight"] = Tensor((shape.hidden,), None)
            for number, (name, (rows, columns, deviation)) in enumerate(matrices.items(), 1 + layer * len(matrices)):
                found[f"{prefix}{name}.weight"] = Tensor((rows, columns), deviation, number)
        yield found


def save(folder: Path, files: Iterator[dict[str, Tensor | Head]], dtype: str) -> None:
    """Draw tensors on all processors and write them as safetensors with their index, a file at a time."""
    from safetensors import TensorSpec, serialize_file

    store = as_bfloat16 if dtype == "bfloat16" else _as_it_is
    parts = list(files)
    places: dict[str, str] = {}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for number, tensors in enumerate(parts, 1):
            name = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
            drawn = dict(zip(tensors, threads.map(partial(_drawn, store), tensors.values()), strict=True))
            specs = {
                key: TensorSpec(dtype=dtype, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes)
                for key, a in drawn.items()
            }
            serialize_file(specs, folder / name, metadata={"format": "pt"})
            places |= dict.fromkeys(drawn, name)
    index = json.dumps({"metadata": {}, "weight_map": places}, indent=2)
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")


def _drawn(store: Any, tensor: Tensor | Head) -> Any:
    return store(tensor.draw())


def _as_it_is(values: Any) -> Any:
    return values


def as_bfloat16(values: Any) -> Any:
    """The upper halves of float32 values, rounded half up in magnitude, as bits in uint16: NumPy has no bfloat16."""
    import numpy as np

    bits = values.view(np.uint32)
    bits += np.uint32(0x8000)
    return (bits >> np.uint32(16)).astype(np.uint16)
