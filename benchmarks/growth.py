"""Measures how the cost of a turn grows with parallel episodes, sailors that the policy plays, and prompt tokens."""

from __future__ import annotations

from random import Random

import torch

from benchmarks.rollouts import NO_STOP, Ours, rollout, untrained
from benchmarks.timing import clocked, timed
from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.models.policy import new_adapter
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.sampling import SamplingRules, sample_replies
from castaway.tasks.registry import task_of

REPLY = 16
"""Tokens of a reply."""


def growth_tables(params: Params, episodes: list[int], lengths: list[int], rounds: int) -> str:
    return "\n\n".join([_by_episodes(params, episodes, rounds), _by_length(params, lengths)])


def _by_episodes(params: Params, counts: list[int], rounds: int) -> str:
    tokenizer, model = untrained(params)
    policy = Ours(model, tokenizer, params)
    rows = []
    for seat, sailors in (("traitor", 1), ("crew", 4), ("all", 5)):

        def play(count: int, seat: str = seat) -> None:
            game = rollout(params, policy, count)
            draw = game._draw
            game._draw = lambda: (draw()[0], seat)  # type: ignore[method-assign]
            game.play(1)

        seconds = timed({str(count): lambda count=count: play(count) for count in counts}, rounds)
        for count in counts:
            spent, turns = seconds[str(count)], 2 * count * sailors
            each = [f"{1000 * one / turns:.2f}" for one in (spent.wall, spent.cpu)]
            rows.append([str(sailors), str(count), f"{turns / spent.wall:,.0f}", *each])
    scenario = task_of(params, "marooned").game.scenario
    head = f"Rollouts of {scenario}, {params.ppo.max_new_tokens} new tokens a turn, two rounds; medians of {rounds}."
    return f"{head}\n\n{table(['sailors', 'episodes', 'turns/s', 'ms a turn', 'CPU ms a turn'], rows)}"


def _by_length(params: Params, lengths: list[int]) -> str:
    """Speed of sampling and updating on random tokens; all rows have about the same total number of prompt tokens."""
    tokenizer, model = untrained(params)
    model.config.max_position_embeddings = 2 * max(lengths)
    actor, random = ActorCritic(new_adapter(model, params.ppo.lora)), Random(0)
    generator = torch.Generator().manual_seed(0)
    rules = SamplingRules(1.0, REPLY, NO_STOP, tokenizer.pad_token_id)
    rows = []
    for length in lengths:
        turns = max(1, 8192 // length)
        prompts = [[random.randrange(8, len(tokenizer)) for _ in range(length)] for _ in range(turns)]
        sampling = clocked(lambda prompts=prompts: sample_replies(actor, prompts, rules, generator)).wall
        batch = actor.batch([(prompt, prompt[:REPLY]) for prompt in prompts])
        training = clocked(lambda batch=batch: actor.score(batch, 1.0).logprobs.sum().backward()).wall
        tokens = turns * (length + REPLY)
        rows.append([str(length), str(turns), f"{tokens / sampling:,.0f}", f"{tokens / training:,.0f}"])
    head = f"Prompts of random tokens, {REPLY} new tokens each; an update is one forward and one backward pass."
    return f"{head}\n\n{table(['prompt tokens', 'turns', 'sampling tokens/s', 'update tokens/s'], rows)}"
