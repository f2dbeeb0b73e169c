# SPDX-License-Identifier: Apache-2.0
"""The API, /api/v1: names and forms stay as they are within a version; errors are problem documents."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, StreamingResponse

from runners.bundle import write_bundle
from runners.diff_command import Difference, difference
from runners.engine_places import EnginePlace, engine_places
from runners.errors import MendableError
from runners.node_lock import node_holder
from runners.report.decisions import decisions_json
from runners.report.decisions_text import decisions_markdown
from runners.report.ledger_text import ledger_json
from runners.report.table import as_csv, as_json, as_markdown
from runners.service.api_models import Again, Node, Order, Plan, RunDetail, RunList, Submission, entry_model
from runners.service.problems import MEDIA_TYPE, Problem, ProblemDocument
from runners.service.rooms import Rooms, rooms_of
from runners.service.shelf import log_text, logs_of, redacted
from runners.service.store import Entry, Wanted
from runners.service.watch import MOST_WATCHERS

PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"description": "what was wrong", "content": {MEDIA_TYPE: {"schema": ProblemDocument.model_json_schema()}}}
}
router = APIRouter(prefix="/api/v1", responses=PROBLEMS)
Here = Annotated[Rooms, Depends(rooms_of)]
TABLES: Final = {"json": as_json, "csv": as_csv, "md": as_markdown}
TYPES: Final = {"json": "application/json", "csv": "text/csv", "md": "text/markdown"}
SANDBOX: Final = "sandbox allow-scripts allow-popups allow-downloads; frame-ancestors 'none'"
"""What scripts and styles may do is in the page itself, by their hashes."""
STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}
ARCHIVE: Final = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}, "required": True}
JSON_ANSWER: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"application/json": {}}}}


@router.get("/runs")
async def list_runs(
    rooms: Here,
    text: Annotated[str, Query(max_length=200)] = "",
    model: Annotated[str, Query(max_length=200)] = "",
    engine: Annotated[str, Query(max_length=200)] = "",
    gpu: Annotated[str, Query(max_length=200)] = "",
    verdict: Annotated[str, Query(max_length=200)] = "",
    state: Annotated[str, Query(max_length=40)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> RunList:
    """All runs, what is under way first, then the newest; each word of a filter has to occur."""
    await rooms.desk.index()
    total, found = rooms.store.listed(Wanted(text, model, engine, gpu, verdict, state), limit, offset)
    return RunList(total=total, runs=[entry_model(entry, state) for entry, state in found])


@router.post("/runs", status_code=201)
async def submit_run(rooms: Here, asked: Submission, response: Response) -> RunDetail:
    """Check a config and queue it."""
    job = await rooms.desk.submit(asked.config, asked.most_hours)
    response.headers["location"] = f"/api/v1/runs/{job.id}"
    return await _detail(rooms, job.id)


@router.post("/plans")
async def plan_run(rooms: Here, asked: Submission) -> Plan:
    """Check a config and say what it would start; queue nothing."""
    found = await rooms.desk.check(asked.config)
    names = [contender.name for contender in found.bakeoff.contenders]
    return Plan(
        name=found.bakeoff.name,
        contenders=names,
        lives=found.lives,
        cells=found.cells,
        minutes=found.minutes,
        thorough=found.thorough,
    )


@router.get("/runs/{run}")
async def show_run(rooms: Here, run: str) -> RunDetail:
    return await _detail(rooms, run)


async def _detail(rooms: Rooms, run: str) -> RunDetail:
    entry = await rooms.entry(run)
    status = await rooms.watch.status(entry.id)
    return RunDetail(status=status, **entry_model(entry, status.state).model_dump())


@router.get("/runs/{run}/events", response_class=StreamingResponse, responses=STREAM)
async def follow_run(rooms: Here, run: str) -> StreamingResponse:
    """Server-sent events: `status` with the same fields as in the run, `end` once nothing changes any more."""
    entry = await rooms.entry(run)
    if rooms.watch.watchers >= MOST_WATCHERS:
        raise Problem(429, f"{MOST_WATCHERS} watch already; ask for the run now and then instead")
    return StreamingResponse(rooms.watch.events(entry.id), media_type="text/event-stream")


@router.post("/runs/{run}/cancel")
async def cancel_run(rooms: Here, run: str) -> RunDetail:
    """A queued run is taken out; one under way ends its engines and keeps what is finished."""
    entry = await rooms.entry(run)
    rooms.desk.cancel(entry.id)
    return await _detail(rooms, entry.id)


@router.post("/runs/{run}/resume", status_code=202)
async def resume_run(rooms: Here, run: str, asked: Annotated[Again | None, Body()] = None) -> RunDetail:
    """Queue what a run still lacks."""
    entry = await rooms.entry(run)
    await rooms.desk.resume(entry.id, asked.most_hours if asked else None)
    return await _detail(rooms, entry.id)


@router.get("/runs/{run}/config", response_class=PlainTextResponse)
async def run_config(rooms: Here, run: str) -> PlainTextResponse:
    """The config as it was sent, without secrets."""
    entry = await rooms.entry(run)
    return PlainTextResponse(await config_of(rooms, entry), media_type="application/yaml")


async def config_of(rooms: Rooms, entry: Entry) -> str:
    job, kept = rooms.job(entry.id), rooms.folder(entry) / "config.yaml"
    text = job.config if job else await rooms.backroom.do(kept.read_text, "utf-8", "replace")
    return redacted(text)


@router.get("/runs/{run}/cells", responses=JSON_ANSWER)
async def run_cells(rooms: Here, run: str) -> list[dict[str, Any]]:
    """Every cell's record, by results/schemas/cell.schema.json."""
    return list((await rooms.content(await rooms.entry(run))).cells)


