"""evaluate: plays the held-out ids with the base, SFT, PPO and final policies, and computes their metrics.

    python -m flows evaluate@marooned

There is no teacher: an invalid reply is replaced by the task's idle action. For comparison the demonstrators, the
expert and a player that draws legal actions play the same ids. If `best_of` is above 1, the SFT and the final policy
also play with best-of-n sampling: the reward model chooses among n replies. With `sampler: vllm` a server draws all
replies: first one of the base model, then one of the others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import PeftModel
from tqdm import tqdm

from castaway.datasets import outcomes
from castaway.datasets.episodes import write_episode
from castaway.datasets.jsonl import write_rows
from castaway.metrics.intervals import clustered_mean, proportion
from castaway.metrics.policies import CHOSEN_FROM, POLICIES
from castaway.models.memory import return_large_blocks
from castaway.models.policy import load_adapter, load_model, using
from castaway.models.reward import RewardScorer
from castaway.models.scorer import Scorer
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policies import BestOf, ModelPolicy
from castaway.rl.policy_server import serving_policy
from castaway.rl.rollout import Generation, Policy, play_episodes
from castaway.rl.sampling import SamplingRules
from castaway.rl.served_sampler import ServedPolicy
from castaway.rl.trajectory import Episode
from castaway.tasks.environment import Played, Prompt, held_out_block, held_out_ids
from castaway.tasks.registry import task_of
from castaway.tasks.reply import Reply
from castaway.tasks.task import Task
from stages.context import Context

DRAWN = [f"{rate}{end}" for rate in ("success_rate", "invalid_rate") for end in ("", "_low", "_high")]
"""The figures that are drawn by policy: 0 is the base model, 3 the final policy."""


def run(context: Context) -> dict[str, Any]:
    """Play with all policies, save all outcomes and some episodes, and return the metrics by policy."""
    seed_everything(context.params.seed, context.params.threads)
    task = task_of(context.params, context.run)
    tasks, unseen = held_out_tasks(context, task), _unseen_tasks(context, task)
    metrics: dict[str, Any] = {}
    played: dict[str, list[Played]] = {}
    rounds = len(POLICIES) + len(SCRIPTED) + (len(CHOSEN_FROM) if context.params.evaluate.best_of > 1 else 0)
    with (
        tqdm(total=rounds * len(tasks + unseen), desc="evaluate", unit="episode") as bar,
        # Closed here even if an episode fails: otherwise a server would go on running.
        closing(_players(context, task)) as players,
    ):
        for name, policy in players:
            all_episodes = play(context, task, tasks + unseen, policy, bar)
            episodes, further = all_episodes[: len(tasks)], all_episodes[len(tasks) :]
            metrics[name] = figures_of(task, episodes) | _unseen_figures(further, task.evaluation_seats[:1])
            played[name] = [_played(episode) for episode in episodes]
            if name in POLICIES:
                context.log(POLICIES.index(name), {figure: metrics[name][figure] for figure in DRAWN})
            for episode in episodes[: context.params.evaluate.replays]:
                path = context.output / name / f"{episode.task_id}.jsonl"
                write_episode(path, episode.task_id, episode.seat, episode.outcome, episode.snapshots)
    write_rows(context.output / outcomes.FILE, [_result(name, one) for name, all_ in played.items() for one in all_])
    for name, figures in task.compare(played).items():
        metrics[name] = {**metrics.get(name, {}), **figures}
    return metrics


def held_out_tasks(context: Context, task: Task[Any]) -> list[tuple[int, str]]:
    """Held-out ids and their seats; each seed of params.yaml plays another block of held-out ids."""
    params, seats = context.params.evaluate, task.evaluation_seats
    counts = {seat: params.episodes if seat == seats[0] else params.further_episodes for seat in seats}
    ids = held_out_ids(task.training_ids(), held_out_block(params.block, context.params.seed), max(counts.values()))
    return [(task_id, seat) for seat in seats for task_id in ids[: counts[seat]]]


def _unseen_tasks(context: Context, task: Task[Any]) -> list[tuple[int, str]]:
    """Held-out ids of situations unlike those of training, in the main seat; none if the task has none."""
    params, ids = context.params.evaluate, task.unseen_ids()
    block = held_out_block(params.block, context.params.seed)
    found = held_out_ids(ids, block, params.further_episodes) if ids else []
    return [(task_id, task.evaluation_seats[0]) for task_id in found]


SCRIPTED = ("demonstrators", "expert", "random")
"""The players without a model."""

Players = Generator[tuple[str, Policy], None, None]
"""Name and policy of each player, in the order of evaluation."""


def _players(context: Context, task: Task[Any]) -> Players:
    """All players; the model of one is in memory, here or on a server, while it plays."""
    yield from _served(context) if context.params.evaluate.sampler == "vllm" else _drawn_here(context)
    yield from ((name, _scripted(context, task, name)) for name in SCRIPTED)


def _drawn_here(context: Context) -> Players:
    """The players with a model, which is in this process; one model at a time."""
    tokenizer = ChatTokenizer.load(context.folder("base"))
    for model, adapters in (_base(context), trained_policies(context)):
        actor = ActorCritic(model).to(context.torch_device)
        return_large_blocks(actor.hidden_size)
        scorer = _scorer(context, model, tokenizer) if context.params.evaluate.best_of > 1 else None
        for name, adapter in adapters.items():
            policy = ModelPolicy(actor, tokenizer, sampling_rules(context, tokenizer), generator_of(context))
            with using(model, adapter) if isinstance(model, PeftModel) else nullcontext():
                yield from _with_best(context, name, policy, scorer)
        del model, actor, scorer, policy


def _served(context: Context) -> Players:
    """The players with a model, which a server has; the reward model, if one is needed, is in this process."""
    sft, tokenizer = context.folder("sft"), ChatTokenizer.load(context.folder("base"))
    rules = sampling_rules(context, tokenizer)
    scorer = _own_scorer(context, tokenizer) if context.params.evaluate.best_of > 1 else None
    with _serving(context, []) as url:
        yield from _with_best(context, "base", ServedPolicy(url, tokenizer, rules), scorer)
    with _serving(context, [sft]) as url:
        policy = ServedPolicy(url, tokenizer, rules)
        yield from _with_best(context, "sft", policy, scorer)
        for name, stage in (("ppo", "ppo"), ("final", "correction_sft")):
            policy.use(context.folder(stage))
            yield from _with_best(context, name, policy, scorer)


def _serving(context: Context, adapters: Sequence[Path]) -> AbstractContextManager[str]:
    """Context with a server of the base model with these adapters merged, whose URL it yields."""
    return serving_policy(
        context.folder("base"),
        adapters,
        context.dtype,
        context.scratch / "sampler",
        context.folder("dataset") / "demonstrations.jsonl",
        max_new_tokens=context.params.ppo.max_new_tokens,
        rank=context.params.ppo.lora.rank,
        gibibytes=context.params.evaluate.sampler_gibibytes,
        environment=context.vllm,
    )


def _with_best(context: Context, name: str, policy: Policy, scorer: Scorer | None) -> Players:
    """A policy and, with a reward model and for those of `CHOSEN_FROM`, the best of several of its replies."""
    yield name, policy
    if scorer and name in CHOSEN_FROM:
        count = context.params.evaluate.best_of
        yield f"{name}_best_of_{count}", BestOf(policy, scorer, count)


def play(
    context: Context, task: Task[Any], tasks: Sequence[tuple[int, str]], policy: Policy, bar: Any
) -> list[Episode]:
    """Play all episodes with one policy; the snapshots are kept only of the first, which are saved.

    Args:
        context: of the evaluation.
        task: the task of the run.
        tasks: ids and their seats.
        policy: answers the prompts.
        bar: is moved on by one for each episode that is over.
    """
    return play_episodes(
        task.make,
        tasks,
        policy,
        teacher=None,
        parallel=128,
        keep_snapshots=context.params.evaluate.replays,
        on_finished=lambda _: bar.update(),
    )


POLICY_ADAPTERS = {"sft": None, "ppo": "default", "final": "final"}
"""Name of a trained policy to its adapter on top of SFT's weights."""


