# SPDX-License-Identifier: Apache-2.0
"""One event's JSON, and the errors that engines put inside events."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from engines.contract import Answer, EventData


def parse_event(answer: Answer, data: EventData) -> Mapping[str, Any] | None:
    """The event's object; None, and the answer failed, where it is no object or tells an error."""
    event: Mapping[str, Any]
    if isinstance(data, bytes):
        try:
            event = orjson.loads(data)
        except ValueError:
            answer.error = f"an event that is not JSON: {_shown(data)}"
            return None
        if not isinstance(event, dict):
            answer.error = f"an event that is no object: {_shown(data)}"
            return None
    else:
        event = data
    if error := event.get("error"):
        answer.error = error_text(error)
        return None
    return event


def data_lines(body: bytes) -> tuple[bytes, ...]:
    """Data of the events of a short and whole stream whose lines end in LF."""
    lines = body.split(b"\n")
    return tuple(line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:"))


def error_text(error: Any) -> str:
    """The message of an error object, or the whole of it where it has none."""
    if isinstance(error, dict) and "message" in error:
        return str(error["message"])
    return error if isinstance(error, str) else json.dumps(error)


def _shown(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace")
