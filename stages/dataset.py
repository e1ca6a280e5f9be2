"""dataset: scripted play gives demonstrations, preference pairs, and the split of the task ids.

Demonstrations come from ordinary players, careless ones among them: SFT is to teach the form and the basics. The
pairs hold a competent player's answer against one that suits another situation, balanced so that no answer is better
in itself. Where a teacher is served, it writes some of both, in tasks that ask for it.

    python -m flows dataset@marooned
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from statistics import mean
from typing import Any

from castaway.datasets.jsonl import write_rows
from castaway.datasets.scripted import Demonstration, Pair, balanced_pairs, play_scripted
from castaway.models.policy import load_tokenizer
from castaway.models.tokens import prompt_tokens, reply_tokens
from castaway.tasks.environment import HELD_OUT_START, Prompt, TextEnvironment, block_of, ids_in_a_row
from castaway.tasks.registry import make_environment, task_module
from castaway.tasks.reply import Reply
from castaway.teacher.cache import AnswerCache
from castaway.teacher.endpoint import endpoint_of
from castaway.teacher.writer import written
from stages.context import Context

ScriptedTurn = tuple[Prompt, Reply]
"""What a script was shown, and what it said."""
FIRST_ID = 200_000_000
"""The first training id that this stage plays; held-out pairs begin at twice that."""


def run(context: Context) -> dict[str, Any]:
    """Write demonstrations, pairs, split and data card."""
    params = context.params.dataset
    environment = make_environment(context.params, context.task)
    random = Random(context.params.seed)
    texts = _written(context, environment)
    start = FIRST_ID + block_of(context.params.seed)
    turns = _played(context, environment, start, params.episodes)

    # Demonstrations: what a served teacher writes, and some turns of many episodes.
    drawn = [(text.prompt, text.reply) for text in texts][: params.demonstrations]
    drawn += random.sample(turns, min(params.demonstrations - len(drawn), len(turns)))
    demonstrations = [Demonstration(prompt.messages, str(reply), prompt.role) for prompt, reply in drawn]
    write_rows(context.output / "demonstrations.jsonl", demonstrations)

    # Preference pairs: the same situations with a competent player's action; held-out ones from other episodes.
    share = max(1, params.episodes * params.held_out_pairs // params.pairs)
    others = _played(context, environment, start + FIRST_ID, share)
    written_pairs = [Pair(*row) for text in texts for row in text.pairs][: params.pairs]
    pairs, held_out_pairs = _pairs(context, environment, turns, others, written_pairs, random)
    write_rows(context.output / "pairs.jsonl", pairs)
    write_rows(context.output / "held_out_pairs.jsonl", held_out_pairs)

    # The split: what training may draw, and what evaluation plays.
    split = {"train": [0, HELD_OUT_START - 1], "held_out": [HELD_OUT_START, 2 * HELD_OUT_START - 1]}
    (context.output / "split.json").write_text(json.dumps(split, indent=2) + "\n", "utf-8")

    # The card.
    counts = {"demonstrations": len(demonstrations), "written": len(texts), "pairs": len(pairs)}
    metrics = {**counts, "held_out_pairs": len(held_out_pairs), **_sizes(context, demonstrations)}
    verbs = Counter(reply.action.split(" ", 1)[0] for _, reply in drawn)
    (context.output / "CARD.md").write_text(_card(context.task, metrics, verbs), "utf-8")
    return metrics


def _played(context: Context, environment: TextEnvironment, start: int, episodes: int) -> list[ScriptedTurn]:
    """The turns of ordinary players in so many training episodes, the first of them `start`."""
    module = task_module(context.task)

    def ordinary(stream: Random) -> Callable[..., Any]:
        return module.demonstrator(stream, context.params.dataset.carelessness)

    ids = ids_in_a_row(module.training_ids(getattr(context.params, context.task)), start, episodes)
    return play_scripted(environment, module.SCRIPTED_SEAT, ids, ordinary)


def _pairs(
    context: Context,
    environment: TextEnvironment,
    turns: Sequence[ScriptedTurn],
    others: Sequence[ScriptedTurn],
    written_pairs: list[Pair],
    random: Random,
) -> tuple[list[Pair], list[Pair]]:
    """Pairs to learn from, the written ones among them, and from other episodes those that are held out."""
    module, params = task_module(context.task), context.params.dataset
    count = params.pairs - len(written_pairs)
    if not hasattr(module, "preference_pairs"):
        # Hard pairs are learned from; what is measured is drawn as it comes.
        plain, aimless = params.plain_share, module.AIMLESS
        situations = [(prompt, module.expert(prompt)) for prompt, _ in turns]
        held_out = [(prompt, module.expert(prompt)) for prompt, _ in others]
        pairs = written_pairs + balanced_pairs(situations, count, random, plain, aimless, params.alike_share)
        return pairs, balanced_pairs(held_out, params.held_out_pairs, random, plain, aimless)
    shown = [prompt for prompt, _ in turns]
    if params.imagined:
        made_up = [random.random() < params.imagined for _ in shown]
        shown = [
            module.imagine(environment, prompt, random) if made else prompt
            for prompt, made in zip(shown, made_up, strict=True)
        ]
    pairs = written_pairs + _own_pairs(module, shown, count, random)
    return pairs, _own_pairs(module, [prompt for prompt, _ in others], params.held_out_pairs, random)


def _sizes(context: Context, demonstrations: Sequence[Demonstration]) -> dict[str, Any]:
    """How many prompts, and how long they and the replies are in tokens."""
    tokenizer = load_tokenizer(context.folder("base"))
    prompts = [len(prompt_tokens(tokenizer, row.messages)) for row in demonstrations]
    replies = [len(reply_tokens(tokenizer, row.messages, row.reply)) for row in demonstrations]
    return {
        "distinct_prompts": len({json.dumps(row.messages) for row in demonstrations}),
        "prompt_tokens_mean": round(mean(prompts), 2),
        "prompt_tokens_longest": max(prompts),
        "reply_tokens_mean": round(mean(replies), 2),
        "reply_tokens_longest": max(replies),
    }


def _written(context: Context, environment: TextEnvironment) -> list[Any]:
    """What a served teacher writes, where the task asks for some; the rules write nothing."""
    module, params = task_module(context.task), context.params.teacher
    if params.kind == "rules" or not context.params.dataset.written or not hasattr(module, "Commission"):
        return []
    commission = module.Commission(environment)
    return written(endpoint_of(params), AnswerCache(context.verdicts), commission, context.params.dataset.written)


def _own_pairs(module: Any, prompts: Sequence[Prompt], count: int, random: Random) -> list[Pair]:
    """Pairs that the task makes itself of these situations."""
    return [Pair(*row) for row in module.preference_pairs(prompts, count, random)]


def _card(task: str, metrics: dict[str, Any], verbs: Counter[str]) -> str:
    """The data card."""
    count = metrics["written"]
    author = f"a served teacher wrote {count} situations" if count else "no person and no model wrote any"
    rows = [f"| {name.replace('_', ' ')} | {value} |" for name, value in metrics.items()]
    actions = [f"| {verb} | {count} |" for verb, count in sorted(verbs.items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join(
        [
            f"# Data of the task {task}",
            "",
            f"Played by scripts; {author} of it.",
            "",
            "- `demonstrations.jsonl`: situations and the answers of ordinary players, careless ones among them.",
            "- `pairs.jsonl`, `held_out_pairs.jsonl`: an answer that suits its situation, and one that suits another.",
            "- `split.json`: the task ids that training may draw, and those that evaluation plays.",
            "",
            "| what | count |",
            "|---|---|",
            *rows,
            "",
            "| demonstrated action | count |",
            "|---|---|",
            *actions,
            "",
        ]
    )
