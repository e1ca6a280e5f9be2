"""`castaway teacher`: serve a teacher model, check its verdicts, and measure how well it judges."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from castaway.config.errors import CastawayError
from castaway.config.key import secret
from castaway.tools.cli import group

app = group("Serve a teacher model, and check it.")

CHECKED_ID = 900_000_001


@app.command()
def serve(
    weights: Annotated[str, typer.Argument(help="A folder, or the name of a Hugging Face model.")],
    model: Annotated[str, typer.Option(help="The name of the model for clients.")] = "teacher",
    revision: Annotated[str | None, typer.Option(help="The commit of a Hugging Face model.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="NAME=PATH: a LoRA adapter, served as NAME.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens of question and answer together.")] = None,
    cache: Annotated[int | None, typer.Option(min=1, help="Memory of the KV cache, in GiB, on each GPU.")] = None,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="GPUs that each hold a part of every layer.")] = 1,
    data_parallel: Annotated[int, typer.Option(min=1, help="Copies of the model, which share the questions.")] = 1,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other hosts can reach needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8000,
    environment: Annotated[Path, typer.Option(help="The virtual environment with vLLM.")] = Path(".venv-vllm"),
    log: Annotated[Path, typer.Option(help="File for vLLM's log.")] = Path("scratch/teacher.log"),
    ready: Annotated[float, typer.Option(min=1, help="Time that vLLM may take to start, in seconds.")] = 600.0,
) -> None:
    """Serve a model with vLLM until Ctrl-C or SIGTERM; by default where `check` looks for it.

    Example: `castaway teacher serve Qwen/Qwen2.5-0.5B-Instruct`.
    """
    from castaway.rollout.server import running, stop_requests
    from castaway.rollout.vllm import Serving, find_vllm, read_adapter

    adapters = tuple(read_adapter(one) for one in adapter or ())
    size = (tensor_parallel, data_parallel)
    serving = Serving(weights, model, revision, adapters, context, cache, *size, host, port, environment, log, ready)
    with stop_requests() as stopping:
        typer.echo(f"starting vLLM for {find_vllm(environment)[1]}; its log is {log}")
        with running(serving, secret(), stopping) as server:
            typer.echo(f"{server.url} serves {', '.join([model, *(one.name for one in adapters)])}; Ctrl-C stops it")
            server.watch(stopping)
        typer.echo("stopped")


@app.command()
def check(
    url: Annotated[str | None, typer.Option(help="The server: http://HOST:PORT/v1; default: teacher.url.")] = None,
    model: Annotated[str | None, typer.Option(help="The server's name of the model; default: teacher.model.")] = None,
    params: Annotated[Path, typer.Option(help="The parameters, with the runs and the teacher.")] = Path("params.yaml"),
    run: Annotated[str | None, typer.Option(help="The run whose game is judged; default: the first.")] = None,
) -> None:
    """Ask for verdicts on four replies, and print them next to those of the rules.

    Example: `castaway teacher check`.
    """
    from castaway.metrics.markdown import table
    from castaway.processes.servers import get
    from castaway.tasks.registry import read_params, task_of
    from castaway.tasks.reply import Reply, parse_reply
    from castaway.tasks.verdict import Attempt, TeacherOutage
    from castaway.teacher.rules import RulesTeacher
    from castaway.teacher.served import ServedOptions, ServedTeacher, endpoint_of

    chosen = read_params(params)
    server = endpoint_of(chosen.teacher)
    endpoint = replace(server, url=url or server.url, model=model or server.model)
    task = task_of(chosen, run or next(iter(chosen.tasks)))
    try:
        get(endpoint.url)  # in training a server may be restarting, and is waited for
    except CastawayError as error:
        raise CastawayError(
            f"no server listens at {endpoint.url} ({error}); start one (`castaway teacher serve`) or name another "
            "with --url"
        ) from None
    environment = task.make()
    environment.reset(CHECKED_ID, environment.seats[0])
    prompt = environment.prompts()[0]
    action = task.expert(prompt).action
    # The expert's action, the same said twice, and two without sense.
    said = (action, f"{action} {action}", "DANCE", "I do not know")
    attempts = [Attempt.of(prompt, str(Reply("I think", one))) for one in said]
    with closing(ServedTeacher(task.rubric(), environment.rules, endpoint, ServedOptions())) as teacher:
        try:
            judged = teacher.judge(attempts)
        except TeacherOutage as error:
            # Its advice is for a stage, which can go on later.
            raise CastawayError(str(error).partition("; start it and run")[0]) from None
    rows = []
    for attempt, verdict, rules in zip(attempts, judged, RulesTeacher(environment.rules).judge(attempts), strict=True):
        verdicts = [f"{v.action} {v.penalty:g}{'' if v.valid else ' (corrected)'}" for v in (verdict, rules)]
        rows.append([parse_reply(attempt.text).action, verdict.source, *verdicts, verdict.critique])
    typer.echo(table(["answered", "judge", "verdict", "the rules", "critique"], rows))
    typer.echo(", ".join(f"{name}: {count:g}" for name, count in sorted(teacher.counts.items())))
    if teacher.unusable_share > chosen.teacher.most_unusable:
        raise CastawayError(
            f"{teacher.unusable_share:.0%} of the answers cannot be used, and the rules judged instead, more than "
            f"teacher.most_unusable ({chosen.teacher.most_unusable:.0%}); try another model"
        )


@app.command()
def measure(
    model: Annotated[
        list[str] | None, typer.Option(help="The server's name of a model; default: teacher.model.")
    ] = None,
    run: Annotated[str, typer.Option(help="The run that trains a judge.")] = "judge",
    turns: Annotated[int, typer.Option(min=1, help="Turns that each model is asked about.")] = 200,
    url: Annotated[str | None, typer.Option(help="The server: http://HOST:PORT/v1; default: teacher.url.")] = None,
    to: Annotated[Path | None, typer.Option(help="A JSON file for the figures, with examples of disputes.")] = None,
    root: Annotated[Path, typer.Option(help="The repository, or a copy in which a profile was built.")] = Path(),
) -> None:
    """Compare the first answers of models with the verdicts of the rules, on turns that no judge was trained on.

    Example: `castaway teacher measure --root scratch/teacher --model base --model smollm2-judge`.
    """
    import json

    from castaway.tasks.registry import read_params
    from castaway.teacher.served import endpoint_of
    from castaway.tools.agreement import agreement_table, further_turns, judge_of
    from castaway.tools.agreement import measure as measured

    params = read_params(root / "params.yaml")
    server, asked = endpoint_of(params.teacher), further_turns(params, run, turns, root)
    endpoints = [replace(server, url=url or server.url, model=name) for name in model or [server.model]]
    figures = [measured(judge_of(params, run), endpoint, asked) for endpoint in endpoints]
    if to:
        to.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", "utf-8")
    typer.echo(agreement_table(figures))
