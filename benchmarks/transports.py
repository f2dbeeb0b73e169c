# SPDX-License-Identifier: Apache-2.0
"""HTTP and gRPC against one real Triton whose model logs when it sent each token.

    python benchmarks/transports.py

What lies between a token's send in the model and its arrival here is Triton's own way out and the
client's error; Triton's part is there in every row of a transport, the rest tells the clients apart.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd

from benchmarks.client import drive
from engines import model_repository
from engines.launch import Place
from runners.environments import ensure, recipes
from runners.launch.process import ProcessRunner
from runners.launch.server import Server

TTFT_S, GAP_S, TOKENS = 0.1, 0.02, 64
PORT = 18190


@contextmanager
def triton(folder: Path, log: Path) -> Iterator[Server]:
    """Triton with the model of truth_model.py, called "truth"."""
    environment = ensure(recipes()["llamacpp"], lambda text: print(text, file=sys.stderr))
    place = Place(
        python=environment.python,
        site_packages=environment.site_packages,
        lib_dir=environment.lib_dir,
        python_version=environment.python_version,
        version="",
        folder=str(folder),
        cache=str(folder),
        served_name="truth",
        http_port=PORT,
        grpc_port=PORT + 1,
        metrics_port=PORT + 2,
    )
    settings = {"ttft_s": TTFT_S, "gap_s": GAP_S, "log": str(log)}
    launch = model_repository.launch(place, "triton_answers.py", settings, {"PYTHONPATH": f"{folder}/models/truth/1"})
    model = Path(__file__).with_name("truth_model.py").read_text("utf-8")
    launch = replace(launch, files={**launch.files, "models/truth/1/model.py": model})
    with ProcessRunner(60.0).up(launch, folder) as server:
        yield server


def row(server: Server, transport: str, streams: int, log: Path, out: Path) -> str:
    options = ["--transport", transport, "--streams", str(streams), "--requests", str(10 * streams)]
    command = ["--dialect", "triton-vllm", "--model", "truth", "--max-tokens", str(TOKENS), *options]
    drove = drive(server.address(transport), command, out)
    sent = {record["id"]: record["sent_ns"] for record in map(json.loads, log.read_text("utf-8").splitlines())}
    delays, gaps = [], []
    for request in pd.read_parquet(out / "traces.parquet").to_dict("records"):
        truth, seen = sent[request["request_id"]], list(request["event_ns"])
        if len(seen) == len(truth):
            delays += [(there - here) / 1e6 for here, there in zip(truth, seen, strict=True)]
            gaps += [abs(delays[-i] - delays[-i - 1]) for i in range(1, len(truth))]
    delay, gap = pd.Series(delays), pd.Series(gaps)
    events = drove.summary["events"]
    return (
        f"| {transport} | {streams} | {delay.median():.2f} / {delay.quantile(0.99):.2f} | {gap.quantile(0.99):.2f} | "
        f"{len(delays) / events:.0%} | {drove.cpu_s / events * 1e6:.0f} | {drove.summary['failed']} |"
    )


def main() -> None:
    print("| transport | streams | from the model's send to the client p50 / p99 ms | gap error p99 ms | joined "
          "| CPU s per 1M events | failed |")  # fmt: skip
    print("|---|--:|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "truth.jsonl"
        with triton(Path(place) / "triton", log) as server:
            for streams in (1, 8, 32):
                for transport in ("http", "grpc", "grpc-aio"):
                    out = Path(place) / f"{transport}-{streams}"
                    print(row(server, transport, streams, log, out), flush=True)


if __name__ == "__main__":
    main()
