# SPDX-License-Identifier: Apache-2.0
"""The order in which lives run."""

import yaml

from runners.cells import expand
from runners.config import parse_config
from tests.test_config import GOOD


def test_blocks_rotate_and_hold_every_cell() -> None:
    workloads = [{**GOOD["workloads"][0], "rates": [0.5]}]
    text = yaml.safe_dump({**GOOD, "blocks": 3, "workloads": workloads})
    lives = expand(parse_config(text, "x"))
    assert [(life.block, life.position, life.contender.name) for life in lives] == [
        (1, 1, "a"),
        (1, 2, "b"),
        (2, 1, "b"),
        (2, 2, "a"),
        (3, 1, "a"),
        (3, 2, "b"),
    ]
    assert [cell.name for cell in lives[0].cells] == ["w-c1", "w-c2", "w-r0.5"]
    assert lives[2].name == "b02-b"
