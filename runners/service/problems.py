# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as problem documents (RFC 9457)."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import HTTPException
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

MEDIA_TYPE: Final = "application/problem+json"


class ProblemDocument(BaseModel):
    """RFC 9457; `errors` has one line for each thing to mend."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[str] = Field(default_factory=list)


class Problem(HTTPException):
    """An answer that is an error; `detail` says what was wrong and what would be right."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[str] = (), headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, detail, headers)
        self.errors = list(errors)


def document(status: int, detail: str, errors: Sequence[str] = ()) -> dict[str, Any]:
    title = HTTPStatus(status).phrase
    return ProblemDocument(title=title, status=status, detail=detail, errors=list(errors)).model_dump()


def problem_response(
    status: int, detail: str, errors: Sequence[str] = (), headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(document(status, detail, errors), status, headers, MEDIA_TYPE)
