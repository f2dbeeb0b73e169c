# SPDX-License-Identifier: Apache-2.0
"""What all pages have in common: their frame, and that their forms come from here."""

from pathlib import Path
from typing import Any, Final

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse

from runners.service.keys import FORM
from runners.service.rooms import rooms_of

HERE: Final = Path(__file__).parent
templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(request: Request, name: str, code: int = 200, **values: Any) -> HTMLResponse:
    """A page with what all of them have; its forms carry the browser's own mark."""
    rooms = rooms_of(request)
    mine, mark = rooms.keys.form_value(request.headers.get("cookie", ""))
    html = templates.get_template(name).render(
        marked=lambda: Markup('<input type="hidden" name="mark" value="{}">').format(mark),
        path=request.url.path,
        guarded=rooms.settings.token is not None,
        **values,
    )
    answer = HTMLResponse(html, code)
    answer.set_cookie(FORM, mine, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


async def sent(request: Request, files: int = 0) -> FormData:
    """A form's fields, if a page of ours made it. Raises Problem."""
    form = await request.form(max_files=files, max_fields=60)
    rooms_of(request).keys.check_form(request.headers.get("cookie", ""), str(form.get("mark", "")))
    return form
