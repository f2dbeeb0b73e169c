# SPDX-License-Identifier: Apache-2.0
"""What a comparison has done, is doing and will do, on a terminal while it runs.

It is drawn anew when something is said, which is between the stretches that are measured and never within one: no
thread of its own takes processor time from the load generator. What is done is read from the results folder.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runners.cells import Cell, Life
from runners.environments import Say
from runners.report.compare import geometric
from runners.report.figures import DASH, number
from runners.report.layout import is_finished, life_folder, unsupported_note

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

LINES_KEPT: Final = 8
MOST_BLOCKS_SHOWN: Final = 12


class LiveView:
    """The plan above the last lines said; `names` are the contenders in the config's order, `now` is in seconds."""

    def __init__(self, lives: Sequence[Life], names: Sequence[str], folder: Path, now: Callable[[], float]) -> None:
        self._lives = lives
        self._names = names
        self._folder = folder
        self._now = now
        self._began = now()
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._rates: dict[Path, float | None] = {}
        self._done_before = sum(is_finished(self._folder, life.name) for life in lives)

    def add(self, text: str) -> None:
        """One more line."""
        minutes, seconds = divmod(int(self._now() - self._began), 60)
        self._lines.append(f"[{minutes:02d}:{seconds:02d}] {text}")

    def drawn(self) -> "RenderableType":
        """All of it as it is now."""
        from rich.console import Group
        from rich.text import Text

        lines = Text("\n".join(self._lines), overflow="ellipsis", no_wrap=True)
        plan, rates = Text("plan, by block", "bold"), Text("output tokens/s so far", "bold")
        return Group(plan, self._plan(), rates, self._rates_so_far(), Text(self._headline(), "bold"), lines)

    def _plan(self) -> "Table":
        """A row for each contender, a column for each block."""
        from rich.table import Table

        blocks = sorted({life.block for life in self._lives})
        shown = self._near(blocks)
        table = Table(box=None, padding=(0, 1))
        table.add_column("")
        for block in shown:
            table.add_column(str(block), justify="center")
        for contender in self._names:
            mine = {life.block: life for life in self._lives if life.contender.name == contender}
            table.add_row(contender, *(self._mark(mine[block]) if block in mine else "" for block in shown))
        return table

    def _near(self, blocks: Sequence[int]) -> Sequence[int]:
        """As many blocks as have room, about the one that runs."""
        undone = next((life.block for life in self._lives if not is_finished(self._folder, life.name)), blocks[-1])
        first = max(0, min(blocks.index(undone) - MOST_BLOCKS_SHOWN // 2, len(blocks) - MOST_BLOCKS_SHOWN))
        return blocks[first : first + MOST_BLOCKS_SHOWN]

    def _mark(self, life: Life) -> str:
        if unsupported_note(self._folder, life.contender.name).exists():
            return DASH
        if is_finished(self._folder, life.name):
            return "[green]done[/]"
        done = sum(self._path(life, cell).exists() for cell in life.cells)
        started = life_folder(self._folder, life.name).exists()
        return f"[bold yellow]{done}/{len(life.cells)}[/]" if started else "[dim]·[/]"

    def _rates_so_far(self) -> "Table":
        """Output tokens per second by load: the mean of the cells that are done."""
        from rich.table import Table

        table = Table(box=None, padding=(0, 1))
        table.add_column("")
        places = dict.fromkeys((c.workload.name, c.level) for life in self._lives for c in life.cells)
        for workload, level in places:
            table.add_column(f"{workload} {level}", justify="right")
        for contender in self._names:
            of_one = [(life, c) for life in self._lives if life.contender.name == contender for c in life.cells]
            found = (
                [self._rate(life, c) for life, c in of_one if (c.workload.name, c.level) == place] for place in places
            )
            table.add_row(contender, *(_mean(rates) for rates in found))
        return table

    def _headline(self) -> str:
        """How far it is, and what is left if it goes on as it went."""
        lives = [life for life in self._lives if not unsupported_note(self._folder, life.contender.name).exists()]
        done = sum(is_finished(self._folder, life.name) for life in lives)
        here = done - self._done_before
        left = f", about {(self._now() - self._began) / here * (len(lives) - done) / 60:.0f} min left" if here else ""
        return f"{done} of {len(lives)} server lives done{left if done < len(lives) else ''}"

    def _path(self, life: Life, cell: Cell) -> Path:
        return life_folder(self._folder, life.name) / f"{cell.name}.json"

    def _rate(self, life: Life, cell: Cell) -> float | None:
        """Of a record, which is read once."""
        path = self._path(life, cell)
        if path not in self._rates and path.exists():
            self._rates[path] = json.loads(path.read_text("utf-8"))["summary"]["output_tokens_per_s"]
        return self._rates.get(path)


def _mean(rates: Sequence[float | None]) -> str:
    mean = geometric([rate for rate in rates if rate])
    return number(mean.value if mean else None, 0)


@contextmanager
def shown(
    lives: Sequence[Life], names: Sequence[str], folder: Path, say: Say, console: "Console | None" = None
) -> Iterator[Say]:
    """A `Say` for as long as the comparison runs: the view on a terminal, else `say` itself, plain lines."""
    from rich.console import Console
    from rich.live import Live

    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield say
        return
    view = LiveView(lives, names, folder, time.monotonic)
    with Live(view.drawn(), console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def tell(text: str) -> None:
            view.add(text)
            live.update(view.drawn(), refresh=True)

        yield tell
        live.update(view.drawn(), refresh=True)
