"""`castaway teacher`: serve a teacher model, check its verdicts, and measure its speed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from castaway.cli.help import show_help
from castaway.errors import CastawayError
from castaway.teacher.key import secret

if TYPE_CHECKING:
    from castaway.tasks.task import Task
    from castaway.teacher.chat_client import Endpoint

app = typer.Typer(
    help="Serve a teacher model, check its verdicts, and measure its speed.",
    invoke_without_command=True,
    callback=show_help,
    rich_markup_mode=None,
)

Url = Annotated[str | None, typer.Option(help="The server: http://HOST:PORT/v1; by default teacher.url of --params.")]
Model = Annotated[str | None, typer.Option(help="The server's name of the model; by default teacher.model.")]
Config = Annotated[Path, typer.Option("--params", help="The parameters, with the runs and the teacher.")]
Run = Annotated[str | None, typer.Option(help="The run whose game is judged; by default the first in --params.")]

DEFAULT_MODEL = "teacher"
CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection, in seconds."""


@app.command()
def serve(
    weights: Annotated[str, typer.Argument(help="A folder, or the name of a Hugging Face model.")],
    model: Annotated[str, typer.Option(help="The name of the model for clients.")] = DEFAULT_MODEL,
    revision: Annotated[str | None, typer.Option(help="The commit of a Hugging Face model.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="NAME=PATH: a LoRA adapter, served as NAME.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens of question and answer together.")] = None,
    cache: Annotated[int | None, typer.Option(min=1, help="Memory of the KV cache, in GiB.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other hosts can reach needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8000,
    environment: Annotated[Path, typer.Option(help="The virtual environment with vLLM.")] = Path(".venv-vllm"),
    log: Annotated[Path, typer.Option(help="File for vLLM's log.")] = Path("scratch/teacher.log"),
    ready: Annotated[float, typer.Option(min=1, help="Time that vLLM may take to start, in seconds.")] = 600.0,
) -> None:
    """Serve a model with vLLM until Ctrl-C or SIGTERM; by default where `check` and `bench` look for it.

    Example: `castaway teacher serve Qwen/Qwen2.5-0.5B-Instruct`.
    """
    from castaway.serving.server import running, stop_requests
    from castaway.serving.vllm import Serving, find_vllm, read_adapter

    adapters = tuple(read_adapter(one) for one in adapter or ())
    serving = Serving(weights, model, revision, adapters, context, cache, host, port, environment, log, ready)
    with stop_requests() as stopping:
        typer.echo(f"starting vLLM for {find_vllm(environment)[1]}; its log is {log}")
        with running(serving, secret(), stopping) as server:
            typer.echo(f"{server.url} serves {', '.join([model, *(one.name for one in adapters)])}; Ctrl-C stops it")
            server.watch(stopping)
        typer.echo("stopped")


@app.command()
def check(url: Url = None, model: Model = None, params: Config = Path("params.yaml"), run: Run = None) -> None:
    """Ask for verdicts on four replies, and print them next to those of the rules.

    Example: `castaway teacher check`.
    """
    from castaway.metrics.markdown import table
    from castaway.tasks.reply import parse_reply
    from castaway.teacher.base import TeacherOutage
    from castaway.teacher.inspection import smoke_attempts
    from castaway.teacher.rules import RulesTeacher
    from castaway.teacher.served import Conduct, ServedTeacher

    task, endpoint = _asked(params, run, url, model)
    _require_listener(endpoint.url)
    environment = task.make()
    attempts = smoke_attempts(task, environment)
    teacher = ServedTeacher(task.rubric(), environment.rules, endpoint, Conduct())
    try:
        judged = teacher.judge(attempts)
    except TeacherOutage as error:
        # What it tells of a stage that goes on does not hold here.
        raise CastawayError(str(error).partition("; start it and run")[0]) from None
    finally:
        teacher.close()
    rows = []
    for attempt, verdict, rules in zip(attempts, judged, RulesTeacher(environment.rules).judge(attempts), strict=True):
        said = [f"{v.action} {v.penalty:g}{'' if v.valid else ' (corrected)'}" for v in (verdict, rules)]
        rows.append([parse_reply(attempt.text).action, verdict.source, *said, verdict.critique])
    typer.echo(table(["answered", "judge", "verdict", "the rules", "critique"], rows))
    typer.echo(", ".join(f"{name}: {count}" for name, count in sorted(teacher.counts.items())))


def _asked(params: Path, run: str | None, url: str | None, model: str | None) -> tuple[Task[Any], Endpoint]:
    """The task of a run, and the server that is asked about it, both as in training but for what an option says.

    Raises:
        CastawayError: there is no such run.
    """
    from castaway.tasks.registry import read_params, task_of
    from castaway.teacher.endpoint import endpoint_of

    chosen = read_params(params)
    server = endpoint_of(chosen.teacher)
    endpoint = replace(server, url=url or server.url, model=model or server.model)
    return task_of(chosen, run or next(iter(chosen.tasks))), endpoint


def _require_listener(url: str) -> None:
    """Refuse at once if nothing listens at an address: in training a server may be restarting, and is waited for.

    Raises:
        CastawayError: nothing does, or it is no address.
    """
    import socket
    from urllib.parse import urlsplit

    try:
        place = urlsplit(url)
        default = 443 if place.scheme == "https" else 80
        socket.create_connection((place.hostname or "", place.port or default), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CastawayError(
            f"no server listens at {url} ({reason}); start one (`castaway teacher serve`) or name another with --url"
        ) from None


@app.command()
def bench(
    url: Url = None,
    model: Model = None,
    params: Config = Path("params.yaml"),
    run: Run = None,
    questions: Annotated[int, typer.Option(min=1, help="Questions at each level.")] = 128,
    levels: Annotated[list[int] | None, typer.Option("--level", min=1, help="Concurrent questions.")] = None,
) -> None:
    """Measure throughput and latency of the answers, by the number of concurrent questions.

    Example: `castaway teacher bench`.
    """
    from castaway.metrics.markdown import table
    from castaway.teacher.inspection import measure_speed

    task, endpoint = _asked(params, run, url, model)
    _require_listener(endpoint.url)
    found = measure_speed(task, endpoint, levels or [1, 16, 64], questions)
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
