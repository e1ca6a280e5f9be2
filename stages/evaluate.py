"""evaluate: plays the held-out ids with the base, SFT, PPO and final policies, and computes their metrics.

    python -m flows evaluate@marooned

There is no teacher: an invalid reply is replaced by the task's idle action. For comparison the demonstrators, the
expert and a player that draws legal actions play the same ids; the base model plays the first tenth of them. If
`best_of` is above 1, the SFT and the final policy also play with best-of-n sampling: the reward model chooses among n
replies. With `sampler: vllm` a server draws all replies: first one of the base model, then one of the others.

On the CPU several processes play in parallel, each another policy, whose result does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftModel
from tqdm import tqdm

from castaway.config.sections import POLICIES
from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows
from castaway.models.policy import load_adapter, load_model, using
from castaway.models.reward import RewardScorer
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import return_large_blocks, seed_everything
from castaway.rollout import outcomes
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.episodes import write_episode
from castaway.rollout.outcomes import CHOSEN_FROM, figures_of, situation_figures, text_of, unseen_figures
from castaway.rollout.play import Policy, play_episodes
from castaway.rollout.policies import BestOf, ModelPolicy, scripted
from castaway.rollout.sampling import SamplingRules
from castaway.rollout.served_policy import ServedPolicy, serving_policy
from castaway.rollout.side_by_side import Share, side_by_side
from castaway.rollout.trajectory import Episode
from castaway.tasks.draws import evaluation_episodes
from castaway.tasks.environment import Played, Prompt, held_out_block, held_out_ids
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {
    "sft": "sft.success_rate",
    "ppo": "ppo.success_rate",
    "final": "final.success_rate",
    "low": "final.success_rate_low",
    "high": "final.success_rate_high",
    "invalid": "final.invalid_rate",
    "n": "final.episodes",
    "expert": "expert.success_rate",
}
"""Short name to figure, for `dvc metrics`: success in n episodes, of the final policy with its interval."""
DRAWN = [f"{rate}{end}" for rate in ("success_rate", "invalid_rate") for end in ("", "_low", "_high")]
"""The figures that are drawn by policy: 0 is the base model, 3 the final policy."""

PART = 10
"""The base model plays one in so many episodes: its replies are the longest, and no claim rests on it."""

Results = dict[str, tuple[dict[str, Any], list[Played]]]  # the metrics and the episodes of each player, by name


def run(context: Context) -> dict[str, Any]:
    """Play with all policies, save all outcomes and some episodes, and return the metrics by policy."""
    task = task_of(context.params, context.run)
    processes = context.processes if context.params.evaluate.sampler == "in_process" else 1
    metrics: dict[str, Any] = {}
    played: dict[str, list[Played]] = {}
    jobs = len(POLICIES) + len(SCRIPTED) + len(task.yardsticks())
    for results in side_by_side(play_share, context.silent(), jobs, processes):
        for name, (figures, episodes) in results.items():
            metrics[name], played[name] = figures, episodes
            if name in POLICIES:
                context.log(POLICIES.index(name), {figure: figures[figure] for figure in DRAWN})
    rows = (
        outcomes.Result(name, one.task_id, one.seat, one.outcome.success, one.turns, one.invalid)
        for name, all_ in played.items()
        for one in all_
    )
    outcomes.write_outcomes(context.output / outcomes.FILE, rows)
    for name, figures in task.compare({name: episodes for name, episodes in played.items() if name != "base"}).items():
        metrics[name] = {**metrics.get(name, {}), **figures}
    return metrics


def play_share(context: Context, share: Share) -> dict[int, Results]:
    """Play with those policies that no other process plays with; returns the results by the policy's number."""
    seed_everything(context.params.seed, context.params.threads)
    task = task_of(context.params, context.run)
    whole, part = held_out_tasks(context, task), held_out_tasks(context, task, PART)
    rows = read_rows(context.folder("dataset") / "demonstrations.jsonl", DEMONSTRATIONS)
    demonstrated, (seat, *_) = {text_of(row["prompt"]) for row in rows}, task.evaluation_seats
    rounds = len(POLICIES) - 1 + len(SCRIPTED) + (len(CHOSEN_FROM) if context.params.evaluate.best_of > 1 else 0)
    results: dict[int, Results] = {}
    with (
        tqdm(total=_count(part) + rounds * _count(whole), desc="evaluate", unit="episode", disable=share.helps) as bar,
        # Closed here even if an episode fails: otherwise a server would go on running.
        closing(_players(context, task)) as players,
    ):
        for number, together in enumerate(players):
            if not share.take(number):
                continue
            results[number] = {}
            for name, policy in together.items():
                tasks, unseen = part if name == "base" else whole
                all_episodes = play_episodes(
                    task.make,
                    tasks + unseen,
                    policy,
                    teacher=None,
                    parallel=128,
                    keep_snapshots=context.params.evaluate.replays,  # of the first, which are saved
                    on_finished=lambda _: bar.update(share.count() - bar.n),
                )
                episodes, further = all_episodes[: len(tasks)], all_episodes[len(tasks) :]
                figures = figures_of(task, episodes) | situation_figures(episodes, seat, demonstrated)
                figures |= unseen_figures(further, [seat])
                if name in (*POLICIES[1:], *SCRIPTED):
                    figures |= task.examined(_answers(policy))
                results[number][name] = figures, [_played(episode) for episode in episodes]
                for episode in episodes[: context.params.evaluate.replays]:
                    path = context.output / name / f"{episode.task_id}.jsonl"
                    write_episode(path, episode.task_id, episode.seat, episode.outcome, episode.snapshots)
    for number, (name, play) in enumerate(task.yardsticks().items(), start=len(POLICIES) + len(SCRIPTED)):
        if share.take(number):
            results[number] = {name: ({}, [play(*one) for one in whole[0]])}
    return results


