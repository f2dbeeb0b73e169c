# SPDX-License-Identifier: Apache-2.0
"""How accurate and how cheap the client is, against a server that logs when it really wrote each event.

    python benchmarks/client.py TRUTHSERVER_FOLDER

The folder holds truthserver.c, which is built if need be. Its log and the client's traces are on the same
clock, CLOCK_MONOTONIC, and are joined request by request. Errors are the client's figure minus the true
one: TTFT from due to the first token against the server's own from the request's arrival to its write.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

PEERS = """
| client | TTFT error p50 / p99 ms, 64 streams | CPU s per 1M events | start-up s |
|---|---|--:|--:|
| perf_analyzer 2.60 | 0.35 / 8.2 | 51 | 1.0 |
| inference-perf 0.7.0 | 1.1 / 9.6 | 257 | 10.2 |
| aiperf 0.13.0 | 13 / 114 | 327 | 11.0 |
| guidellm 0.8.1 | 6.4 / 82 | 1000 | 18.0 |
| vLLM bench serve 0.32 | 24 / 81 | 33 | 22.7 |
"""


@dataclass(frozen=True)
class Case:
    """One run: `hogs` busy processes beside it; TTFT counts from `since`."""

    name: str
    dialect: str = "openai"
    streams: int = 64
    requests: int = 640
    itl_ms: int = 20
    hogs: int = 0
    since: str = "due_ns"


CASES = (
    Case("completions, 64 streams, 20 ms"),
    Case("the same beside two busy processes", hogs=2),
    Case("chat", dialect="openai-chat"),
    Case("Triton HTTP", dialect="triton-ensemble"),
    Case("1,024 streams, 20 ms", streams=1024, requests=4096, since="sent_ns"),
    Case("64 streams, 2 ms", requests=6400, itl_ms=2),
)


@contextmanager
def truthserver(folder: Path, log: Path, case: Case) -> Iterator[str]:
    """A running server; the log is whole once it has ended."""
    subprocess.run(["make", "-s"], cwd=folder, check=True)
    port_file = log.with_suffix(".port")
    command = [str(folder / "truthserver"), "--port", "0", "--port-file", str(port_file), "--ttft", "100"]
    options = ["--itl", str(case.itl_ms), "--jsonl", str(log)]
    server = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (port_file.exists() and port_file.read_text().strip()):
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port_file.read_text().strip()}"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def busy(count: int) -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def options(case: Case) -> list[str]:
    load = ["--streams", str(case.streams), "--requests", str(case.requests), "--max-tokens", "64"]
    return ["--dialect", case.dialect, "--model", "truth", *load]


def drive(url: str, options: list[str], out: Path) -> tuple[dict[str, Any], float, float]:
    """Summary, CPU seconds and wall seconds of the whole command."""
    command = [sys.executable, "-m", "runners", "drive", url, *options, "--out", str(out), "--json"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), cpu_s, time.monotonic() - began


def errors_ms(out: Path, log: Path, since: str) -> tuple[pd.Series, pd.Series]:
    """Errors of TTFT and of gaps between events with tokens, in milliseconds."""
    truth = {}
    for line in log.read_text().splitlines():
        record = json.loads(line)
        truth[record["request_id"]] = (record["t_kernel"], [c[0] for c in record["chunks"] if c[2] == 0 and c[3]])
    ttft, gaps = [], []
    for row in pd.read_parquet(out / "traces.parquet").to_dict("records"):
        arrived, written = truth[row["request_id"]]
        seen = list(row["event_ns"])
        assert len(seen) == len(written), f"{len(seen)} events seen, {len(written)} written"
        ttft.append((seen[0] - row[since]) - (written[0] - arrived))
        for i in range(1, len(seen)):
            gaps.append((seen[i] - seen[i - 1]) - (written[i] - written[i - 1]))
    return pd.Series(ttft) / 1e6, pd.Series(gaps) / 1e6


def row(case: Case, folder: Path) -> str:
    with tempfile.TemporaryDirectory() as place:
        log, out = Path(place) / "truth.jsonl", Path(place) / "out"
        with truthserver(folder, log, case) as url, busy(case.hogs):
            summary, cpu_s, _ = drive(url, options(case), out)
        ttft, gap = (series.abs() for series in errors_ms(out, log, case.since))
    client = summary["client"]
    per_million = cpu_s / summary["events"] * 1e6
    return (
        f"| {case.name} | {ttft.median():.3f} / {ttft.quantile(0.99):.3f} | {gap.quantile(0.99):.3f} | "
        f"{1 - client['slot_idle_share']:.1%} | {per_million:.0f} | {summary['failed']} |"
    )


def start_up_s(folder: Path) -> float:
    """Wall time of a run of one request, less what that request took."""
    case = Case("start-up", streams=1, requests=1)
    with tempfile.TemporaryDirectory() as place, truthserver(folder, Path(place) / "truth.jsonl", case) as url:
        summary, _, wall_s = drive(url, options(case), Path(place) / "out")
    return wall_s - float(summary["e2e_s"]["p50"])


def main(folder: Path) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| case | TTFT error p50 / p99 ms | gap error p99 ms | slots busy | CPU s per 1M events | failed |")
    print("|---|---|--:|--:|--:|--:|")
    for case in CASES:
        print(row(case, folder), flush=True)
    print(f"\nstart-up {start_up_s(folder):.2f} s")
    print("\nPeers, measured apart on a machine of the same kind:")
    print(PEERS)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
