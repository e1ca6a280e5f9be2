"""evaluate: plays the held-out ids with the base, SFT, PPO and final policies, and computes their metrics.

    python -m flows evaluate@marooned

There is no teacher: an invalid reply is replaced by the task's idle action. For comparison the demonstrators, the
expert and a player that draws legal actions play the same ids. If `best_of` is above 1, the SFT and the final policy
also play with best-of-n sampling: the reward model chooses among n replies. With `sampler: vllm` a server draws all
replies: first one of the base model, then one of the others.

On the CPU several processes play beside each other, each another policy, whose result does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import PeftModel
from tqdm import tqdm

from castaway.datasets import outcomes
from castaway.datasets.episodes import write_episode
from castaway.datasets.jsonl import write_rows
from castaway.metrics.figures import figures_of, unseen_figures
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
from castaway.tasks.draws import evaluation_episodes
from castaway.tasks.environment import Played, Prompt, held_out_block, held_out_ids
from castaway.tasks.registry import task_of
from castaway.tasks.reply import Reply
from castaway.tasks.task import Task
from stages.context import Context, log_nothing, trace_nothing
from stages.side_by_side import Share, side_by_side

DRAWN = [f"{rate}{end}" for rate in ("success_rate", "invalid_rate") for end in ("", "_low", "_high")]
"""The figures that are drawn by policy: 0 is the base model, 3 the final policy."""


Results = dict[str, tuple[dict[str, Any], list[Played]]]
"""The metrics and the episodes of each player, by name."""


def run(context: Context) -> dict[str, Any]:
    """Play with all policies, save all outcomes and some episodes, and return the metrics by policy."""
    task = task_of(context.params, context.run)
    processes = context.processes if context.params.evaluate.sampler == "here" else 1
    silent = replace(context, log=log_nothing, observe=log_nothing, trace=trace_nothing)
    metrics: dict[str, Any] = {}
    played: dict[str, list[Played]] = {}
    for results in side_by_side(play_share, silent, len(POLICIES) + len(SCRIPTED), processes):
        for name, (figures, episodes) in results.items():
            metrics[name], played[name] = figures, episodes
            if name in POLICIES:
                context.log(POLICIES.index(name), {figure: figures[figure] for figure in DRAWN})
    write_rows(context.output / outcomes.FILE, [_result(name, one) for name, all_ in played.items() for one in all_])
    for name, figures in task.compare(played).items():
        metrics[name] = {**metrics.get(name, {}), **figures}
    return metrics


def play_share(context: Context, share: Share) -> dict[int, Results]:
    """Play with those policies that no other process plays with; returns the results by the policy's number."""
    seed_everything(context.params.seed, context.params.threads)
    task = task_of(context.params, context.run)
    tasks, unseen = held_out_tasks(context, task), _unseen_tasks(context, task)
    rounds = len(POLICIES) + len(SCRIPTED) + (len(CHOSEN_FROM) if context.params.evaluate.best_of > 1 else 0)
    found: dict[int, Results] = {}
    with (
        tqdm(total=rounds * len(tasks + unseen), desc="evaluate", unit="episode", disable=share.helps) as bar,
        # Closed here even if an episode fails: otherwise a server would go on running.
        closing(_players(context, task)) as players,
    ):
        for number, together in enumerate(players):
            if not share.take(number):
                continue
            found[number] = {}
            for name, policy in together.items():
                all_episodes = play(context, task, tasks + unseen, policy, lambda: bar.update(share.count() - bar.n))
                episodes, further = all_episodes[: len(tasks)], all_episodes[len(tasks) :]
                figures = figures_of(task, episodes) | unseen_figures(further, task.evaluation_seats[:1])
                found[number][name] = figures, [_played(episode) for episode in episodes]
                _save(context, name, episodes[: context.params.evaluate.replays])
    return found


def _save(context: Context, name: str, episodes: Sequence[Episode]) -> None:
    """Save whole episodes of one policy."""
    for episode in episodes:
        path = context.output / name / f"{episode.task_id}.jsonl"
        write_episode(path, episode.task_id, episode.seat, episode.outcome, episode.snapshots)


def held_out_tasks(context: Context, task: Task[Any]) -> list[tuple[int, str]]:
    """Held-out ids and their seats; each seed of params.yaml plays another block of held-out ids."""
    params, counts = context.params.evaluate, evaluation_episodes(context.params.evaluate, task.evaluation_seats)
    ids = held_out_ids(task.training_ids(), held_out_block(params.block, context.params.seed), max(counts.values()))
    return [(task_id, seat) for seat, count in counts.items() for task_id in ids[:count]]


