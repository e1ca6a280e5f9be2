"""How well a judge agrees with the rules: its first answers on turns that it was not trained on, and how fast.

The turns are those of a run of the task `judge` (`castaway/envs/judge`). In training the rules have the last word, and
ask a second time; here each model is asked once, and nobody helps it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows
from castaway.envs.judge.environment import SEAT, Judged
from castaway.envs.judge.task import Judge
from castaway.metrics.markdown import percent, table, with_interval
from castaway.tasks.draws import place_of
from castaway.tasks.environment import Prompt, ids_in_a_row
from castaway.tasks.intervals import proportion
from castaway.tasks.registry import task_of
from castaway.teacher.agreement import Agreement, dispute
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault
from castaway.teacher.protocol import answer_schema, parse_answer

ABOUT_LEGALITY = ("calls a legal move illegal", "calls an illegal move legal")
ABOUT_ACTIONS = (*ABOUT_LEGALITY, "proposes an illegal action", "another correction")
UNREADABLE = "cannot be read"
EPISODES = 4  # played for each turn that is asked for, at most: some turns are known from training


def judge_of(params: Params, run: str) -> Judge:
    task = task_of(params, run)
    if not isinstance(task, Judge):
        raise CastawayError(f"{run} is a run of the task {task.name}, and not of judge; name one that trains a judge")
    return task


def further_turns(params: Params, run: str, count: int, root: Path) -> list[Prompt]:
    """Different turns of validation episodes, none of them among the demonstrations that the judge was trained on."""
    task = judge_of(params, run)
    path = root / "data" / run / "dataset" / "demonstrations.jsonl"
    known = {row["prompt"][-1]["content"] for row in read_rows(path, DEMONSTRATIONS)}
    found: list[Prompt] = []
    for prompt in _turns(
        task, ids_in_a_row(task.training_ids(), place_of("validation", params.seed), EPISODES * count)
    ):
        if (question := prompt.messages[-1]["content"]) not in known:
            known.add(question)
            found.append(prompt)
        if len(found) == count:
            return found
    raise CastawayError(f"{run} has {len(found)} validation turns unlike those of training; ask for fewer than {count}")


def _turns(task: Judge, ids: Sequence[int]) -> Iterator[Prompt]:
    environment = task.make()
    for task_id in ids:
        environment.reset(task_id, SEAT)
        while not environment.done:
            yield from environment.prompts()
            environment.step({})


def measure(task: Judge, endpoint: Endpoint, turns: Sequence[Prompt]) -> dict[str, Any]:
    """The figures of one model, and examples of what it got wrong; CastawayError if the server does not answer."""
    rules, agreement = task.make().judged_rules, Agreement()
    began = monotonic()
    texts, tokens = asyncio.run(_answers(endpoint, turns))
    seconds = monotonic() - began
    kinds: list[str] = []
    for prompt, text in zip(turns, texts, strict=True):
        judged: Judged = prompt.observation
        kind = UNREADABLE
        try:
            answer = parse_answer(text)
        except ValueError:
            pass
        else:
            refused = rules.refusal(judged.attempt.prompt.observation, answer.action)
            impossible = not judged.verdict.valid and refused is not None
            disputed = dispute(answer, judged.verdict, impossible=impossible)
            agreement.add(endpoint.model, disputed, judged.attempt.prompt.messages, judged.attempt.text)
            kind = disputed.kind if disputed else ""
        kinds.append(kind)
    illegal = [kind for kind, prompt in zip(kinds, turns, strict=True) if not prompt.observation.verdict.valid]
    return {
        "model": endpoint.model,
        "turns": len(turns),
        "illegal_replies": len(illegal),
        "readable": len(turns) - kinds.count(UNREADABLE),
        **proportion(_without(kinds, ABOUT_LEGALITY), len(kinds)).entries("validity"),
        **proportion(_without(illegal, ABOUT_ACTIONS), len(illegal)).entries("correction"),
        **proportion(kinds.count(""), len(kinds)).entries("verdict"),
        "seconds": round(seconds, 1),
        "answer_tokens": tokens,
        "disputes": agreement.report()["disputes"],
    }


def _without(kinds: Sequence[str], refused: Sequence[str]) -> int:
    return sum(kind not in (UNREADABLE, *refused) for kind in kinds)


async def _answers(endpoint: Endpoint, turns: Sequence[Prompt]) -> tuple[list[str], int]:
    client, schema = ChatClient(endpoint), answer_schema()
    try:
        texts = await asyncio.gather(*(client.complete(prompt.messages, schema) for prompt in turns))
    except ServerFault as fault:
        raise CastawayError(str(fault)) from None
    finally:
        await client.close()
    return texts, client.counts["answer tokens"]


def agreement_table(measured: Sequence[dict[str, Any]]) -> str:
    """A row for each model: what it shares with the rules, with 95 % intervals, and its speed."""
    header = ["model", "turns", "readable", "validity", "correction", "whole verdict", "verdicts/s", "tokens/s"]
    rows = []
    for one in measured:
        shares = [
            with_interval(proportion(round(one[name] * number), number))
            for name, number in (
                ("validity", one["turns"]),
                ("correction", one["illegal_replies"]),
                ("verdict", one["turns"]),
            )
        ]
        speed = [f"{one[name] / one['seconds']:.2f}" for name in ("turns", "answer_tokens")]
        rows.append([one["model"], str(one["turns"]), percent(one["readable"] / one["turns"]), *shares, *speed])
    return table(header, rows)
