# SPDX-License-Identifier: Apache-2.0
"""What each command does."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TypeVar

from runners.bakeoff import bake, missing_blocks, transport_to, verified_server
from runners.cells import Life, expand
from runners.config import ConfigError, config_text
from runners.declared import knob_warnings
from runners.engine_places import engine_places
from runners.environments import MakeError, Say, recipes
from runners.gpu import gpus
from runners.live_view import shown
from runners.looks import Caps, bake_until_decided, check_caps, plan_looks
from runners.places import shipped_configs
from runners.plan_text import plan_text
from runners.report.blocks import read_run
from runners.report.decisions import decide_run, decisions_json
from runners.report.decisions_text import decisions_markdown
from runners.report.equivalence import equivalence_of
from runners.report.equivalence_text import equivalence_json, equivalence_markdown
from runners.report.host import describe_host
from runners.report.ledger import ledger_of
from runners.report.ledger_text import ledger_json, ledger_markdown
from runners.report.record import Run, read_looks
from runners.report.table import as_csv, as_json, as_markdown, tabulate
from runners.report.written import write_model
from runners.results import ResultsError, choose_folder, open_folder
from runners.self_check import HEADROOM, check_client
from runners.session import Session, open_session

T = TypeVar("T")

FORMATS = {"md": as_markdown, "csv": as_csv, "json": as_json}
VERDICTS = {"md": decisions_markdown, "json": decisions_json}
GATES = {"md": equivalence_markdown, "json": equivalence_json}


def run_compare(
    config: Path | None, out: Path | None, caps: Caps | None, next_blocks: int | None, *, resume: bool, say: Say
) -> None:
    """`bakeoff compare`; with caps until it is decided, with `next_blocks` so many of the missing blocks."""
    session = _open(config, say) if config else _demo_session(say)
    for warning in knob_warnings(session.bakeoff):
        say(f"WARNING: {warning}")
    if caps:
        check_caps(session.bakeoff, caps)
    folder = choose_folder(out, session.bakeoff.name, date.today(), resume=resume)
    environments = {c.environment.recipe.name: c.environment for c in session.contestants.values() if c.environment}
    open_folder(folder, session.text, describe_host(session.checkpoint, environments), resume=resume)
    names = [contender.name for contender in session.bakeoff.contenders]
    if caps is None and not read_looks(folder):
        lives = missing_blocks(session.lives, folder, next_blocks)
        with shown(lives, names, folder, say) as tell:
            tell(f"results go to {folder}; {_expected(session, lives)}")
            bake(session, lives, folder, tell)
    else:
        caps = caps or Caps()
        looks = plan_looks(folder, caps, resume=resume)
        lives = expand(session.bakeoff, looks)
        with shown(lives, names, folder, say) as tell:
            tell(f"results go to {folder}; looks after {', '.join(map(str, looks))} blocks")
            bake_until_decided(session, folder, looks, caps, tell)
    run = read_run(folder)
    rows = tabulate(run)
    for suffix, form in FORMATS.items():
        (folder / f"table.{suffix}").write_text(form(rows), encoding="utf-8")
    decisions = decide_run(run)
    for suffix, text in VERDICTS.items():
        (folder / f"verdicts.{suffix}").write_text(text(decisions), encoding="utf-8")
    print(as_markdown(rows))
    print(decisions_markdown(decisions))
    print(_client_check(run, folder))
    print(f"The record lies in {folder}; `bakeoff report {folder}` makes a page of it")


def _client_check(run: Run, folder: Path) -> str:
    """The client against the null server, at the level and beyond the rate of the fastest cell."""
    cells = [c for c in run.cells if c.summary.output_tokens_per_s]
    if not cells:
        return "Client check: no cell has a rate to check against"
    fastest = max(cells, key=lambda c: c.summary.output_tokens_per_s or 0.0)
    streams = round(fastest.summary.requests_in_flight or 1)
    check = check_client(max(1, streams), fastest.summary.output_tokens_per_s or 0.0)
    number = len(list(folder.glob("client-check*.json")))
    write_model(folder / (f"client-check.{number + 1}.json" if number else "client-check.json"), check)
    outcome = "held" if check.held else "NOT HELD: figures near this rate may be the client's limit"
    return (
        f"Client check: {check.reached_events_per_s:.0f} of {check.asked_events_per_s:.0f} events/s at {check.streams} "
        f"streams against a server that computes nothing, {HEADROOM:g} times the fastest cell: {outcome}"
    )


def _open(config: Path, say: Say) -> Session:
    return open_session(config_text(config), str(config), say)


def _demo_session(say: Say) -> Session:
    """The demo that fits: on GPUs compare.yaml, else cpu.yaml, else, loudly, light.yaml."""
    configs = shipped_configs()
    if gpus():
        say("an NVIDIA GPU is here: configs/compare.yaml, TensorRT-LLM in Triton twice and vLLM, in containers")
        try:
            return _open(configs / "compare.yaml", say)
        except ConfigError as error:
            say(f"WARNING: no containers with GPUs here, so this is without TensorRT-LLM: {error}")
            say("WARNING: falling back to configs/gpu.yaml, vLLM and Triton with vLLM")
            return _open(configs / "gpu.yaml", say)
    try:
        say("no NVIDIA GPU is here: configs/cpu.yaml, real vLLM on the processor")
        return _open(configs / "cpu.yaml", say)
    except MakeError as error:
        say(f"WARNING: vLLM's environment cannot be made here, so this is NOT vLLM: {error}")
        say("WARNING: falling back to configs/light.yaml, llama.cpp against llama.cpp in Triton")
        return _open(configs / "light.yaml", say)


def _expected(session: Session, lives: Sequence[Life]) -> str:
    """A forecast from the typical start-up times that the environments' files name."""
    seconds = 0.0
    for life in lives:
        environment = session.contestants[life.contender.name].environment
        start_s = environment.recipe.start_s if environment else 0.0
        seconds += start_s + 5 + len(life.cells) * (1.4 * session.bakeoff.window_s + 2)
    return f"{len(lives)} server starts, about {seconds / 60:.0f} min"


