# SPDX-License-Identifier: Apache-2.0
"""The command `bakeoff`. What is heavy is imported by the command that needs it."""

from pathlib import Path
from typing import Annotated

import typer

from runners.serve_command import serve
from runners.terminal import progress, refusals

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Compares LLM serving engines: one checkpoint, one load, one table.",
)

app.command()(serve)
Config = Annotated[Path | None, typer.Argument(help="Config file; without one, the demo that fits this machine.")]
Contender = Annotated[str | None, typer.Argument(help="Only this contender.")]
Accepted = Annotated[
    list[str] | None,
    typer.Option("--accept-unequal", metavar="ROW", help="Give verdicts though contenders differ in this row."),
]


@app.command()
def compare(
    config: Config = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish what is missing in OUT.")] = False,
    next_blocks: Annotated[int | None, typer.Option(min=1, help="So many of the missing blocks, then stop.")] = None,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Look after 4, 6 and 10 blocks and stop once it is decided.")
    ] = False,
    most_blocks: Annotated[int | None, typer.Option(min=2, help="With --until-decided: the last look.")] = None,
    most_hours: Annotated[float | None, typer.Option(min=0, help="With --until-decided.")] = None,
    most_cost: Annotated[float | None, typer.Option(min=0, help="With --until-decided, by price_per_gpu_hour.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a measurement that this node is busy with.")] = False,
) -> None:
    """Run a comparison, write its records, print table and verdicts."""
    from runners.commands import run_compare
    from runners.looks import Caps
    from runners.node_lock import node_held
    from runners.results import ResultsError

    with refusals():
        caps = _caps(most_blocks, most_hours, most_cost, until_decided=until_decided)
        if caps and next_blocks:
            raise ResultsError("--next-blocks runs what is planned; with --until-decided use --most-blocks")
        say = progress()
        with node_held(str(config or "the demo"), say, wait=wait):
            run_compare(config, out, Caps(*caps) if caps else None, next_blocks, resume=resume, say=say)


def _caps(
    blocks: int | None, hours: float | None, cost: float | None, *, until_decided: bool
) -> tuple[int | None, float | None, float | None] | None:
    from runners.results import ResultsError

    if until_decided:
        return blocks, hours, cost
    if (blocks, hours, cost) != (None, None, None):
        raise ResultsError("--most-blocks, --most-hours and --most-cost go with --until-decided; add it")
    return None


@app.command()
def plan(config: Path, engine: Contender = None) -> None:
    """Print the files and commands of each contender; start nothing."""
    from runners.commands import print_plan

    with refusals():
        print_plan(config, engine, say=progress())


@app.command()
def verify(config: Path, engine: Contender = None) -> None:
    """Start each contender, ask it what it is, send one request, stop it."""
    from runners.commands import run_verify
    from runners.node_lock import node_held

    say = progress()
    with refusals(), node_held(f"{config} (verify)", say):
        run_verify(config, engine, say=say)


@app.command()
def table(
    folder: Path,
    form: Annotated[str, typer.Option("--format", help="md, csv or json")] = "md",
    accept_unequal: Accepted = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="With all columns and notes that a stranger needs.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="With --publish: who ran it.")] = None,
) -> None:
    """Print the table of a results folder; needs no server."""
    from runners.commands import print_table

    with refusals():
        if publish:
            from runners.publish_command import print_published

            print_published(folder, form, by, accept_unequal or ())
        else:
            print_table(folder, form, accept_unequal or ())


@app.command()
def report(
    path: Path,
    out: Annotated[Path | None, typer.Option(help="The file; else report.html in the results folder.")] = None,
    by: Annotated[str | None, typer.Option(help="Who ran it.")] = None,
    accept_unequal: Accepted = None,
) -> None:
    """Make one HTML file of a results folder or a bundle: verdicts, plots, tables; needs no server and no network."""
    from runners.report_command import make_report

    with refusals():
        make_report(path, out, by, accept_unequal or ())


