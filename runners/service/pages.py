# SPDX-License-Identifier: Apache-2.0
"""The pages of runs, rendered here; they work without their script, which only keeps them up to date."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import RedirectResponse, Response

from runners.engine_places import engine_places
from runners.node_lock import node_holder
from runners.report.decisions_text import decisions_markdown
from runners.report.ledger_text import ledger_markdown
from runners.report.table import as_markdown
from runners.service.api import compared, config_of, run_report
from runners.service.frame import page, sent
from runners.service.problems import Problem
from runners.service.rooms import rooms_of
from runners.service.shelf import logs_of
from runners.service.store import OPEN, UNDER_WAY, Wanted
from runners.service.text import as_html

PAGE: Final = 50
STATES: Final = ("running", "queued", "finished", "unfinished", "failed", "cancelled", "interrupted", "stopped")
router: Final = APIRouter(include_in_schema=False)


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
        with rooms.desk.incoming() as out:
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
