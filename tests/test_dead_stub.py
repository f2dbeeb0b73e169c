# SPDX-License-Identifier: Apache-2.0
"""A real Triton whose model process has died: it stays healthy and answers with HTTP 200."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import httpx
import psutil
import pytest

from engines.contract import Capabilities, Counters, Prompt, Sampling
from engines.launch import Checkpoint, Knobs, Place
from engines.registry import ENGINES
from runners.checkpoint import find_checkpoint
from runners.config_workload import Level, Span, WorkloadConfig
from runners.launch.process import ProcessRunner
from runners.launch.server import Server
from runners.load.drive import drive
from runners.load.fold import Folding, fold_all
from runners.load.load import Driven, Load
from runners.load.transport import Transport, transport_of
from runners.report.summary import Measured, summarize
from tests.live_environments import light_environment

pytestmark = pytest.mark.light

PORT = 18210
ENGINE = ENGINES["triton_llamacpp"]
CAPABILITIES = Capabilities("dying", None, "Triton", None, True, True, True, False)
PROMPT = Prompt("word", 1, 4, True, Sampling())


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[Server]:
    environment = light_environment()
    checkpoint: Checkpoint = find_checkpoint("demo", "test", print)
    place = Place(
        python=environment.python,
        site_packages=environment.site_packages,
        lib_dir=environment.lib_dir,
        python_version=environment.python_version,
        version="",
        folder=str(tmp_path),
        cache=str(tmp_path / "converted"),
        served_name="dying",
        http_port=PORT,
        grpc_port=PORT + 1,
        metrics_port=PORT + 2,
    )
    with ProcessRunner(60.0).up(ENGINE.plan(checkpoint, Knobs(256, 2, dtype="float32"), place), tmp_path) as server:
        yield server


def kill_stub() -> None:
    """Kill the process that holds the model: the child of the Triton that was started here."""
    children = psutil.Process().children(recursive=True)
    (stub,) = (p for p in children if "stub" in p.name())
    stub.kill()


def driven(transport: Transport) -> Driven:
    load = Load(2, 0.0, 0.0, 0.0, 5.0, 10.0, requests=6)
    return drive(load, repeat(PROMPT), lambda p, _: ENGINE.encode(p, CAPABILITIES), transport)


def test_a_cell_against_a_dead_stub_is_all_failure_and_no_throughput(triton: Server) -> None:
    transports = [transport_of(triton.address(name), name) for name in ("http", "grpc")]
    folding = Folding(lambda answer, data: ENGINE.fold(answer, data, CAPABILITIES))
    for transport in transports:
        assert [t.error for t in fold_all(driven(transport), folding)] == [None] * 6
    kill_stub()
    for transport in transports:
        dead = driven(transport)
        traces = fold_all(dead, folding)
        workload = WorkloadConfig(
            name="w", input_tokens=Span(low=1, high=1), output_tokens=Span(low=4, high=4), concurrency=(2,)
        )
        level = Level("concurrency", 2)
        found = summarize(Measured(workload, level, 0.05, dead, traces, CAPABILITIES, Counters(), Counters()))
        assert {str(t.error).removeprefix("HTTP 400: ") for t in traces} == {"Stub process 'dying_0_0' is not healthy."}
        assert (found.requests_done, found.requests_failed) == (0, 6)
        assert not found.output_tokens_per_s
        assert found.output_tokens_per_s_whole_run is None
    assert httpx.get(f"{triton.url}/v2/health/ready").status_code == 200
