"""How busy the client keeps a teacher's server, and what waiting for a teacher costs a step of PPO.

    make bench-teacher      measure, print, and write benchmarks/teacher.md

The server is vLLM with an untrained model, whose answers are cut off after as many tokens as a short verdict has; so
every question is asked twice, and what is counted is completions. The server's own capacity is the best of bare
requests for the same with more and more of them open, asked in turns with the verdicts. The model is large enough that
a step of vLLM's is mostly arithmetic: with a tiny one, vLLM's processes, which wait for each other by spinning, starve
its HTTP server of a small host's processors, and the rate swings threefold from one minute to the next, whoever asks.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from benchmarks.overlap import overlap_table
from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.models.tiny import new_model, train_tokenizer
from castaway.serving.server import running
from castaway.serving.vllm import Serving
from castaway.tasks.environment import TextEnvironment
from castaway.tasks.registry import read_params, task_of
from castaway.teacher.answer import answer_schema, parse_answer
from castaway.teacher.chat_client import ChatClient, Endpoint
from castaway.teacher.inspection import distinct_attempts
from castaway.teacher.question import asked_again, question
from castaway.teacher.served import Conduct, ServedTeacher
from flows.tracking import revision

HERE = Path(__file__).parent
ANSWER_TOKENS = 48
CONTEXT = 4096
SIZE = {"hidden_size": 384, "layers": 6, "heads": 6}
LEVELS = [16, 64, 128]
OPEN = 64
QUESTIONS = 128
ROUNDS = 5
STEPS = 2
"""Of PPO, in each row of the second table."""
THREADS = 1
"""Of torch: the other processor is for the client and the servers, as it would be beside a GPU."""


def main() -> None:
    params = read_params(HERE.parent / "params.yaml").for_run("marooned")
    torch.set_num_threads(THREADS)
    parts = [
        f"# A teacher's server\n\nWritten by `make bench-teacher` at commit {revision(HERE.parent)[:7]}.",
        f"## How busy it is kept\n\nvLLM on a CPU, an untrained model, {ANSWER_TOKENS} tokens an answer; medians of "
        f"{ROUNDS} times {QUESTIONS} questions.\n\n{capacity_table(params)}",
        "## What a step of PPO waits for it\n\nA server that answers one question every so many milliseconds, as a GPU "
        f"elsewhere would, and the tiny model on {THREADS} thread. {overlap_table(params, STEPS)}",
    ]
    text = "\n\n".join(parts) + "\n"
    print(text, end="")
    (HERE / "teacher.md").write_text(text, encoding="utf-8")


def capacity_table(params: Params) -> str:
    """Completions a second, asked barely and as PPO asks."""
    environment = task_of(params, "marooned").make()
    with served(params, environment) as endpoint:
        asked(environment, endpoint, OPEN, 0)  # warms up
        bare: dict[int, list[float]] = {level: [] for level in LEVELS}
        verdicts, first = [], QUESTIONS
        for _ in range(ROUNDS):
            for level in LEVELS:
                bare[level].append(asked(environment, endpoint, level, first))
                first += QUESTIONS
            verdicts.append(judged(environment, endpoint, first))
            first += QUESTIONS
    most = max(median(rates) for rates in bare.values())
    rows = [[f"bare requests, {level} open", *_row(median(rates), most)] for level, rates in bare.items()]
    rows.append([f"verdicts as PPO asks for them, {OPEN} open", *_row(median(verdicts), most)])
    return table(["asked", "completions/s", "of its capacity"], rows)


def asked(environment: TextEnvironment, endpoint: Endpoint, level: int, first: int) -> float:
    """Completions a second of bare requests: each question, and again with what is wrong with the answer."""
    attempts = distinct_attempts(environment, first + QUESTIONS)[first:]
    messages = [question("marooned", environment.rules, attempt) for attempt in attempts]
    began = perf_counter()
    tries = asyncio.run(_twice(replace(endpoint, concurrency=level), messages))
    return tries / (perf_counter() - began)


async def _twice(endpoint: Endpoint, questions: list[list[dict[str, str]]]) -> int:
    """How many requests that took."""
    client, slots, schema = ChatClient(endpoint), asyncio.Semaphore(endpoint.concurrency), answer_schema()

    async def one(messages: list[dict[str, str]]) -> None:
        async with slots:
            text = await client.complete(messages, schema)
            try:
                parse_answer(text)
            except ValueError as error:
                await client.complete(asked_again(messages, text, str(error)), schema)

    await asyncio.gather(*(one(messages) for messages in questions))
    await client.close()
    return client.counts["tries"]


def _row(rate: float, most: float) -> list[str]:
    return [f"{rate:.1f}", f"{100 * rate / most:.0f} %"]


def judged(environment: TextEnvironment, endpoint: Endpoint, first: int) -> float:
    """Completions a second while so many situations are judged, none of them for the second time."""
    attempts = distinct_attempts(environment, first + QUESTIONS)[first:]
    teacher = ServedTeacher("marooned", environment.rules, replace(endpoint, concurrency=OPEN), Conduct())
    try:
        began = perf_counter()
        teacher.judge(attempts)
        return teacher.counts["tries"] / (perf_counter() - began)
    finally:
        teacher.close()


@contextmanager
def served(params: Params, environment: TextEnvironment) -> Iterator[Endpoint]:
    """VLLM with an untrained model that can read the questions."""
    asked = [question("marooned", environment.rules, attempt) for attempt in distinct_attempts(environment, 8)]
    tokenizer = train_tokenizer([message["content"] for messages in asked for message in messages], 1024)
    torch.manual_seed(0)
    model = new_model(params.base.model_copy(update=SIZE), tokenizer)
    model.config.max_position_embeddings = CONTEXT
    with tempfile.TemporaryDirectory(prefix="castaway-teacher-") as folder:
        weights = Path(folder) / "model"
        model.save_pretrained(weights)
        tokenizer.save_pretrained(weights)
        environment_folder = HERE.parent / ".venv-vllm"
        serving = Serving(str(weights), port=0, environment=environment_folder, log=Path(folder) / "log")
        with running(serving) as server:
            yield Endpoint(server.url, serving.model, answer_tokens=ANSWER_TOKENS)


if __name__ == "__main__":
    main()
