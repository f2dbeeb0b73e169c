# SPDX-License-Identifier: Apache-2.0
"""How long the service takes for a page of its list, with a thousand runs in the folder.

python -m benchmarks.service [RUNS]
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from starlette.testclient import TestClient

from runners.service.app import build
from runners.service.settings import Settings
from tests.results_folder import make_folder

REPEATS = 40
PAGES = {
    "first page": "/",
    "last page": "/?page=20",
    "searched": "/?text=run-07&engine=llamacpp_openai",
    "API, 50 runs": "/api/v1/runs",
}


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results"
        make_folder(results / "run-0000")
        for number in range(1, count):
            shutil.copytree(results / "run-0000", results / f"run-{number:04d}")
        began = time.perf_counter()
        with TestClient(build(Settings(results)), base_url="http://127.0.0.1:8600") as client:
            print(f"{count} runs indexed at the start in {time.perf_counter() - began:.1f} s")
            print("| page | median ms | longest ms |\n|---|--:|--:|")
            for name, path in PAGES.items():
                times = [_timed(client, path) for _ in range(REPEATS)]
                print(f"| {name} | {statistics.median(times):.0f} | {max(times):.0f} |")
            time.sleep(2.5)
            print(f"| first page, the folder looked over again | {_timed(client, '/'):.0f} | |")


def _timed(client: TestClient, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
