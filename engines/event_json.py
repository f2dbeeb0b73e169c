# SPDX-License-Identifier: Apache-2.0
"""One event's JSON, and the errors that engines put inside events."""

import json
from typing import Any

import orjson

from engines.contract import Answer


def parse_event(answer: Answer, data: str) -> tuple[Answer, dict[str, Any] | None]:
    """The event's object; or the answer as failed, and None, where it is no object or tells an error."""
    try:
        event = orjson.loads(data)
    except ValueError:
        return answer._replace(error=f"an event that is not JSON: {data[:200]}"), None
    if not isinstance(event, dict):
        return answer._replace(error=f"an event that is no object: {data[:200]}"), None
    if event.get("error"):
        return answer._replace(error=error_text(event["error"])), None
    return answer, event


def error_text(error: Any) -> str:
    """The message of an error object, or the whole of it where it has none."""
    if isinstance(error, dict) and "message" in error:
        return str(error["message"])
    return error if isinstance(error, str) else json.dumps(error)