def _answers(policy: Policy) -> Callable[[Sequence[Prompt]], Sequence[str]]:
    return lambda prompts: [generation.text for generation in policy(prompts)]


Tasks = tuple[list[tuple[int, str]], list[tuple[int, str]]]
"""Ids and seats: those held out, and those of situations unlike any in training, in the main seat, if there are."""


def held_out_tasks(context: Context, task: Task[Any], part: int = 1) -> Tasks:
    """What is played; of each kind one in `part`, the first ones."""
    params, unseen = context.params.evaluate, task.unseen_ids()
    counts = {seat: -(-count // part) for seat, count in evaluation_episodes(params, task.evaluation_seats).items()}
    block = held_out_block(params.block, context.params.seed)
    ids = held_out_ids(task.training_ids(), block, max(counts.values()))
    further = held_out_ids(unseen, block, -(-params.further_episodes // part)) if unseen else []
    tasks = [(task_id, seat) for seat, count in counts.items() for task_id in ids[:count]]
    return tasks, [(task_id, task.evaluation_seats[0]) for task_id in further]


def _count(tasks: Tasks) -> int:
    return sum(map(len, tasks))


SCRIPTED = ("demonstrators", "expert", "random")

Players = Generator[dict[str, Policy], None, None]
"""The players by name, in the order of evaluation. Those that draw from one source come together, to play in turn."""


def _players(context: Context, task: Task[Any]) -> Players:
    yield from _served(context) if context.params.evaluate.sampler == "vllm" else _in_process(context)
    seed, rate = context.params.seed, context.params.dataset.random_action_rate
    yield from ({name: scripted(task, name, seed, rate)} for name in SCRIPTED)


def _in_process(context: Context) -> Players:
    tokenizer = ChatTokenizer.load(context.folder("base"))
    base = load_model(context.folder("base"), dtype=context.dtype)
    trained = {"sft": None, "ppo": "default", "final": "final"}
    for model, adapters in ((base, {"base": None}), (_trained(context), trained)):
        actor = ActorCritic(model).to(context.torch_device)
        return_large_blocks(actor.hidden_size)
        scorer = _scorer(context, model, tokenizer) if context.params.evaluate.best_of > 1 else None
        for name, adapter in adapters.items():
            # The same draws for each policy.
            generator = torch.Generator(device=context.torch_device).manual_seed(context.params.seed)
            policy = ModelPolicy(actor, tokenizer, sampling_rules(context, tokenizer), generator)
            with using(model, adapter) if isinstance(model, PeftModel) else nullcontext():
                yield _with_best(context, name, policy, scorer)
        del model, actor, scorer, policy


def _served(context: Context) -> Players:
    sft, tokenizer = context.folder("sft"), ChatTokenizer.load(context.folder("base"))
    rules = sampling_rules(context, tokenizer)
    with _serving(context, tokenizer, []) as url:
        yield {"base": ServedPolicy(url, tokenizer, rules)}
    with _serving(context, tokenizer, [sft]) as url:
        # After the server has started: the reward model is as large as what it serves.
        scorer = _scorer(context, None, tokenizer) if context.params.evaluate.best_of > 1 else None
        policy = ServedPolicy(url, tokenizer, rules)
        yield _with_best(context, "sft", policy, scorer)
        for name, stage in (("ppo", "ppo"), ("final", "correction_sft")):
            policy.use(context.folder(stage))
            yield _with_best(context, name, policy, scorer)


def _serving(context: Context, tokenizer: ChatTokenizer, adapters: Sequence[Path]) -> AbstractContextManager[str]:
    rows = read_rows(context.folder("dataset") / "demonstrations.jsonl", DEMONSTRATIONS)
    return serving_policy(
        context.folder("base"),
        adapters,
        context.dtype,
        context.scratch / "sampler",
        tokenizer.longest(rows["prompt"]),
        context.params.ppo.rollout,
        context.params.ppo.lora,
        context.params.evaluate.sampler_gibibytes,
        context.vllm,
        context.vllm_size,
    )


def _with_best(context: Context, name: str, policy: Policy, scorer: RewardScorer | None) -> dict[str, Policy]:
    count = context.params.evaluate.best_of
    chosen = {f"{name}_best_of_{count}": BestOf(policy, scorer, count)} if scorer and name in CHOSEN_FROM else {}
    return {name: policy, **chosen}


def _trained(context: Context) -> Any:
    """The SFT policy with the adapters of PPO (`default`) and of correction SFT (`final`)."""
    model = load_model(context.folder("base"), [context.folder("sft")], context.dtype)
    adapted = load_adapter(model, context.folder("ppo"), trainable=False)
    adapted.load_adapter(str(context.folder("correction_sft")), "final")
    return adapted


def _scorer(context: Context, model: Any, tokenizer: ChatTokenizer) -> RewardScorer:
    """The reward model: one more adapter where the policies share its trunk, and otherwise a model of its own."""
    folder, base, sft = (context.folder(stage) for stage in ("reward_model", "base", "sft"))
    if isinstance(model, PeftModel):
        return RewardScorer.sharing(model, folder, tokenizer, context.params.ppo.tokens_per_pass)
    return RewardScorer.load(folder, base, [sft], tokenizer, context.dtype, context.torch_device)


def sampling_rules(context: Context, tokenizer: ChatTokenizer) -> SamplingRules:
    return SamplingRules.of(tokenizer, context.params.ppo.rollout, context.params.evaluate.temperature)


def _played(episode: Episode) -> Played:
    turns = [turn for trajectory in episode.trajectories for turn in trajectory.turns]
    return Played(episode.task_id, episode.seat, episode.outcome, len(turns), sum(not turn.valid for turn in turns))
