# SPDX-License-Identifier: Apache-2.0
"""`bakeoff serve`: what the operator of the service can say."""

import os
from pathlib import Path
from typing import Annotated

import typer

from runners.terminal import progress, refusals


def serve(
    host: Annotated[str, typer.Option(help="Any but a loopback address takes a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8600,
    results: Annotated[Path, typer.Option(help="One folder a run; the service's own state lies beside them.")] = Path(
        "results"
    ),
    models: Annotated[list[Path] | None, typer.Option(help="A folder that checkpoints may lie in.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="What to show to come in; else BAKEOFF_TOKEN.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Take over the web too: extra, environment, compose, attach, hub."),
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="A further name of this host that browsers may use.")] = None,
    after_restart: Annotated[
        str, typer.Option(help="A comparison that ended with the service: resume or interrupt.")
    ] = "resume",
    at_end: Annotated[str, typer.Option(help="A comparison under way when the service ends: leave or end.")] = "leave",
    most_hours: Annotated[float, typer.Option(min=0.001, max=1000, help="Of one comparison.")] = 24.0,
    most_upload_mb: Annotated[int, typer.Option(min=1, help="Of one bundle.")] = 512,
) -> None:
    """Serve a queue, an API and pages for a team that shares this node."""
    from runners.service.serve import read_token, run_service
    from runners.service.settings import Settings, after_restart_of, at_end_of

    with refusals():
        settings = Settings(
            results=results,
            models=tuple(folder.absolute() for folder in models or ()),
            host=host,
            port=port,
            token=read_token(token_file, os.environ.get("BAKEOFF_TOKEN")),
            allow=frozenset(allow or ()),
            names=tuple(name or ()),
            after_restart=after_restart_of(after_restart),
            at_end=at_end_of(at_end),
            most_hours=most_hours,
            most_upload_bytes=most_upload_mb * 2**20,
        )
        run_service(settings, progress())
