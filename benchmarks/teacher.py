"""Measures how well the client uses a teacher's server, and how long a PPO step waits for a teacher.

    make bench-teacher      measure, print, and write benchmarks/teacher.md

- The server is vLLM with an untrained model. Its answers end after as many tokens as a short verdict has, and so they
  are invalid; every question is asked twice, and completions are counted.
- The capacity of the server is the best rate of bare requests for the same questions, at several levels of concurrency.
  Bare requests and verdicts alternate.
- The model is large enough that vLLM mostly computes. With a tiny model, vLLM's processes wait for each other by
  spinning, which leaves too little of a small host's cores to its HTTP server; the rate then varies threefold from one
  minute to the next, for any client.
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

from benchmarks.attempts import distinct_attempts
from benchmarks.overlap import overlap_table
from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.processes.environment import revision
from castaway.rollout.server import running
from castaway.rollout.vllm import Serving
from castaway.tasks.environment import TextEnvironment
from castaway.tasks.registry import read_params, task_of
from castaway.teacher.chat_client import ChatClient, Endpoint
from castaway.teacher.protocol import answer_schema, asked_again, parse_answer, question
from castaway.teacher.served import ServedOptions, ServedTeacher

HERE = Path(__file__).parent
ANSWER_TOKENS = 48
"""Tokens of an answer."""
CONTEXT = 4096
"""Maximum number of tokens of question and answer together."""
SIZE = {"hidden_size": 384, "layers": 6, "heads": 6}
"""Size of the server's model."""
CONCURRENCIES = [16, 64, 128]
"""Numbers of concurrent bare requests."""
CONCURRENCY = 64
"""Number of concurrent requests for verdicts."""
QUESTIONS = 128
"""Questions of one measurement."""
ROUNDS = 5
"""Measurements of which the median is taken."""
STEPS = 2
"""PPO steps of each row of the second table."""
THREADS = 1
"""Threads of torch. The other core is for the client and the servers, as on a host with a GPU."""

RUBRIC = task_of(read_params(HERE.parent / "params.yaml"), "marooned").rubric()


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
    """A Markdown table of completions per second, with bare requests and with verdicts as PPO requests them."""
    environment = task_of(params, "marooned").make()
    with served(params, environment) as endpoint:
        asked(environment, endpoint, CONCURRENCY, 0)  # warms up
        bare: dict[int, list[float]] = {level: [] for level in CONCURRENCIES}
        # Each measurement gets new questions, since repeated ones could be answered from a cache.
        verdicts, first = [], QUESTIONS
        for _ in range(ROUNDS):
            for level in CONCURRENCIES:
                bare[level].append(asked(environment, endpoint, level, first))
                first += QUESTIONS
            verdicts.append(judged(environment, endpoint, first))
            first += QUESTIONS
    most = max(median(rates) for rates in bare.values())
    rows = [[f"bare requests, {level} open", *_row(median(rates), most)] for level, rates in bare.items()]
    rows.append([f"verdicts as PPO asks for them, {CONCURRENCY} open", *_row(median(verdicts), most)])
    return table(["asked", "completions/s", "of its capacity"], rows)


def asked(environment: TextEnvironment, endpoint: Endpoint, level: int, first: int) -> float:
    """Completions per second of bare requests.

    Each question is asked once, and again with the error in its answer, as the teacher's client does.

    Args:
        environment: the source of the questions.
        endpoint: the server.
        level: number of concurrent requests.
        first: number of the first question, of `QUESTIONS` in a row.
    """
    attempts = distinct_attempts(environment, first + QUESTIONS)[first:]
    messages = [question(RUBRIC, environment.rules, attempt) for attempt in attempts]
    began = perf_counter()
    tries = asyncio.run(_twice(replace(endpoint, concurrency=level), messages))
    return tries / (perf_counter() - began)


async def _twice(endpoint: Endpoint, questions: list[list[dict[str, str]]]) -> int:
    """Ask each question, and again if its answer is invalid; returns the number of requests."""
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
    """The cells for a rate: completions per second, and the share of the highest rate."""
    return [f"{rate:.1f}", f"{100 * rate / most:.0f} %"]


def judged(environment: TextEnvironment, endpoint: Endpoint, first: int) -> float:
    """Completions per second while a served teacher judges `QUESTIONS` new situations, from number `first` on."""
    attempts = distinct_attempts(environment, first + QUESTIONS)[first:]
    teacher = ServedTeacher(RUBRIC, environment.rules, replace(endpoint, concurrency=CONCURRENCY), ServedOptions())
    try:
        began = perf_counter()
        teacher.judge(attempts)
        return teacher.counts["tries"] / (perf_counter() - began)
    finally:
        teacher.close()


@contextmanager
def served(params: Params, environment: TextEnvironment) -> Iterator[Endpoint]:
    """Context in which vLLM serves an untrained model, with a tokenizer trained on the questions."""
    asked = [question(RUBRIC, environment.rules, attempt) for attempt in distinct_attempts(environment, 8)]
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
