# SPDX-License-Identifier: Apache-2.0
"""Who may come in: the token, the cookie that stands for it, and the mark that a form came from a page of ours."""

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final

from runners.service.problems import Problem

SESSION: Final = "bakeoff_session"
FORM: Final = "bakeoff_form"
SESSION_S: Final = 7 * 24 * 3600
MOST_FAILURES: Final = 5
FAILURES_S: Final = 60.0
MOST_CLIENTS: Final = 10_000


class Keys:
    """`clock` gives seconds since the epoch. The secret is the service's own; with another token, cookies made before
    hold no more."""

    def __init__(self, token: str | None, secret: bytes, clock: Callable[[], float]) -> None:
        self._token, self._clock = token, clock
        self._key = hashlib.sha256(secret + b"\0" + (token or "").encode()).digest()
        self._failures: dict[str, deque[float]] = {}

    def check_token(self, given: str, client: str) -> None:
        """Raises Problem: 401 for a wrong one, 429 after several wrong ones from the same address."""
        self._check_rate(client)
        if self._token is None or not hmac.compare_digest(given.encode(), self._token.encode()):
            self._failures.setdefault(client, deque()).append(self._clock())
            raise Problem(401, "this is not the token", headers={"WWW-Authenticate": "Bearer"})

    def _check_rate(self, client: str) -> None:
        now = self._clock()
        if len(self._failures) > MOST_CLIENTS:
            self._failures = {who: when for who, when in self._failures.items() if when[-1] > now - FAILURES_S}
        failures = self._failures.get(client, deque())
        while failures and failures[0] <= now - FAILURES_S:
            failures.popleft()
        if len(failures) >= MOST_FAILURES:
            wait = int(failures[0] + FAILURES_S - now) + 1
            raise Problem(429, f"too many wrong tokens; try again in {wait} s", headers={"Retry-After": str(wait)})

    def new_cookie(self) -> str:
        """A session's value: when it ends, and our mark on that."""
        until = str(int(self._clock()) + SESSION_S)
        return f"{until}.{self._mark('session', until)}"

    def cookie_holds(self, header: str) -> bool:
        until, _, mark = _cookie(header, SESSION).partition(".")
        if not hmac.compare_digest(mark.encode(), self._mark("session", until).encode()):
            return False
        return until.isdigit() and int(until) > self._clock()

    def form_value(self, header: str) -> tuple[str, str]:
        """A browser's own random value, made now if it has none, and what its forms have to send back."""
        mine = _cookie(header, FORM)
        if len(mine) != 32 or not mine.isalnum():
            mine = secrets.token_hex(16)
        return mine, self._mark("form", mine)

    def check_form(self, header: str, sent: str) -> None:
        """Raises Problem where a form did not come from a page that this browser was given."""
        mine = _cookie(header, FORM)
        if not mine or not hmac.compare_digest(sent.encode(), self._mark("form", mine).encode()):
            raise Problem(403, "the form is too old or not from here; load the page anew and send it once more")

    def _mark(self, purpose: str, value: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{value}".encode(), hashlib.sha256).hexdigest()


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def kept_secret(path: Path) -> bytes:
    """The service's secret, made at its first start and readable by its user alone."""
    if not path.exists():
        part = path.with_suffix(".part")
        part.touch(0o600)
        part.write_bytes(secrets.token_bytes(32))
        part.rename(path)
    return path.read_bytes()
