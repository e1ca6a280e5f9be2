"""dataset: makes demonstrations, preference pairs and the split of the task ids from scripted play.

    python -m flows dataset@marooned

- Demonstrations come from the task's demonstrator, which is sometimes careless: SFT teaches the format and the basics.
- A preference pair holds the expert's answer and one that suits another situation. The pairs are balanced, so that no
  answer is preferred more often than others regardless of the situation.
- If a teacher is served, it writes some of both, for tasks that define such writing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from operator import add
from random import Random
from statistics import mean
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig

from castaway.config.errors import CastawayError
from castaway.config.sections import DatasetParams
from castaway.datasets.jsonl import DEMONSTRATIONS, PAIRS, Row, card_header, demonstration, pair, reply_text, write_rows
from castaway.datasets.scripted import balanced_pairs, play_scripted
from castaway.models.tokens import ChatTokenizer, require_positions
from castaway.tasks.draws import Use, held_out_pair_episodes, place_of
from castaway.tasks.environment import HELD_OUT_START, Prompt, TextEnvironment, ids_in_a_row
from castaway.tasks.registry import task_of
from castaway.tasks.reply import Reply
from castaway.tasks.task import PairRow, Task, WrittenText
from castaway.teacher.protocol import AnswerCache
from castaway.teacher.served import endpoint_of, written

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {"n": "demonstrations"}
ScriptedTurn = tuple[Prompt, Reply]  # a prompt and the scripted reply to it


def run(context: Context) -> dict[str, Any]:
    """Write demonstrations, pairs, split and data card; returns the metrics."""
    params = context.params.dataset
    task, random = task_of(context.params, context.run), Random(context.params.seed)
    environment = task.make()
    texts = _written(context, task, environment)
    turns = _played(context, task, environment, "demonstrations", params.episodes)

    # Demonstrations: those that a served teacher wrote, and single turns drawn from many episodes.
    drawn = [(text.prompt, text.reply) for text in texts][: params.demonstrations]
    missing = params.demonstrations - len(drawn)
    if missing > len(turns):  # fewer demonstrations than asked for would go unnoticed
        raise CastawayError(
            f"{context.run}: {params.episodes} episodes have {len(turns)} turns of the demonstrator, "
            f"but dataset.demonstrations asks for {missing}; raise dataset.episodes"
        )
    drawn += _drawn(turns, missing, task if params.balanced else None, random)
    demonstrations = [demonstration(prompt.messages, str(reply), prompt.role) for prompt, reply in drawn]
    write_rows(context.output / "demonstrations.jsonl", demonstrations, DEMONSTRATIONS)

    # Preference pairs: the same situations with the expert's action; held-out pairs come from other episodes.
    others = _played(context, task, environment, "held-out pairs", held_out_pair_episodes(params))
    written_pairs = [row for text in texts for row in text.pairs][: params.pairs]
    pairs, held_out_pairs = _pairs(params, task, environment, turns, others, written_pairs, random)
    write_rows(context.output / "pairs.jsonl", (pair(*row) for row in pairs), PAIRS)
    write_rows(context.output / "held_out_pairs.jsonl", (pair(*row) for row in held_out_pairs), PAIRS)

    # The split: ids for training and ids for evaluation.
    split = {"train": [0, HELD_OUT_START - 1], "held_out": [HELD_OUT_START, 2 * HELD_OUT_START - 1]}
    (context.output / "split.json").write_text(json.dumps(split, indent=2) + "\n", "utf-8")

    # The data card.
    counts = {"demonstrations": len(demonstrations), "written": len(texts), "pairs": len(pairs)}
    metrics = {**counts, "held_out_pairs": len(held_out_pairs), **_sizes(context, demonstrations)}
    verbs = Counter(reply.action.split(" ", 1)[0] for _, reply in drawn)
    (context.output / "README.md").write_text(_card(context.run, metrics, verbs), "utf-8")
    return metrics


def _drawn(turns: Sequence[ScriptedTurn], count: int, task: Task[Any] | None, random: Random) -> list[ScriptedTurn]:
    """`count` of the turns, in random order; with a task, as many of each of its situations, as far as there are."""
    if task is None:
        return random.sample(turns, count)
    by_situation: dict[str, list[ScriptedTurn]] = {}
    for turn in turns:
        by_situation.setdefault(task.situation(turn[0]), []).append(turn)
    rarest_first = sorted(by_situation.items(), key=lambda item: (len(item[1]), item[0]))
    drawn: list[ScriptedTurn] = []
    for waiting, (_, similar) in zip(range(len(rarest_first), 0, -1), rarest_first, strict=True):
        # What a rare situation lacks, the others make up for.
        drawn += random.sample(similar, min((count - len(drawn)) // waiting, len(similar)))
    return random.sample(drawn, len(drawn))


def _played(context: Context, task: Task[Any], game: TextEnvironment, use: Use, episodes: int) -> list[ScriptedTurn]:
    ids = ids_in_a_row(task.training_ids(), place_of(use, context.params.seed), episodes)
    rate = context.params.dataset.random_action_rate
    return play_scripted(game, task.scripted_seat, ids, lambda stream: task.demonstrator(stream, rate))


def _pairs(
    params: DatasetParams,
    task: Task[Any],
    environment: TextEnvironment,
    turns: Sequence[ScriptedTurn],
    others: Sequence[ScriptedTurn],
    written_pairs: list[PairRow],
    random: Random,
) -> tuple[list[PairRow], list[PairRow]]:
    count = params.pairs - len(written_pairs)
    shown = [prompt for prompt, _ in turns]
    if params.synthetic_share and task.makes_synthetic:
        chosen = [random.random() < params.synthetic_share for _ in shown]
        shown = [task.synthetic(environment, p, random) if made else p for p, made in zip(shown, chosen, strict=True)]
    rows = task.preference_pairs(shown, count, random)
    if rows is not None:
        held_out_rows = task.preference_pairs([prompt for prompt, _ in others], params.held_out_pairs, random) or []
        return written_pairs + rows, held_out_rows
    # Only the training pairs are given hard negatives: the held-out pairs stay as drawn, for an unbiased accuracy.
    plain, aimless = params.no_reasoning_fraction, task.aimless
    situations = [(prompt, task.expert(prompt)) for prompt in shown]
    held_out = [(prompt, task.expert(prompt)) for prompt, _ in others]
    pairs = written_pairs + balanced_pairs(situations, count, random, plain, aimless, params.hard_negative_fraction)
    return pairs, balanced_pairs(held_out, params.held_out_pairs, random, plain, aimless)


def _sizes(context: Context, demonstrations: Sequence[Row]) -> dict[str, Any]:
    tokenizer = ChatTokenizer.load(context.folder("base"))
    prompts = [len(tokenizer.prompt(row["prompt"])) for row in demonstrations]
    replies = [len(tokenizer.reply(reply_text(row["completion"]))) for row in demonstrations]
    require_positions(AutoConfig.from_pretrained(context.folder("base")), max(map(add, prompts, replies)))
    return {
        "distinct_prompts": len({json.dumps(row["prompt"]) for row in demonstrations}),
        "prompt_tokens_mean": round(mean(prompts), 2),
        "prompt_tokens_longest": max(prompts),
        "reply_tokens_mean": round(mean(replies), 2),
        "reply_tokens_longest": max(replies),
    }


def _written(context: Context, task: Task[Any], environment: TextEnvironment) -> list[WrittenText]:
    """The texts that a served teacher writes, if the task defines such writing; none if the teacher is the rules."""
    params, count = context.params.teacher, context.params.dataset.written
    asked = task.writing_task(environment) if params.kind != "rules" and count else None
    return written(endpoint_of(params), AnswerCache(context.verdicts), asked, count) if asked else []


def _card(run: str, metrics: dict[str, Any], verbs: Counter[str]) -> str:
    count = metrics["written"]
    author = f"a served teacher wrote {count} situations" if count else "no person and no model wrote any"
    rows = [f"| {name.replace('_', ' ')} | {value} |" for name, value in metrics.items()]
    actions = [f"| {verb} | {count} |" for verb, count in sorted(verbs.items(), key=lambda item: (-item[1], item[0]))]
    header = card_header(
        {
            "demonstrations": (DEMONSTRATIONS, {"train": "demonstrations.jsonl"}),
            "pairs": (PAIRS, {"train": "pairs.jsonl", "test": "held_out_pairs.jsonl"}),
        }
    )
    table, tally = "\n".join(rows), "\n".join(actions)
    return f"""{header}# Data of the run {run}

Played by scripts; {author} of it.

- `demonstrations.jsonl`: situations and the answers of ordinary players, careless ones among them.
- `pairs.jsonl`, `held_out_pairs.jsonl`: an answer that suits its situation, and one that suits another.
- `split.json`: the task ids that training may draw, and those that evaluation plays.

| what | count |
|---|---|
{table}

| demonstrated action | count |
|---|---|
{tally}
"""
