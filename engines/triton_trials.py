# SPDX-License-Identifier: Apache-2.0
"""What the trials of a Triton model show: how a stream comes, and how errors are answered."""

import json
from typing import Any

from engines.contract import Said
from engines.event_json import data_lines


def events(said: Said | None) -> list[dict[str, Any]]:
    """The objects of a stream's events; none where it failed."""
    if said is None or said.status != 200:
        return []
    parsed = (json.loads(line) for line in data_lines(said.body.encode()) if line)
    return [event for event in parsed if isinstance(event, dict) and "error" not in event]


def texts(said: Said | None) -> list[str]:
    return [event["text_output"] for event in events(said) if isinstance(event.get("text_output"), str)]


def incremental(said: Said | None) -> bool:
    """More than one event for several tokens. Where nobody asked, it is assumed."""
    return len(texts(said)) > 1 if said is not None else True


def repeats_text(said: Said | None) -> bool | None:
    """Whether an event holds the text so far and not only what is new; None where one event cannot tell."""
    told = texts(said)
    return None if len(told) < 2 or not told[0] else told[1].startswith(told[0]) and told[1] != told[0]


def refusals(said: Said | None, *, whole_text: bool) -> list[str]:
    """Sentences where a stream was not answered, or not in the form that the engine is folded by."""
    if said is None:
        return []
    if said.silent:
        return ["a short stream was not answered in time; the server's log says why"]
    if not events(said):
        return [f"a short stream failed: HTTP {said.status}: {said.body.strip()[:200]}"]
    repeats = repeats_text(said)
    if repeats is not None and repeats != whole_text:
        form = "repeat the text so far" if repeats else "hold new text only"
        return [f"events {form}, which is not the form of this engine; a release this tool does not know"]
    return []


def outcome(said: Said | None) -> str | None:
    """How a request was answered, in words."""
    if said is None:
        return None
    return "no answer" if said.silent and said.status is None else f"HTTP {said.status}"
