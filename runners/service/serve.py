# SPDX-License-Identifier: Apache-2.0
"""`bakeoff serve`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from runners.service.app import build
from runners.service.settings import Settings, SettingsError

GRACE_S = 3


def run_service(settings: Settings, say: Callable[[str], None]) -> None:
    """Until interrupted. Raises SettingsError."""
    import uvicorn

    app = build(settings)
    place = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(f"http://{place}:{settings.port}/ shows {settings.results}{'' if settings.token else '; no token is asked'}")
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        proxy_headers=False,
        h11_max_incomplete_event_size=2**16,
    )
    server: Any = uvicorn.Server(config)
    server.run()


def read_token(file: Path | None, variable: str | None) -> str | None:
    """From a file, else from the environment. Raises SettingsError."""
    if file is None:
        return variable or None
    try:
        return file.read_text("utf-8").strip() or None
    except OSError as error:
        raise SettingsError(f"--token-file {file}: cannot be read ({error.strerror})") from None
