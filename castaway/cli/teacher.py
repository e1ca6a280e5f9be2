"""`castaway teacher`: start the server that is to judge; is it there, does it judge well, and how fast?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.errors import CastawayError
from castaway.teacher.key import secret

app = typer.Typer(
    help="Start the server of a teacher, and look at it: what it says, and how fast.", rich_markup_mode=None
)

Url = Annotated[str | None, typer.Option(help="The server: http://HOST:PORT/v1; by default teacher.url of --params.")]
Model = Annotated[str | None, typer.Option(help="What the server calls the model; by default teacher.model.")]
Config = Annotated[Path, typer.Option("--params", help="Where the game's scenario stands.")]

DEFAULT_MODEL = "teacher"


@app.command()
def serve(
    weights: Annotated[str, typer.Argument(help="A folder, or the name of a Hugging Face model.")],
    model: Annotated[str, typer.Option(help="The name that clients are to call it by.")] = DEFAULT_MODEL,
    revision: Annotated[str | None, typer.Option(help="The commit of a Hugging Face model.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="NAME=PATH: a LoRA adapter, served as NAME.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens of question and answer together.")] = None,
    cache: Annotated[int | None, typer.Option(min=1, help="GiB of memory for keys and values.")] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; elsewhere than on this host only with a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8000,
    environment: Annotated[Path, typer.Option(help="Where vLLM is installed.")] = Path(".venv-vllm"),
    log: Annotated[Path, typer.Option(help="What vLLM says.")] = Path("scratch/teacher.log"),
    ready: Annotated[float, typer.Option(min=1, help="Seconds that it may take to get ready.")] = 600.0,
) -> None:
    """Serve a model with vLLM until Ctrl-C or SIGTERM; `check` and `bench` find it where they look by default."""
    from castaway.serving.server import running, stop_requests
    from castaway.serving.vllm import Serving, find_vllm, read_adapter

    adapters = tuple(read_adapter(one) for one in adapter or ())
    serving = Serving(weights, model, revision, adapters, context, cache, host, port, environment, log, ready)
    with stop_requests() as stopping:
        typer.echo(f"starting vLLM for {find_vllm(environment)[1]}; what it says stands in {log}")
        with running(serving, secret(), stopping) as server:
            typer.echo(f"{server.url} serves {', '.join([model, *(one.name for one in adapters)])}; Ctrl-C stops it")
            server.watch(stopping)
        typer.echo("stopped")


@app.command()
def check(url: Url = None, model: Model = None, params: Config = Path("params.yaml")) -> None:
    """Ask for four verdicts, and print them beside those of the rules."""
    from castaway.metrics.markdown import table
    from castaway.tasks.registry import read_params, task_of
    from castaway.tasks.reply import parse_reply
    from castaway.teacher.chat_client import Endpoint
    from castaway.teacher.inspection import smoke_attempts
    from castaway.teacher.rules import RulesTeacher
    from castaway.teacher.served import Conduct, ServedTeacher

    chosen = read_params(params)
    task = task_of(chosen, "marooned")
    environment = task.make()
    attempts = smoke_attempts(environment)
    endpoint = Endpoint(url or chosen.teacher.url, model or chosen.teacher.model, secret())
    teacher = ServedTeacher(task.rubric(), environment.rules, endpoint, Conduct())
    try:
        judged = teacher.judge(attempts)
    finally:
        teacher.close()
    rows = []
    for attempt, verdict, rules in zip(attempts, judged, RulesTeacher(environment.rules).judge(attempts), strict=True):
        said = [f"{v.action} {v.penalty:g}{'' if v.valid else ' (put right)'}" for v in (verdict, rules)]
        rows.append([parse_reply(attempt.text).action, verdict.source, *said, verdict.critique])
    typer.echo(table(["answered", "judge", "verdict", "the rules", "critique"], rows))
    typer.echo(", ".join(f"{name}: {count}" for name, count in sorted(teacher.counts.items())))


@app.command()
def bench(
    url: Url = None,
    model: Model = None,
    params: Config = Path("params.yaml"),
    questions: Annotated[int, typer.Option(min=1, help="Questions at each level.")] = 128,
    levels: Annotated[list[int] | None, typer.Option("--level", min=1, help="Questions open at one time.")] = None,
) -> None:
    """Measure answers a second and how long one takes, by how many are asked for at one time."""
    from castaway.metrics.markdown import table
    from castaway.tasks.registry import read_params, task_of
    from castaway.teacher.chat_client import Endpoint
    from castaway.teacher.inspection import measure_speed

    chosen = read_params(params)
    endpoint = Endpoint(url or chosen.teacher.url, model or chosen.teacher.model, secret())
    found = measure_speed(task_of(chosen, "marooned"), endpoint, levels or [1, 16, 64], questions)
    rows = [
        [
            str(speed.concurrency),
            f"{speed.per_second:.1f}",
            f"{1000 * speed.median:.0f}",
            f"{1000 * speed.worst_twentieth:.0f}",
            f"{100 * speed.usable:.0f} %",
            str(speed.failed),
        ]
        for speed in found
    ]
    typer.echo(table(["open", "answers/s", "median ms", "95 % below ms", "usable", "failed"], rows))
    if all(speed.per_second == 0 for speed in found):
        raise CastawayError(
            f"the server at {endpoint.url} answered nothing; is it running, and is {endpoint.model} its model's name?"
        )