@router.get("/runs/{run}/table", response_class=Response)
async def run_table(
    rooms: Here, run: str, form: Annotated[str, Query(alias="format", pattern="^(json|csv|md)$")] = "json"
) -> Response:
    content = await rooms.content(await rooms.entry(run))
    return Response(TABLES[form](content.rows), media_type=TYPES[form])


@router.get("/runs/{run}/verdicts", response_class=Response)
async def run_verdicts(
    rooms: Here, run: str, form: Annotated[str, Query(alias="format", pattern="^(json|md)$")] = "json"
) -> Response:
    content = await rooms.content(await rooms.entry(run))
    tell = decisions_json if form == "json" else decisions_markdown
    return Response(tell(content.decisions), media_type=TYPES[form])


@router.get("/runs/{run}/ledger", response_class=Response)
async def run_ledger(rooms: Here, run: str) -> Response:
    content = await rooms.content(await rooms.entry(run))
    return Response(ledger_json(content.ledger), media_type="application/json")


@router.get("/runs/{run}/report", response_class=HTMLResponse)
async def run_report(rooms: Here, run: str) -> HTMLResponse:
    """The report as one page. It has scripts of its own and data of anybody, so it gets an origin of its own."""
    html = await rooms.report(await rooms.entry(run))
    return HTMLResponse(html, headers={"content-security-policy": SANDBOX})


@router.get("/runs/{run}/logs")
async def run_logs(rooms: Here, run: str) -> list[str]:
    """Names of the engines' logs; `said` is what the comparison itself said."""
    entry = await rooms.entry(run)
    said = ["said"] if rooms.job(entry.id) else []
    return said + list(await rooms.backroom.do(logs_of, rooms.folder(entry)))


@router.get("/runs/{run}/logs/{name:path}", response_class=PlainTextResponse)
async def run_log(rooms: Here, run: str, name: str) -> str:
    """The end of a log, a MiB at most, without secrets."""
    entry = await rooms.entry(run)
    if name == "said":
        return redacted("\n".join(rooms.queue.said(entry.id)[-5000:]) + "\n")
    path = (await rooms.backroom.do(logs_of, rooms.folder(entry))).get(name)
    if path is None:
        raise Problem(404, "there is no log of that name; /logs of the run has all")
    return await rooms.backroom.do(log_text, path)


@router.get("/runs/{run}/bundle", response_class=FileResponse)
async def run_bundle(rooms: Here, run: str) -> FileResponse:
    """The whole folder as one archive, secrets redacted."""
    entry = await rooms.entry(run)
    await rooms.content(entry)
    place = tempfile.TemporaryDirectory(prefix="bundle-", dir=rooms.settings.state)
    archive = Path(place.name) / f"{entry.id}.zip"
    try:
        await rooms.backroom.do(write_bundle, rooms.folder(entry), archive, None)
    except MendableError as error:
        place.cleanup()
        raise Problem(409, str(error)) from None
    return FileResponse(archive, filename=archive.name, background=BackgroundTask(place.cleanup))


@router.post("/bundles", status_code=201, openapi_extra={"requestBody": ARCHIVE})
async def upload_bundle(rooms: Here, request: Request, response: Response) -> RunDetail:
    """Take a bundle made elsewhere: unpacked with care and looked through before it is shown."""
    with rooms.desk.incoming() as file:
        async for piece in request.stream():
            file.write(piece)
        file.flush()
        run = await rooms.desk.take_bundle(Path(file.name))
    response.headers["location"] = f"/api/v1/runs/{run}"
    return await _detail(rooms, run)


@router.get("/diff")
async def diff_runs(
    rooms: Here,
    before: Annotated[str, Query(max_length=200)],
    after: Annotated[str, Query(max_length=200)],
    across_environments: bool = False,
) -> Difference:
    """Two runs of one plan, contender by contender."""
    return await compared(rooms, before, after, across_environments=across_environments)


async def compared(rooms: Rooms, before: str, after: str, *, across_environments: bool) -> Difference:
    """Raises Problem where they cannot be compared."""
    folders = [rooms.folder(await rooms.entry(run)) for run in (before, after)]
    try:
        return await rooms.backroom.do(difference, folders[0], folders[1], across_environments=across_environments)
    except MendableError as error:
        told = str(error).replace(f"{rooms.settings.results}/", "")
        raise Problem(409, "these two cannot be compared", told.splitlines()) from None


@router.get("/queue")
async def show_queue(rooms: Here) -> Node:
    queued = [job.id for job in rooms.store.queued()]
    return Node(busy=node_holder(), queue=queued, allowed=sorted(rooms.settings.allow))


@router.put("/queue")
async def order_queue(rooms: Here, order: Order) -> Node:
    """All queued runs in the order in which they are to be run."""
    rooms.desk.order(order.runs)
    return await show_queue(rooms)


@router.get("/engines")
async def list_engines(rooms: Here) -> Sequence[EnginePlace]:
    """What is known, whether it can run on this node, and why not."""
    return await rooms.backroom.do(lambda: tuple(engine_places()))
