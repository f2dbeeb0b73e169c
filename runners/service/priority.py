# SPDX-License-Identifier: Apache-2.0
"""Work of the service that takes a processor: on threads that stand back for what is being measured."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

WORKERS: Final = 2
LOWEST: Final = 19
P = ParamSpec("P")
T = TypeVar("T")


class Backroom:
    """A few threads of the lowest priority. Linux has a priority for each thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, "backroom", initializer=_stand_back)

    async def do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _stand_back() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
