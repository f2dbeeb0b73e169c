# SPDX-License-Identifier: Apache-2.0
"""The process of one comparison: `bakeoff compare` in a session of its own, which need not end with the service.

What it says, and its exit code, go to files and not to the service, so that it outlives a service that was killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from runners.service.settings import AtEnd

PR_SET_PDEATHSIG: Final = 1
SAID: Final = "said.log"
CODE: Final = "code"
CONFIG: Final = "config.yaml"


@dataclass(frozen=True)
class Child:
    """A process by its number and the time at which it was made, as a service that comes later finds it."""

    pid: int
    created: float

    def alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < 1.0
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def end(self) -> None:
        """As Ctrl-C: it ends its engines and keeps finished lives."""
        if self.alive():
            os.kill(self.pid, signal.SIGTERM)


def start(job_folder: Path, out: Path, *, resume: bool, at_end: AtEnd) -> tuple[Child, subprocess.Popen[bytes]]:
    """Start the comparison of the config in a job's folder. To be called from the main thread: the kernel ends a child
    with the thread that started it."""
    (job_folder / CODE).unlink(missing_ok=True)
    command = [sys.executable, "-m", "runners.service.child", str(job_folder / CODE)]
    command += [str(os.getpid() if at_end == "end" else 0), "compare", str(job_folder / CONFIG)]
    command += ["--out", str(out), "--wait", *(["--resume"] if resume else [])]
    environment = {name: value for name, value in os.environ.items() if name != "BAKEOFF_TOKEN"}
    with (job_folder / SAID).open("ab") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True
        )
    return Child(process.pid, psutil.Process(process.pid).create_time()), process


def exit_code(job_folder: Path) -> int | None:
    """How the comparison ended; None where it was killed."""
    try:
        return int((job_folder / CODE).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def main(code_file: Path, service: int, arguments: list[str]) -> int:
    """Runs a command; with a `service`, this process is asked to end when that one does."""
    from runners.cli import app

    if service:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != service:
            return 130
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began, code = time.time(), 1
    try:
        app(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    finally:
        part = code_file.with_suffix(f".{began}")
        part.write_text(str(code), encoding="utf-8")
        part.rename(code_file)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
