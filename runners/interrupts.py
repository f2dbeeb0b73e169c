# SPDX-License-Identifier: Apache-2.0
"""Requests to end, put off or passed over where they would be lost or do harm.

A handler that raises inside a finalizer is told on standard error and forgotten, and a collection runs
finalizers: an interrupt that came during one went unheard.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred() -> Iterator[None]:
    """Signals that ask to end arrive at the end of the block. Other threads than the main one get none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: Any) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C pressed once more, or another request to end, must not leave half of an engine behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
