# SPDX-License-Identifier: Apache-2.0
"""Takes the recordings that the contract tests read, from real servers: take_recordings.py CONFIG [NAME...]

For each contender (all, or those named) it writes tests/recordings/<engine>-<version>[-spec]/: the
probes' answers, the trials, the server's log, and two raw streams, one of which repeats the prompt of the other.
"""

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import httpx

from engines.conformance import PROMPT, SERVED_NAME
from engines.contract import Evidence
from runners.contestants import Contestant
from runners.launch.server import Server
from runners.load.scrape import tried
from runners.session import open_session

PLACE = Path(__file__).parent / "recordings"


def main(config: Path, names: list[str]) -> None:
    session = open_session(config.read_text("utf-8"), str(config), print)
    for life in session.lives[: len(session.bakeoff.contenders)]:
        if names and life.contender.name not in names:
            continue
        contestant = session.contestants[life.contender.name]
        with tempfile.TemporaryDirectory() as folder:
            launch = session.plan(life, Path(folder), SERVED_NAME)
            with contestant.runner.up(launch, Path(folder)) as server:
                take(contestant, server, folder)


def take(contestant: Contestant, server: Server, folder: str) -> None:
    engine = contestant.engine
    with httpx.Client(timeout=60.0, trust_env=False) as client:
        answers = probe(contestant, server, client)
        name = engine.read(Evidence(answers, server.log(), SERVED_NAME)).capabilities.model
        trials = tried(server, engine, name, replace(PROMPT, text=f"Tried: {PROMPT.text}"), first=True)
        capabilities = engine.read(Evidence(answers, server.log(), SERVED_NAME, trials)).capabilities
        call = engine.encode(PROMPT, capabilities)
        headers = {"Content-Type": "application/json"}
        streams = [client.post(server.url + call.path, content=call.body, headers=headers).content for _ in range(2)]
        answers = probe(contestant, server, client)
    target = PLACE / f"{engine.name}-{capabilities.engine_version}{'-spec' if capabilities.speculates else ''}"
    target.mkdir(parents=True, exist_ok=True)
    kept = {name: text and placeless(text, folder) for name, text in answers.items()}
    (target / "answers.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    if trials:
        told = {name: asdict(said) for name, said in trials.items()}
        (target / "trials.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    (target / "server.log").write_text(shortened(placeless(server.log(), folder)), "utf-8")
    for name, content in zip(("first.sse", "second.sse"), streams, strict=True):
        (target / name).write_bytes(content)
    print("written", target)


def probe(contestant: Contestant, server: Server, client: httpx.Client) -> dict[str, str | None]:
    answers: dict[str, str | None] = {}
    for asked in contestant.engine.probes():
        base = server.metrics_url if asked.port == "metrics" else server.url
        url = base + asked.path.replace("{name}", SERVED_NAME)
        response = client.get(url) if asked.body is None else client.post(url, json=dict(asked.body))
        answers[asked.name] = response.text if response.status_code == 200 else None
    return answers


def shortened(log: str) -> str:
    """Lines that a reading looks for."""
    wanted = (
        "engine xllamacpp",
        "Initializing a V1",
        "load_model: init",
        "speculative impl",
        "TensorRT",
        "engine with",
        "non-default args",
        "engine vllm settings",
        "loading model",
    )
    lines = [line for line in log.splitlines() if any(word in line for word in wanted)]
    return "\n".join(lines) + "\n"


def placeless(text: str, folder: str) -> str:
    """Without the folders of the machine that it was taken on."""
    return text.replace(folder, "/life").replace(str(Path.home()), "/home")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
