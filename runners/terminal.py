# SPDX-License-Identifier: Apache-2.0
"""How every command speaks on a terminal, and how it ends."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer


def progress() -> Callable[[str], None]:
    """Progress on standard error, with the time since the start."""
    began = time.monotonic()

    def say(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"[{minutes:02d}:{seconds:02d}] {text}", file=sys.stderr, flush=True)

    return say


@contextmanager
def refusals(code: int = 1) -> Iterator[None]:
    """Errors that a user can mend are one message and exit code 1, or `code`; an interrupt is exit code 130.

    A request to end (SIGTERM, SIGHUP) is treated as Ctrl-C, so that no engine outlives the tool.
    """
    from runners.errors import MendableError

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, --resume goes on from there", file=sys.stderr)
        raise typer.Exit(130) from None
    except MendableError as error:
        before = None if error.__suppress_context__ else error.__context__
        for told in (error, before):
            if isinstance(told, MendableError):
                print(f"bakeoff: {told}", file=sys.stderr)
        raise typer.Exit(code) from None


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