def _base(context: Context) -> tuple[Any, dict[str, str | None]]:
    return load_model(context.folder("base"), dtype=context.dtype), {"base": None}


def trained_policies(context: Context) -> tuple[Any, dict[str, str | None]]:
    """The SFT policy with the adapters of PPO and of correction SFT, and the policies that it can be."""
    model = load_model(context.folder("base"), [context.folder("sft")], context.dtype)
    adapted = load_adapter(model, context.folder("ppo"), trainable=False)
    adapted.load_adapter(str(context.folder("correction_sft")), "final")
    return adapted, POLICY_ADAPTERS


def _scorer(context: Context, model: Any, tokenizer: ChatTokenizer) -> RewardScorer:
    """The reward model: beside the policies that share its trunk, and a model of its own beside the base model."""
    if isinstance(model, PeftModel):
        folder = context.folder("reward_model")
        return RewardScorer.beside(model, folder, tokenizer, context.params.ppo.tokens_per_pass)
    return _own_scorer(context, tokenizer)


def _own_scorer(context: Context, tokenizer: ChatTokenizer) -> RewardScorer:
    """The reward model as a model of its own."""
    folder, base, sft = (context.folder(stage) for stage in ("reward_model", "base", "sft"))
    return RewardScorer.load(folder, base, [sft], tokenizer, context.dtype, context.torch_device)


