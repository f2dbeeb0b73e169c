# SPDX-License-Identifier: Apache-2.0
"""Runs a launcher that returns at once, and lives as long as what it started: keep.py COMMAND...

Orphans of the launcher become children of this process. A request to end goes to all of them; the exit code is
that of the first that ends badly.
"""

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def children() -> list[int]:
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def pass_on(number: int, _frame: object) -> None:
    for pid in children():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def reap() -> int:
    """Wait for every child, adopted ones too."""
    worst = 0
    while True:
        try:
            _, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return worst
        worst = worst or abs(os.waitstatus_to_exitcode(status))


def main(command: list[str]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    launcher = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    code = launcher.wait()
    return code or reap()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
