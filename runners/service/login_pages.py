# SPDX-License-Identifier: Apache-2.0
"""The way in and out."""

from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from runners.service.frame import page, sent
from runners.service.keys import SESSION, SESSION_S
from runners.service.problems import Problem
from runners.service.rooms import rooms_of

router: Final = APIRouter(include_in_schema=False)


@router.get("/health")
async def health() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


@router.get("/login")
async def ask_login(request: Request, next: str = "/") -> Response:  # noqa: A002
    return page(request, "login.html.j2", next=_inside(next), complaint=None)


@router.post("/login")
async def login(request: Request) -> Response:
    """The token once, a cookie from then on."""
    form, keys = await sent(request), rooms_of(request).keys
    wanted = _inside(str(form.get("next", "/")))
    try:
        keys.check_token(str(form.get("token", "")), request.client.host if request.client else "unknown")
    except Problem as problem:
        answer: Response = page(request, "login.html.j2", problem.status_code, next=wanted, complaint=problem.detail)
        answer.headers.update({k: v for k, v in (problem.headers or {}).items() if k == "Retry-After"})
        return answer
    answer = RedirectResponse(wanted, 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(SESSION, keys.new_cookie(), SESSION_S, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    await sent(request)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION)
    return answer


def _inside(wanted: str) -> str:
    """A path of this service, and never an address elsewhere."""
    parts = urlsplit(wanted)
    inside = not parts.scheme and not parts.netloc and wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if inside and wanted.isprintable() else "/"