@app.command()
def bundle(
    folder: Path,
    out: Annotated[Path | None, typer.Option(help="The archive; else FOLDER.zip here.")] = None,
    by: Annotated[str | None, typer.Option(help="Who ran it.")] = None,
) -> None:
    """Put a results folder into one archive, without the secrets in it."""
    from runners.publish_command import make_bundle

    with refusals():
        make_bundle(folder, out, by)


@app.command()
def check(path: Path) -> None:
    """Look through a bundle, a results folder or a published table of anybody. What is wrong is exit code 1."""
    from runners.check_command import run_check

    with refusals():
        wrong = run_check(path)
    if wrong:
        raise typer.Exit(1)


@app.command()
def verdicts(
    folder: Path,
    form: Annotated[str, typer.Option("--format", help="md or json")] = "md",
    accept_unequal: Accepted = None,
) -> None:
    """Print what a results folder decides: verdicts, intervals, scatter over lives."""
    from runners.commands import print_verdicts

    with refusals():
        print_verdicts(folder, form, accept_unequal or ())


@app.command()
def ledger(
    folder: Path,
    as_json: Annotated[bool, typer.Option("--json", help="Every row with its sources.")] = False,
) -> None:
    """Print what the engines of a results folder had in force, compared row by row; unequal rows first."""
    from runners.commands import print_ledger

    with refusals():
        print_ledger(folder, as_json=as_json)


@app.command()
def gate(
    folder: Path,
    form: Annotated[str, typer.Option("--format", help="md or json")] = "md",
) -> None:
    """Print whether contenders give the reference's answers; needs no server."""
    from runners.commands import print_gate

    with refusals():
        print_gate(folder, form)


@app.command()
def diff(
    before: Path,
    after: Path,
    across_environments: Annotated[
        bool, typer.Option("--across-environments", help="Compare though machine or versions differ.")
    ] = False,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit code 1 where AFTER is decidedly slower.")
    ] = False,
    form: Annotated[str, typer.Option("--format", help="md or json")] = "md",
) -> None:
    """Compare two runs of one plan, contender by contender. What cannot be compared is exit code 2."""
    from runners.diff_command import run_diff

    with refusals(code=2):
        regressed = run_diff(before, after, form, across_environments=across_environments)
    if regressed and fail_on_regression:
        raise typer.Exit(1)


@app.command()
def engines() -> None:
    """List the engines that are known, and whether they can run on this machine."""
    from runners.commands import print_engines

    print_engines()


@app.command()
def drive(
    url: str,
    dialect: Annotated[str, typer.Option(help="openai, openai-chat, triton-llmapi, -ensemble, -vllm")],
    model: Annotated[str, typer.Option(help="The model's name on the server.")],
    out: Annotated[Path, typer.Option(help="Folder for traces.parquet and summary.json.")],
    streams: Annotated[int, typer.Option(min=1, help="Most requests in flight.")] = 1,
    requests: Annotated[int, typer.Option(min=1)] = 100,
    max_tokens: Annotated[int, typer.Option(min=1)] = 64,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Requests per second: open loop.")] = None,
    burstiness: Annotated[float | None, typer.Option(min=0.01, help="With --rate: 1 is Poisson.")] = None,
    spread: Annotated[float, typer.Option(min=0, help="Seconds over which streams start.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for exactly max-tokens.")] = False,
    idle_limit: Annotated[float, typer.Option(min=0.1, help="Seconds of silence that end a stream.")] = 60.0,
    transport: Annotated[str, typer.Option(help="http, grpc, grpc-aio (grpc://HOST:PORT)")] = "http",
    tokenizer: Annotated[Path | None, typer.Option(help="Counts tokens where the server does not.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Due times in seconds, one a line: open loop.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Drive any running server with the client alone."""
    from runners.drive_command import Drive, run_drive

    with refusals():
        asked = Drive(
            url=url,
            dialect=dialect,
            model=model,
            streams=streams,
            requests=requests,
            max_tokens=max_tokens,
            rate=rate,
            burstiness=burstiness,
            seed=seed,
            spread_s=spread,
            ignore_eos=ignore_eos,
            idle_limit_s=idle_limit,
            transport=transport,
            tokenizer=tokenizer,
            replay=replay,
            out=out,
        )
        run_drive(asked, as_json=as_json)
