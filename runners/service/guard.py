# SPDX-License-Identifier: Apache-2.0
"""Stands before everything: whose pages may send something here, who somebody is, how much may be sent.

Written on ASGI itself, so that streams pass through as they are.
"""

from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runners.service.keys import Keys
from runners.service.problems import Problem, problem_response
from runners.service.settings import Settings

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
OPEN_PATHS: Final = ("/login", "/static/", "/health")
UPLOADS: Final = ("/api/v1/bundles", "/bundles")
MOST_BODY: Final = 2**20
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Middleware; refuses with problem documents."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys) -> None:
        self._app, self._settings, self._keys = app, settings, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, guarded = Headers(scope=scope), _with_headers(send)
        try:
            self._check_host(headers)
            self._check_origin(scope["method"], headers)
            limit = self._limit(scope["path"])
            _check_length(headers, limit)
            self._check_token(scope, headers)
        except _LoginFirstError:
            wanted = quote(scope["path"], safe="/")
            await RedirectResponse(f"/login?next={wanted}", 303)(scope, receive, guarded)
            return
        except Problem as problem:
            answer = problem_response(problem.status_code, problem.detail, problem.errors, dict(problem.headers or {}))
            await answer(scope, receive, guarded)
            return
        await self._app(scope, _counted(receive, limit), guarded)

    def _check_host(self, headers: Headers) -> None:
        """A page elsewhere can have its name lead to this address, and then reads what it likes; its name it keeps."""
        allowed = self._settings.hosts
        name = headers.get("host", "").lower()
        host = name.rsplit(":", 1)[0] if not name.endswith("]") else name
        if allowed is not None and host not in allowed:
            known = ", ".join(sorted(allowed))
            raise Problem(421, f"this service is not {name!r}; use {known}, or have it started with --name")

    def _check_origin(self, method: str, headers: Headers) -> None:
        if method in SAFE:
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        foreign = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        if foreign or site not in (None, "same-origin", "none"):
            raise Problem(403, "this was sent by a page of another site; send it from this service's own pages")

    def _limit(self, path: str) -> int:
        return self._settings.most_upload_bytes if path in UPLOADS else MOST_BODY

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if self._settings.token is None or path.startswith(OPEN_PATHS):
            return
        if self._keys.cookie_holds(headers.get("cookie", "")):
            return
        client = (scope.get("client") or ("unknown",))[0]
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            self._keys.check_token(given.strip(), client)
            return
        if path.startswith("/api/"):
            raise Problem(401, "a token is needed: Authorization: Bearer TOKEN", headers={"WWW-Authenticate": "Bearer"})
        raise _LoginFirstError


class _LoginFirstError(Exception):
    """A page is asked for by somebody who has not logged in."""


def _check_length(headers: Headers, limit: int) -> None:
    told = headers.get("content-length", "0")
    if not told.isascii() or not told.isdigit():
        raise Problem(400, "Content-Length is no number")
    if int(told) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> Problem:
    return Problem(413, f"more than {limit} bytes; send less, or have the service started with --most-upload-mb")


def _counted(receive: Receive, limit: int) -> Receive:
    """For bodies that do not say how long they are."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                if name not in headers:
                    headers[name] = value
        await send(message)

    return guarded