def _unseen_tasks(context: Context, task: Task[Any]) -> list[tuple[int, str]]:
    """Held-out ids of situations unlike those of training, in the main seat; none if the task has none."""
    params, ids = context.params.evaluate, task.unseen_ids()
    block = held_out_block(params.block, context.params.seed)
    found = held_out_ids(ids, block, params.further_episodes) if ids else []
    return [(task_id, task.evaluation_seats[0]) for task_id in found]


SCRIPTED = ("demonstrators", "expert", "random")
"""The players without a model."""

Players = Generator[dict[str, Policy], None, None]
"""The players by name, in the order of evaluation. Those that draw from one source come together, to play in turn."""


def _players(context: Context, task: Task[Any]) -> Players:
    """All players; the model of one is in memory, here or on a server, while it plays."""
    yield from _served(context) if context.params.evaluate.sampler == "vllm" else _drawn_here(context)
    yield from ({name: scripted(context, task, name)} for name in SCRIPTED)


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
                yield _with_best(context, name, policy, scorer)
        del model, actor, scorer, policy


def _served(context: Context) -> Players:
    """The players with a model, which a server has; the reward model, if one is needed, is in this process."""
    sft, tokenizer = context.folder("sft"), ChatTokenizer.load(context.folder("base"))
    rules = sampling_rules(context, tokenizer)
    scorer = _own_scorer(context, tokenizer) if context.params.evaluate.best_of > 1 else None
    with _serving(context, []) as url:
        yield _with_best(context, "base", ServedPolicy(url, tokenizer, rules), scorer)
    with _serving(context, [sft]) as url:
        policy = ServedPolicy(url, tokenizer, rules)
        yield _with_best(context, "sft", policy, scorer)
        for name, stage in (("ppo", "ppo"), ("final", "correction_sft")):
            policy.use(context.folder(stage))
            yield _with_best(context, name, policy, scorer)


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


def _with_best(context: Context, name: str, policy: Policy, scorer: Scorer | None) -> dict[str, Policy]:
    """A policy and, with a reward model and for those of `CHOSEN_FROM`, the best of several of its replies."""
    count = context.params.evaluate.best_of
    chosen = {f"{name}_best_of_{count}": BestOf(policy, scorer, count)} if scorer and name in CHOSEN_FROM else {}
    return {name: policy, **chosen}


def play(
    context: Context, task: Task[Any], tasks: Sequence[tuple[int, str]], policy: Policy, finished: Callable[[], Any]
) -> list[Episode]:
    """Play all episodes with one policy; the snapshots are kept only of the first, which are saved.

    Args:
        context: of the evaluation.
        task: the task of the run.
        tasks: ids and their seats.
        policy: answers the prompts.
        finished: is called for each episode that is over.
    """
    return play_episodes(
        task.make,
        tasks,
        policy,
        teacher=None,
        parallel=128,
        keep_snapshots=context.params.evaluate.replays,
        on_finished=lambda _: finished(),
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


def scripted(context: Context, task: Task[Any], name: str) -> Policy:
    """A player without a model: the demonstrators, the expert, or `random`.

    `random` draws one of the actions that the rules list, so none with talk; where they list none, it stays idle.
    """
    random, environment = Random(context.params.seed), task.make()

    def lot(prompt: Prompt) -> Reply:
        listed = environment.rules.legal_actions(prompt.observation)
        return Reply(task.aimless, random.choice(listed or (environment.idle,)))

    demonstrator = task.demonstrator(random, context.params.dataset.carelessness)
    player = {"demonstrators": demonstrator, "expert": task.expert, "random": lot}[name]

    def answer(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation(str(player(prompt))) for prompt in prompts]

    return answer


def _played(episode: Episode) -> Played:
    """An episode in the form in which tasks compare players."""
    turns = [turn for trajectory in episode.trajectories for turn in trajectory.turns]
    invalid = sum(not turn.valid for turn in turns)
    return Played(episode.task_id, episode.seat, episode.outcome, len(turns), invalid)


def _result(player: str, one: Played) -> outcomes.Result:
    return outcomes.Result(player, one.task_id, one.seat, one.outcome.success, one.turns, one.invalid)
