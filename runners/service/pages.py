# SPDX-License-Identifier: Apache-2.0
"""The pages, rendered here; they work without their script, which only keeps them up to date."""

import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import FormData, UploadFile
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from runners.config import ConfigError
from runners.engine_places import engine_places
from runners.node_lock import node_holder
from runners.places import shipped_configs
from runners.report.decisions_text import decisions_markdown
from runners.report.ledger_text import ledger_markdown
from runners.report.table import as_markdown
from runners.service.api import compared, config_of, run_report
from runners.service.form import Asked, asked_of, config_of_form
from runners.service.keys import FORM, SESSION, SESSION_S
from runners.service.problems import Problem
from runners.service.rooms import Rooms, rooms_of
from runners.service.shelf import logs_of
from runners.service.store import OPEN, UNDER_WAY, Wanted
from runners.service.text import as_html

HERE: Final = Path(__file__).parent
PAGE: Final = 50
STATES: Final = ("running", "queued", "finished", "unfinished", "failed", "cancelled", "interrupted", "stopped")
router = APIRouter(include_in_schema=False)
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


@router.get("/")
async def runs(request: Request) -> Response:
    rooms, query = rooms_of(request), request.query_params
    await rooms.desk.index()
    wanted = Wanted(**{name: query.get(name, "")[:200] for name in Wanted.__dataclass_fields__})
    number = int(query["page"]) if query.get("page", "").isascii() and query.get("page", "").isdecimal() else 1
    number = min(max(1, number), 10**6)
    total, found = rooms.store.listed(wanted, PAGE, (number - 1) * PAGE)
    kept = {name: value for name, value in asdict(wanted).items() if value}
    return page(
        request,
        "runs.html.j2",
        wanted=wanted,
        total=total,
        runs=found,
        number=number,
        pages=max(1, -(-total // PAGE)),
        link=lambda n: "/?" + urlencode({**kept, "page": n}),
        states=STATES,
        models=rooms.store.known("checkpoint"),
        engines=rooms.store.known("engines"),
        gpus=rooms.store.known("gpu"),
        queue=rooms.store.queued(),
        busy=node_holder(),
        under_way=rooms.store.under_way(),
        filtered=bool(kept),
    )


@router.get("/runs/{run}")
async def run_page(request: Request, run: str) -> Response:
    rooms = rooms_of(request)
    entry = await rooms.entry(run)
    status = await rooms.watch.status(entry.id)
    parts: Mapping[str, Any] = {}
    trouble: Problem | None = None
    if entry.lives_done and status.state not in UNDER_WAY:
        try:
            content = await rooms.content(entry)
            parts = {
                "verdicts": as_html(decisions_markdown(content.decisions)),
                "table": as_html(as_markdown(content.rows)),
                "ledger": as_html(ledger_markdown(content.ledger)),
                "comparisons": [c for c in content.decisions.comparisons if c.level is None],
                "blocks": content.decisions.blocks,
            }
        except Problem as problem:
            trouble = problem
    return page(
        request,
        "run.html.j2",
        run=entry,
        status=status,
        open=status.state in OPEN,
        job=rooms.job(entry.id),
        resumable=status.state not in (*OPEN, "finished") and not entry.bundle and not entry.trouble,
        parts=parts,
        trouble=trouble,
        config=await config_of(rooms, entry),
        logs=list(await rooms.backroom.do(logs_of, rooms.folder(entry))),
        busy=node_holder(),
    )


@router.get("/runs/{run}/report")
async def report_page(request: Request, run: str) -> Response:
    return await run_report(rooms_of(request), run)


@router.post("/runs/{run}/{deed}")
async def change_run(request: Request, run: str, deed: str) -> Response:
    """The buttons of a run."""
    await sent(request)
    rooms = rooms_of(request)
    entry, back = await rooms.entry(run), f"/runs/{run}"
    if deed == "cancel":
        rooms.desk.cancel(entry.id)
    elif deed == "resume":
        await rooms.desk.resume(entry.id, None)
    elif deed in ("earlier", "later"):
        rooms.desk.move(entry.id, -1 if deed == "earlier" else 1)
        back = "/#queue"
    else:
        raise Problem(404, "there is no such button")
    return RedirectResponse(back, 303)


@router.post("/bundles")
async def upload(request: Request) -> Response:
    form, rooms = await sent(request, files=1), rooms_of(request)
    file = form.get("bundle")
    try:
        if not isinstance(file, UploadFile) or not file.filename:
            raise Problem(422, "no bundle was chosen; choose the file that `bakeoff bundle` made")
        with tempfile.NamedTemporaryFile(prefix="upload-", dir=rooms.settings.state) as out:
            while piece := await file.read(2**20):
                out.write(piece)
            out.flush()
            run = await rooms.desk.take_bundle(Path(out.name))
    finally:
        await form.close()
    return RedirectResponse(f"/runs/{run}", 303)


@router.get("/diff")
async def diff_page(request: Request, before: str = "", after: str = "", across_environments: bool = False) -> Response:
    rooms = rooms_of(request)
    await rooms.desk.index()
    _, found = rooms.store.listed(Wanted(), 500, 0)
    difference, trouble = None, None
    if before and after:
        try:
            difference = await compared(rooms, before, after, across_environments=across_environments)
        except Problem as problem:
            trouble = problem
    return page(
        request,
        "diff.html.j2",
        before=before,
        after=after,
        across=across_environments,
        choices=[entry for entry, _ in found if entry.lives_done],
        difference=difference,
        trouble=trouble,
    )


@router.get("/engines")
async def engines_page(request: Request) -> Response:
    rooms = rooms_of(request)
    places = await rooms.backroom.do(lambda: tuple(engine_places()))
    return page(
        request,
        "engines.html.j2",
        places=places,
        busy=node_holder(),
        allowed=sorted(rooms.settings.allow),
        models=rooms.settings.models,
    )


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
    if problem:
        return PlainTextResponse("\n".join(problem.errors), 422)
    return PlainTextResponse(text)


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
