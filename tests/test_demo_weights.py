# SPDX-License-Identifier: Apache-2.0
"""Demo checkpoints: the bits of bfloat16, and weights that come back as they were drawn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from runners.demo_shapes import SHAPES
from runners.demo_weights import Head, Tensor, as_bfloat16, layout, save


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (-2.0, 0xC000),
        (1.00390625, 0x3F81),  # 1 + 1/256 lies half way to 1 + 1/128
        (1.0039, 0x3F80),
        (0.0, 0x0000),
    ],
)
def test_bfloat16(value: float, bits: int) -> None:
    assert as_bfloat16(np.array([value], dtype=np.float32)).tolist() == [bits]


def test_the_head_adds_up_the_words_before() -> None:
    embedding = Tensor((4, 8), 1.0)
    drawn = embedding.draw()
    head = Head(embedding, {0: [1, 2], 3: [2]}).draw()
    assert head.tolist() == [[0.0] * 8, drawn[0].tolist(), (drawn[0] + drawn[3]).tolist(), [0.0] * 8]


def test_written_and_read_back(tmp_path: Path) -> None:
    shape = replace(SHAPES["demo"], layers=5, vocabulary=100)
    save(tmp_path, layout(shape, {}), "float32")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert [path.name for path in files] == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    with safe_open(files[2], "numpy") as last:
        assert len(last.keys()) == 9
        weight = last.get_tensor("model.layers.4.mlp.down_proj.weight")
    assert np.array_equal(weight, Tensor((256, 704), 0.6 / 256 * (4 / 5) ** 0.5, 1 + 4 * 7 + 6).draw())
