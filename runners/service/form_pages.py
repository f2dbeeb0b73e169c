# SPDX-License-Identifier: Apache-2.0
"""The form for a new comparison."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from runners.config import ConfigError
from runners.engine_places import engine_places
from runners.places import shipped_configs
from runners.service.api import config_of
from runners.service.form import Asked, asked_of, config_of_form
from runners.service.frame import page, sent
from runners.service.problems import Problem
from runners.service.rooms import Rooms, rooms_of

router: Final = APIRouter(include_in_schema=False)


@router.get("/new")
async def new_page(request: Request, config: str = "", like: str = "") -> Response:
    """Empty, from one of the shipped configs, or from a run's."""
    rooms, shipped = rooms_of(request), _shipped()
    text, asked = "", Asked(engines=("llamacpp_openai", "triton_llamacpp"))
    if config in shipped:
        text = shipped[config].read_text("utf-8")
    elif like:
        text = await config_of(rooms, await rooms.entry(like))
    else:
        text = config_of_form(asked)
    return await _new(request, asked, text)


async def _new(
    request: Request, asked: Asked, text: str, problem: Problem | None = None, status: int = 200
) -> HTMLResponse:
    rooms = rooms_of(request)
    places = await rooms.backroom.do(lambda: tuple(engine_places()))
    return page(
        request,
        "new.html.j2",
        status,
        asked=asked,
        fields=asdict(asked),
        yaml=text,
        problem=problem,
        able={p.engine: p.summary for p in places if not p.complaints},
        models=["demo", *_models(rooms)],
        shipped=list(_shipped()),
        most_hours=rooms.settings.most_hours,
    )


@router.post("/new")
async def submit(request: Request) -> Response:
    """Either the YAML of the form, or the comparison of the YAML."""
    form = await sent(request)
    asked = asked_of(form, tuple(str(value) for value in form.getlist("engines")))
    text = str(form.get("config", ""))
    if form.get("deed") == "yaml":
        text, problem = _made(asked, text)
        return await _new(request, asked, text, problem, 422 if problem else 200)
    hours = str(form.get("most_hours", ""))
    try:
        job = await rooms_of(request).desk.submit(text, _hours(hours))
    except Problem as problem:
        return await _new(request, asked, text, problem, problem.status_code)
    return RedirectResponse(f"/runs/{job.id}", 303)


@router.post("/new/yaml")
async def yaml_of_form(request: Request) -> Response:
    """For the page's script: the YAML of the fields as they are."""
    form = await sent(request)
    asked = asked_of(form, tuple(str(value) for value in form.getlist("engines")))
    text, problem = _made(asked, "")
    return JSONResponse({"config": None if problem else text, "errors": problem.errors if problem else []})


def _made(asked: Asked, before: str) -> tuple[str, Problem | None]:
    try:
        return config_of_form(asked), None
    except ConfigError as error:
        return before, Problem(422, "the form is not complete", str(error).splitlines())


def _hours(text: str) -> float | None:
    try:
        hours = float(text) if text else None
    except ValueError:
        hours = -1.0
    if hours is not None and not 0 < hours <= 1000:
        raise Problem(422, f"hours at most: {text[:20]!r} is no number above 0; write 2 or 0.5")
    return hours


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(shipped_configs().glob("*.yaml"))}


def _models(rooms: Rooms) -> list[str]:
    """Checkpoints below the folders that were named at the start."""
    found = {str(path.parent) for root in rooms.settings.models for path in root.glob("**/config.json")}
    return sorted(found)[:200]
