# SPDX-License-Identifier: Apache-2.0
"""What every engine must pass, against a recording of a real server; for engines from elsewhere too.

A recording is a folder: `answers.json` (probe name -> text or null), `server.log`, `first.sse` and
`second.sse` (bodies of two equal streaming requests of eight forced tokens, 73 prompt tokens); `trials.json` (trial
name -> how it ended) where the engine has trials.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engines.contract import Answer, Call, Capabilities, Counters, Engine, Evidence, Prompt, Reading, Said, Sampling
from engines.event_json import data_lines
from engines.launch import Launch

SERVED_NAME: Final = "bakeoff-recorded"
PROMPT: Final = Prompt("The standard library of a language " * 12, 73, 8, True, Sampling())


class ConformanceError(AssertionError):
    """An engine that breaks the contract."""


@dataclass(frozen=True)
class Recording:
    """What a real server said, as read from its folder."""

    evidence: Evidence
    streams: tuple[tuple[bytes, ...], tuple[bytes, ...]]

    @classmethod
    def load(cls, folder: Path) -> "Recording":
        """Read a recording's folder."""
        answers = json.loads((folder / "answers.json").read_text("utf-8"))
        log = (folder / "server.log").read_text("utf-8")
        first, second = (data_lines((folder / name).read_bytes()) for name in ("first.sse", "second.sse"))
        tried = json.loads((folder / "trials.json").read_text("utf-8")) if (folder / "trials.json").exists() else {}
        trials = {name: Said(**said) for name, said in tried.items()}
        return cls(Evidence(answers, log, SERVED_NAME, trials), (first, second))


def check_plan(launch: Launch) -> None:
    """A launch binds loopback only, names its ports, and has absolute programs and links."""
    words = " ".join(launch.serve.argv)
    _demand(launch.url.startswith("http://127.0.0.1:"), f"url {launch.url} is not loopback")
    _demand(bool(launch.ports), "no ports named: nobody can check that they are free")
    _demand("0.0.0.0" not in words, "the server listens on every interface")  # noqa: S104
    _demand(not any(path.startswith("/") for path in launch.files), "files must lie below the life's folder")


def check_recording(engine: Engine, recording: Recording) -> Reading:
    """Read, encode and fold, and compare with what the recording's construction implies."""
    reading = engine.read(recording.evidence)
    capabilities = reading.capabilities
    _demand(capabilities.model == SERVED_NAME, f"served name read as {capabilities.model!r}")
    _demand(bool(capabilities.engine_version), "no engine version")
    _demand(bool(capabilities.front_end), "no front end")
    _demand(any(row.value for row in reading.ledger), "an empty ledger")
    _check_call(engine.encode(PROMPT, capabilities))
    for stream in recording.streams:
        _check_answer(folded(engine, reading, stream), capabilities)
    _demand(not reading.refusals, f"a good server is refused: {'; '.join(reading.refusals)}")
    _check_counters(reading.counters)
    _check_empty(engine)
    return reading


def folded(engine: Engine, reading: Reading, stream: tuple[bytes, ...]) -> Answer:
    """A whole stream folded; raises if the tokens ever fall."""
    answer = Answer()
    for data in stream:
        before = replace(answer)
        engine.fold(answer, data, reading.capabilities)
        _demand(answer.tokens >= before.tokens, "the cumulative tokens fell")
        _demand(answer.text.startswith(before.text), "the text was rewritten")
    return answer


def _check_call(call: Call) -> None:
    _demand(call.path.startswith("/"), f"path {call.path!r} is not absolute")
    body = json.loads(call.body)
    _demand(PROMPT.text in json.dumps(body), "the prompt's text is not in the body as it is")


def _check_answer(answer: Answer, capabilities: Capabilities) -> None:
    """What an engine does not count, nobody can check here."""
    _demand(answer.error is None, f"error {answer.error}")
    _demand(answer.ended, "the end of the stream was not seen")
    _demand(bool(answer.text), "no text")
    if capabilities.gives_reason:
        _demand(answer.finish_reason == "length", f"finish reason {answer.finish_reason}, not length")
    if not answer.uncounted:
        wanted = PROMPT.max_tokens
        _demand(answer.tokens == wanted, f"{answer.tokens} tokens by events, {wanted} were forced")
        _demand(answer.server_tokens in (None, wanted), f"{answer.server_tokens} tokens by the server's count")
        _demand(answer.prompt_tokens is not None, "no count of prompt tokens")


def _check_counters(counters: Counters) -> None:
    """An engine may have none; one that counts tokens also tells when it is quiet, or they never settle."""
    counted = counters.generated_tokens is not None or counters.drafted_tokens is not None
    _demand(not counted or counters.running is not None, "nobody can tell when the engine is quiet")


def _check_empty(engine: Engine) -> None:
    """A server that answers nothing is read as unknown, never as zero."""
    reading = engine.read(Evidence({probe.name: None for probe in engine.probes()}, "", SERVED_NAME))
    _demand(reading.counters == Counters(), "counters of a silent server must be unknown")


def _demand(holds: bool, complaint: str) -> None:
    if not holds:
        raise ConformanceError(complaint)
