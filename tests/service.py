# SPDX-License-Identifier: Apache-2.0
"""The service over a folder of made results, asked in this process."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from starlette.testclient import TestClient

from runners.node_lock import node_held, node_holder
from runners.service.app import build
from runners.service.settings import Settings

LIGHT: dict[str, Any] = {
    "name": "pair",
    "checkpoint": "demo",
    "knobs": {"max_model_len": 256, "max_num_seqs": 4, "dtype": "float32"},
    "contenders": [
        {"name": "direct", "engine": "llamacpp_openai"},
        {"name": "triton", "engine": "triton_llamacpp"},
    ],
    "workloads": [
        {
            "name": "w",
            "input_tokens": {"low": 60, "high": 70},
            "output_tokens": {"low": 6, "high": 10},
            "concurrency": [1, 2],
        }
    ],
    "blocks": 2,
    "window_s": 0.3,
    "idle_limit_s": 20,
    "start_limit_s": 60,
}


def light(**changes: Any) -> str:
    """The light pair's config, with changes."""
    return str(yaml.safe_dump({**LIGHT, **changes}))


@contextmanager
def served(results: Path, **settings: Any) -> Iterator[TestClient]:
    """The service, with whose node somebody else is busy: what is queued stays queued."""
    results.mkdir(exist_ok=True)
    app = build(Settings(results, **settings))
    with ExitStack() as held:
        if node_holder() is None:
            held.enter_context(node_held("something else", print))
        yield held.enter_context(TestClient(app, base_url="http://127.0.0.1:8600"))


def mark_of(client: TestClient, path: str = "/") -> str:
    """What a page's forms have to send back."""
    text = client.get(path).text
    return text.split('name="mark" value="')[1].split('"')[0]