def sampling_rules(context: Context, tokenizer: ChatTokenizer) -> SamplingRules:
    """How the replies of a policy are drawn in the evaluation."""
    return SamplingRules.of(
        tokenizer,
        temperature=context.params.evaluate.temperature,
        max_new_tokens=context.params.ppo.max_new_tokens,
        tokens_per_pass=context.params.ppo.sampling_tokens_per_pass,
    )


def generator_of(context: Context) -> torch.Generator:
    """The source of what is drawn at random for one policy; the same for each of them."""
    return torch.Generator(device=context.torch_device).manual_seed(context.params.seed)


def _scripted(context: Context, task: Task[Any], name: str) -> Policy:
    """A player without a model: the demonstrators, the expert, or `random`, which draws a legal action without talk."""
    random, rules = Random(context.params.seed), task.make().rules

    def lot(prompt: Prompt) -> Reply:
        return Reply(task.aimless, random.choice(rules.legal_actions(prompt.observation)))

    demonstrator = task.demonstrator(random, context.params.dataset.carelessness)
    player = {"demonstrators": demonstrator, "expert": task.expert, "random": lot}[name]

    def answer(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation(str(player(prompt))) for prompt in prompts]

    return answer


def figures_of(task: Task[Any], episodes: Sequence[Episode]) -> dict[str, Any]:
    """All metrics of one policy: those of every task, and the task's own."""
    return {**_figures(episodes, task.evaluation_seats), **_own_figures(task, episodes)}


def _figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy; those of seats other than the first carry the seat's name as a prefix."""
    figures: dict[str, Any] = {}
    for seat in seats:
        prefix = _prefix(seat, seats)
        played = [episode for episode in episodes if episode.seat == seat]
        turns = [[t for trajectory in e.trajectories for t in trajectory.turns] for e in played]
        returns = [[sum(t.reward for t in trajectory.turns) for trajectory in e.trajectories] for e in played]
        # Turns of one episode depend on each other, so their interval resamples whole episodes.
        invalid = clustered_mean([[float(not turn.valid) for turn in episode] for episode in turns])
        wins = proportion(sum(episode.outcome.success for episode in played), len(played))
        figures |= {
            f"{prefix}episodes": len(played),
            f"{prefix}turns": sum(len(episode) for episode in turns),
            **invalid.entries(f"{prefix}invalid_rate"),
            **wins.entries(f"{prefix}success_rate"),
            **clustered_mean(returns).entries(f"{prefix}mean_return"),
        }
    return figures


def _unseen_figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy in situations unlike those of training, with a prefix."""
    return {f"unseen_{name}": value for name, value in _figures(episodes, seats).items()} if episodes else {}


def _prefix(seat: str, seats: Sequence[str]) -> str:
    """The prefix of a seat's metrics: empty for the main seat, which is the first."""
    return "" if seat == seats[0] else f"{seat}_"


def _own_figures(task: Task[Any], episodes: Sequence[Episode]) -> dict[str, float]:
    """The additional metrics that the task itself defines, for its main seat."""
    played = [episode for episode in episodes if episode.seat == task.evaluation_seats[0]]
    cut = [any(turn.cut_off for trajectory in e.trajectories for turn in trajectory.turns) for e in played]
    return task.report([episode.outcome for episode in played], cut)


def _played(episode: Episode) -> Played:
    """An episode in the form in which tasks compare players."""
    turns = [turn for trajectory in episode.trajectories for turn in trajectory.turns]
    invalid = sum(not turn.valid for turn in turns)
    return Played(episode.task_id, episode.seat, episode.outcome, len(turns), invalid)


def _result(player: str, one: Played) -> outcomes.Result:
    return outcomes.Result(player, one.task_id, one.seat, one.outcome.success, one.turns, one.invalid)
