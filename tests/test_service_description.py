# SPDX-License-Identifier: Apache-2.0
"""The API against its own description: whatever is sent, no answer is an error of the service."""

from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok

from runners.node_lock import node_held
from runners.service.app import build
from runners.service.settings import Settings
from tests.results_folder import make_folder

EXAMPLES: Final = 8
NEVER_ENDING: Final = "/api/v1/runs/{run}/events"
OPERATIONS: Final = 20


@pytest.mark.filterwarnings("default")
def test_no_request_is_an_error_of_the_service(tmp_path: Path) -> None:
    make_folder(tmp_path / "results" / "first")
    app = build(Settings(tmp_path / "results", names=("testserver",)))
    schemathesis.serializer.alias("application/zip", "application/octet-stream")
    with node_held("something else", print):
        schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app).exclude(path=NEVER_ENDING)
        operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
        for operation in operations:
            ask_at_random(operation)
    assert len(operations) == OPERATIONS


def ask_at_random(operation: Any) -> None:
    quiet = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)

    @quiet
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        for run in (None, "first"):
            if run and "run" in (case.path_parameters or {}):
                case.path_parameters["run"] = run
            answer = case.call()
            told = f"{case.method} {case.path} {case.body!r} {answer.content[:500]!r}"
            assert answer.status_code < 500, told
            if answer.status_code >= 400:
                assert answer.headers["content-type"][0].startswith("application/problem+json"), told

    ask()
