# SPDX-License-Identifier: Apache-2.0
"""Puts the service together: one process, one SQLite file, one folder of results."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from runners.errors import MendableError
from runners.service import api, form_pages, login_pages, pages
from runners.service.desk import Desk
from runners.service.frame import page
from runners.service.guard import HEADERS, Guard
from runners.service.index import refresh
from runners.service.keys import Keys, kept_secret
from runners.service.priority import Backroom
from runners.service.problems import Problem, problem_response
from runners.service.queue import Queue
from runners.service.rooms import Rooms
from runners.service.settings import Settings, checked
from runners.service.shelf import Shelf
from runners.service.store import Store
from runners.service.watch import Watch


def build(settings: Settings) -> FastAPI:
    """The whole service. Raises SettingsError."""
    settings = replace(checked(settings), results=settings.results.absolute())
    settings.state.mkdir(parents=True, exist_ok=True)
    settings.state.chmod(0o700)
    keys = Keys(settings.token, kept_secret(settings.state / "secret"), time.time)
    store, backroom = Store(settings.state / "service.sqlite3"), Backroom()
    queue = Queue(settings, store)
    desk, watch = Desk(settings, store, queue, backroom), Watch(settings, store, queue, backroom)
    app = FastAPI(
        title="bakeoff",
        version=version("bakeoff"),
        description="Compares LLM serving engines: one checkpoint, one load, one table.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_running(settings, queue, watch, store, backroom),
    )
    app.state.rooms = Rooms(settings, store, queue, desk, watch, Shelf(), keys, backroom)
    app.include_router(api.router)
    for part in (login_pages, form_pages, pages):
        app.include_router(part.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _told)
    app.add_exception_handler(MendableError, _told)
    app.add_exception_handler(Exception, _told)
    app.add_middleware(Guard, settings=settings, keys=keys)
    return app


def _running(settings: Settings, queue: Queue, watch: Watch, store: Store, backroom: Backroom):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await backroom.do(refresh, store, settings.results)
        task = asyncio.create_task(queue.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            watch.end()
            await asyncio.to_thread(queue.close)
            backroom.close()
            store.close()

    return lifespan


async def _told(request: Request, error: Exception) -> Response:
    """A problem document for programs, a page for people."""
    status, detail, errors, headers = _words(error)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        headers |= HEADERS  # such an answer is made outside of the guard
    if request.url.path.startswith("/api/"):
        return problem_response(status, detail, errors, headers)
    answer = page(request, "problem.html.j2", status, number=status, detail=detail, errors=errors)
    answer.headers.update(headers)
    return answer


def _words(error: Exception) -> tuple[int, str, list[str], dict[str, str]]:
    if isinstance(error, Problem):
        return error.status_code, str(error.detail), error.errors, dict(error.headers or {})
    if isinstance(error, RequestValidationError):
        found = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors()]
        return 422, "the request is not as the description of the API has it", found, {}
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail), [], dict(error.headers or {})
    if isinstance(error, MendableError):
        return 409, "this cannot be done as things are", str(error).splitlines(), {}
    return 500, "an error of the service itself; its log has the details", [], {}
