# SPDX-License-Identifier: Apache-2.0
"""What the operator of the service said at its start."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from runners.errors import MendableError

Allowance = Literal["extra", "environment", "compose", "attach", "hub"]
ALLOWANCES: Final[tuple[str, ...]] = get_args(Allowance)
AfterRestart = Literal["resume", "interrupt"]
AtEnd = Literal["leave", "end"]
STATE: Final = ".service"
FEWEST_CHARACTERS: Final = 16


class SettingsError(MendableError):
    """A service that must not be started like that."""


@dataclass(frozen=True)
class Settings:
    """`results` holds one folder a run, `models` are the folders that checkpoints and files of prompts may lie in.

    `token` is what everybody has to show; None only on loopback. `allow` are the kinds of config that may come over
    the web though they name commands, folders or hosts. `names` are further names of this host that browsers may use.
    `at_end`: whether a comparison under way goes on when the service ends. `most_hours` caps one comparison.
    """

    results: Path
    models: tuple[Path, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8600
    token: str | None = None
    allow: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    after_restart: AfterRestart = "resume"
    at_end: AtEnd = "leave"
    most_hours: float = 24.0
    most_upload_bytes: int = 512 * 2**20
    most_runs_queued: int = 100

    @property
    def state(self) -> Path:
        """What must outlive the service, beside the results."""
        return self.results / STATE

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def hosts(self) -> frozenset[str] | None:
        """What `Host` may say, against pages elsewhere that rebind their name to this address; None is anything."""
        if not self.loopback and not self.names:
            return None
        own = ("localhost", "127.0.0.1", "[::1]", f"[{self.host}]" if ":" in self.host else self.host)
        return frozenset(name.lower() for name in (*own, *self.names))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked(settings: Settings) -> Settings:
    """The settings, if a service may be started with them. Raises SettingsError."""
    if settings.token is None and not settings.loopback:
        raise SettingsError(
            f"--host {settings.host} can be reached from elsewhere, which takes a token; "
            "set BAKEOFF_TOKEN or --token-file, or stay on 127.0.0.1"
        )
    if settings.token is not None and len(settings.token) < FEWEST_CHARACTERS:
        raise SettingsError(f"the token has fewer than {FEWEST_CHARACTERS} characters; take a longer one")
    unknown = sorted(settings.allow - set(ALLOWANCES))
    if unknown:
        raise SettingsError(f"--allow {unknown[0]}: unknown; say {', '.join(ALLOWANCES)}")
    for folder in settings.models:
        if not folder.is_dir():
            raise SettingsError(f"--models {folder}: there is no such folder")
    return settings


def after_restart_of(text: str) -> AfterRestart:
    """Raises SettingsError."""
    if text in ("resume", "interrupt"):
        return "resume" if text == "resume" else "interrupt"
    raise SettingsError(f"--after-restart {text}: unknown; say resume or interrupt")


def at_end_of(text: str) -> AtEnd:
    """Raises SettingsError."""
    if text in ("leave", "end"):
        return "leave" if text == "leave" else "end"
    raise SettingsError(f"--at-end {text}: unknown; say leave or end")
