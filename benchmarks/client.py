# SPDX-License-Identifier: Apache-2.0
"""How accurate and how cheap the client is, against a server that logs when it really wrote each event.

    python benchmarks/client.py TRUTHSERVER_FOLDER

The folder holds truthserver.c, which is built if need be. Its log and the client's traces are on the same
clock, CLOCK_MONOTONIC, and are joined request by request. Errors are the client's figure minus the true
one: TTFT from due to the first token against the server's own from the request's arrival to its write.
"""

import json
import os
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

from runners.load.spool import IN_MEMORY

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


LONG = Case("a million events", streams=256, requests=15_360, itl_ms=10)


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


@dataclass(frozen=True)
class Drove:
    """A finished command: its summary, and what it took. `first_sent_s` runs from its start to its first request."""

    summary: dict[str, Any]
    cpu_s: float
    wall_s: float
    peak_bytes: int
    first_sent_s: float


def drive(url: str, options: list[str], out: Path) -> Drove:
    """Run `bakeoff drive`. Raises RuntimeError where it fails."""
    command = [sys.executable, "-m", "runners", "drive", url, *options, "--out", str(out), "--json"]
    began_ns = time.monotonic_ns()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = (time.monotonic_ns() - began_ns) / 1e9
    if process.returncode:
        raise RuntimeError(f"bakeoff drive ended with {process.returncode}")
    sent_ns = pd.read_parquet(out / "traces.parquet", columns=["sent_ns"])["sent_ns"].min()
    cpu_s = usage.ru_utime + usage.ru_stime
    return Drove(json.loads(said), cpu_s, wall_s, usage.ru_maxrss << 10, (sent_ns - began_ns) / 1e9)


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
            drove = drive(url, options(case), out)
        ttft, gap = (series.abs() for series in errors_ms(out, log, case.since))
    client, events = drove.summary["client"], drove.summary["events"]
    return (
        f"| {case.name} | {ttft.median():.3f} / {ttft.quantile(0.99):.3f} | {gap.quantile(0.99):.3f} | "
        f"{1 - client['slot_idle_share']:.1%} | {drove.cpu_s / events * 1e6:.0f} | {drove.summary['failed']} |"
    )


def alone(case: Case, folder: Path) -> Drove:
    """A case without a look at the log."""
    with tempfile.TemporaryDirectory() as place, truthserver(folder, Path(place) / "truth.jsonl", case) as url:
        return drive(url, options(case), Path(place) / "out")


def cost(folder: Path) -> str:
    """Start-up, memory and CPU. A child's peak is never below its parent's size, so this comes before
    anything large is read here."""
    one = alone(Case("one request", streams=1, requests=1), folder)
    around_s = one.wall_s - one.first_sent_s - one.summary["e2e_s"]["p50"]
    many = alone(LONG, folder)
    events, received = many.summary["events"], many.summary["received_bytes"]
    kept = min(received, IN_MEMORY)
    return (
        f"start-up {one.first_sent_s:.2f} s to the first request; {around_s:.2f} s from the last token to the end\n"
        f"{events} events, {received >> 20} MiB received, {kept >> 20} MiB of them in memory: "
        f"{(many.peak_bytes - one.peak_bytes - kept) / events:.0f} bytes an event beyond; "
        f"{many.cpu_s / events * 1e6:.0f} s of CPU per 1M events"
    )


def main(folder: Path) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    costs = cost(folder)
    print("| case | TTFT error p50 / p99 ms | gap error p99 ms | slots busy | CPU s per 1M events | failed |")
    print("|---|---|--:|--:|--:|--:|")
    for case in CASES:
        print(row(case, folder), flush=True)
    print(f"\n{costs}")
    print("\nPeers, measured apart on a machine of the same kind:")
    print(PEERS)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
