# SPDX-License-Identifier: Apache-2.0
"""A config that was sent, checked as `bakeoff plan` would, before anything is queued."""

from dataclasses import dataclass

from runners.cells import expand
from runners.checkpoint import HUB_ID
from runners.config import Bakeoff
from runners.service.policy import web_config
from runners.service.settings import Settings
from runners.session import check_contenders, open_session

SOURCE = "config"
REST_S = 30.0
"""Of a life, beside its windows: start, checks, end."""


@dataclass(frozen=True)
class Checked:
    """A config that can run here. `minutes` is a guess from windows and usual starts; `thorough`: knobs, lengths and
    launches were planned too, which takes environments that have been made and a checkpoint that is here."""

    bakeoff: Bakeoff
    lives: int
    cells: int
    minutes: float
    thorough: bool


def check(text: str, settings: Settings) -> Checked:
    """Raises ConfigError and what else a session raises; starts, makes and fetches nothing big."""
    bakeoff = web_config(text, SOURCE, settings)
    thorough = check_contenders(bakeoff, SOURCE) and not _away(bakeoff)
    if thorough:
        open_session(text, SOURCE, _quiet, starts=False)
    lives = expand(bakeoff)
    cells = sum(len(life.cells) for life in lives)
    seconds = len(lives) * REST_S + cells * (1.4 * bakeoff.window_s + 2)
    return Checked(bakeoff, len(lives), cells, seconds / 60, thorough)


def _away(bakeoff: Bakeoff) -> bool:
    """Some checkpoint may have to be fetched first."""
    named = [bakeoff.checkpoint, *(c.checkpoint for c in bakeoff.contenders if c.checkpoint)]
    return any(HUB_ID.match(name) for name in named)


def _quiet(_text: str) -> None:
    return None