def print_plan(config: Path, engine: str | None, say: Say) -> None:
    """`bakeoff plan`."""
    session = open_session(config_text(config), str(config), say, starts=False)
    for life in _chosen(session, engine):
        launch = session.plan(life, Path("/LIFE/engine"), "bakeoff-XXXXXXXXXXXX")
        print(f"# {life.contender.name}: {session.contestants[life.contender.name].engine.summary}")
        print(plan_text(launch))


def run_verify(config: Path, engine: str | None, say: Say) -> None:
    """`bakeoff verify`."""
    session = _open(config, say)
    for life in _chosen(session, engine):
        contestant = session.contestants[life.contender.name]
        served_name = "bakeoff-verify"
        with tempfile.TemporaryDirectory(prefix="bakeoff-") as folder:
            launch = session.plan(life, Path(folder), served_name)
            say(f"{life.contender.name}: starting")
            with contestant.runner.up(launch, Path(folder)) as server:
                transport = transport_to(server, life)
                verified = verified_server(session, life, server, transport, served_name)
        print(f"# {life.contender.name}")
        for name, value in asdict(verified.capabilities).items():
            print(f"{name}: {'-' if value is None else value}")
        for row in verified.ledger:
            print(f"[{row.kind}] {row.name}: {'-' if row.value is None else row.value} ({row.source})")
        print(f"canary: {verified.canary.tokens} tokens, prompt {verified.canary.prompt_tokens}\n")


def _chosen(session: Session, engine: str | None) -> list[Life]:
    for name, reason in session.unsupported.items():
        if engine in (None, name):
            print(f"# {name}: unsupported on this engine: {reason}\n")
    first = session.first_lives()
    chosen = [life for life in first if engine in (None, life.contender.name)]
    if not chosen and engine not in session.unsupported:
        names = ", ".join(life.contender.name for life in first)
        raise ConfigError(f"{session.source}: no contender is named {engine!r}; there are {names}")
    return chosen


def _form(forms: Mapping[str, T], form: str) -> T:
    """One of the forms by its name. Raises ResultsError."""
    if form not in forms:
        *others, last = forms
        raise ResultsError(f"--format {form}: unknown; say {', '.join(others)} or {last}")
    return forms[form]


def print_table(folder: Path, form: str, accepted: Sequence[str] = ()) -> None:
    """`bakeoff table`."""
    print(_form(FORMATS, form)(tabulate(read_run(folder, accepted))), end="")


def print_verdicts(folder: Path, form: str, accepted: Sequence[str] = ()) -> None:
    """`bakeoff verdicts`."""
    print(_form(VERDICTS, form)(decide_run(read_run(folder, accepted))), end="")


def print_ledger(folder: Path, *, as_json: bool) -> None:
    """`bakeoff ledger`."""
    rows = ledger_of(read_run(folder))
    print(ledger_json(rows) if as_json else ledger_markdown(rows), end="")


def print_gate(folder: Path, form: str) -> None:
    """`bakeoff gate`."""
    print(_form(GATES, form)(equivalence_of(read_run(folder))), end="")


def print_engines() -> None:
    """`bakeoff engines`."""
    for place in engine_places():
        if place.first:
            print(f"{place.engine}: {place.summary}")
        made_yet = "made" if place.made else "not made yet"
        where = f"{place.environment} ({made_yet}): " if place.environment else ""
        print(f"  {where}{'; '.join(place.complaints) or 'can run here'}")
    for recipe in recipes().values():
        if recipe.image:
            print(f"{recipe.name}: not installable, only in the image {recipe.image}")
