"""evaluate: base, SFT, PPO and final policy play held-out ids, alone.

No teacher helps: what is not a legal action counts as idleness. On the same ids the demonstrators play as well, so that
every figure stands beside that of the players whom the student was shown. Where `best_of` says so, each policy plays
once more, and the reward model chooses among several of its replies.

    python -m flows evaluate@marooned
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from tqdm import tqdm

from castaway.datasets.episodes import write_episode
from castaway.metrics.charts import grouped_bars
from castaway.metrics.intervals import clustered_mean, proportion
from castaway.models.policy import load_model, load_tokenizer
from castaway.models.reward import RewardScorer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policies import BestOf, ModelPolicy
from castaway.rl.rollout import Generation, Policy, play_episodes
from castaway.rl.sampling import SamplingRules
from castaway.rl.trajectory import Episode, Turn
from castaway.tasks.environment import HELD_OUT_START, Played, Prompt, block_of, ids_in_a_row
from castaway.tasks.registry import make_environment, task_module
from stages.context import Context

POLICIES: dict[str, tuple[str, ...]] = {
    "base": (),
    "sft": ("sft",),
    "ppo": ("sft", "ppo"),
    "final": ("sft", "correction_sft"),
}
"""The stages whose adapters a policy is the base model with."""


def run(context: Context) -> dict[str, Any]:
    """Play, count, save episodes."""
    seed_everything(context.params.seed, context.params.threads)
    tasks, seats = _tasks(context), task_module(context.task).EVALUATION_SEATS
    metrics: dict[str, Any] = {}
    played: dict[str, list[Played]] = {}
    rounds = len(POLICIES) * (1 if context.params.evaluate.best_of == 1 else 2) + 1
    with tqdm(total=rounds * len(tasks), desc="evaluate", unit="episode") as bar:
        for name, speaker in _players(context):
            episodes = _play(context, tasks, speaker, bar)
            metrics[name] = {**_figures(episodes, seats), **_own_figures(context, episodes, seats[0])}
            played[name] = [_played(episode) for episode in episodes]
            for episode in episodes[: context.params.evaluate.replays]:
                path = context.output / name / f"{episode.task_id}.jsonl"
                write_episode(path, episode.task_id, episode.seat, episode.outcome, episode.snapshots)
    for name, figures in _comparison(context, played).items():
        metrics[name] = {**metrics.get(name, {}), **figures}
    _draw(context, metrics)
    return metrics


def _tasks(context: Context) -> list[tuple[int, str]]:
    """Held-out ids and seats. A seed plays episodes of its own: that seeds agree is not the luck of the same 300."""
    module, params = task_module(context.task), context.params.evaluate
    seats = module.EVALUATION_SEATS
    counts = {seat: params.episodes if seat == seats[0] else params.traitor_episodes for seat in seats}
    trained = module.training_ids(getattr(context.params, context.task))
    kin = ids_in_a_row(trained, block_of(context.params.seed), max(counts.values()))
    return [(HELD_OUT_START + task_id, seat) for seat in seats for task_id in kin[: counts[seat]]]


def _players(context: Context) -> Iterator[tuple[str, Policy]]:
    """Everybody by name, in the order in which they play; a policy is loaded when its turn comes."""
    base, count = context.folder("base"), context.params.evaluate.best_of
    reward_model, read_by = context.folder("reward_model"), [context.folder("sft")]
    scorer = RewardScorer.load(reward_model, base, read_by, load_tokenizer(base))
    for name, stages in POLICIES.items():
        speaker = _speaker(context, base, [context.folder(stage) for stage in stages])
        yield name, speaker
        if count > 1:
            yield f"{name}_best_of_{count}", BestOf(speaker, scorer, count)
    yield "demonstrators", _demonstrators(context)


def _play(context: Context, tasks: Sequence[tuple[int, str]], speaker: Policy, bar: Any) -> list[Episode]:
    return play_episodes(
        lambda: make_environment(context.params, context.task),
        tasks,
        speaker,
        teacher=None,
        parallel=128,
        keep_snapshots=context.params.evaluate.replays,
        on_finished=lambda _: bar.update(),
    )


def _draw(context: Context, metrics: dict[str, Any]) -> None:
    """The task's own charts, if it has any."""
    module = task_module(context.task)
    for name, (groups, figure) in (module.charts(metrics) if hasattr(module, "charts") else {}).items():
        (context.output / name).write_text(grouped_bars(groups, figure), "utf-8")


def _speaker(context: Context, base: Path, adapters: Sequence[Path]) -> ModelPolicy:
    """A policy with all of its adapters merged."""
    device = "cpu" if context.params.device == "cpu" else "cuda"
    actor = ActorCritic(load_model(base, adapters)).to(device)
    generator = torch.Generator(device=device).manual_seed(context.params.seed)
    tokenizer, ppo = load_tokenizer(base), context.params.ppo
    rules = SamplingRules.of(
        tokenizer,
        temperature=context.params.evaluate.temperature,
        max_new_tokens=ppo.max_new_tokens,
        tokens_per_pass=ppo.tokens_per_pass,
    )
    return ModelPolicy(actor, tokenizer, rules, generator)


def _demonstrators(context: Context) -> Policy:
    """The players that the demonstrations come from."""
    play = task_module(context.task).demonstrator(Random(context.params.seed), context.params.dataset.carelessness)

    def speak(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation(str(play(prompt))) for prompt in prompts]

    return speak


def _figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy; those of a further seat bear its name."""
    figures: dict[str, Any] = {}
    for seat in seats:
        prefix = _prefix(seat, seats)
        played = [episode for episode in episodes if episode.seat == seat]
        turns = [[t for trajectory in e.trajectories for t in trajectory.turns] for e in played]
        returns = [[sum(t.reward for t in trajectory.turns) for trajectory in e.trajectories] for e in played]
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


def _prefix(seat: str, seats: Sequence[str]) -> str:
    """What stands before the names of a seat's figures: nothing for the main one."""
    return "" if seat == seats[0] else f"{seat}_"


def _own_figures(context: Context, episodes: Sequence[Episode], seat: str) -> dict[str, Any]:
    """What the task itself reports of its main seat, if it does."""
    module = task_module(context.task)
    if not hasattr(module, "report"):
        return {}
    played = [episode for episode in episodes if episode.seat == seat]
    stop = load_tokenizer(context.folder("base")).eos_token_id
    cut = [any(_is_cut(turn, stop) for trajectory in e.trajectories for turn in trajectory.turns) for e in played]
    figures: dict[str, Any] = module.report([episode.outcome for episode in played], cut)
    return figures


def _comparison(context: Context, played: dict[str, list[Played]]) -> dict[str, Any]:
    """What the task itself says of the policies beside each other, if it does."""
    module, section = task_module(context.task), getattr(context.params, context.task)
    return dict(module.compare(section, played)) if hasattr(module, "compare") else {}


def _played(episode: Episode) -> Played:
    turns = [turn for trajectory in episode.trajectories for turn in trajectory.turns]
    invalid = sum(not turn.valid for turn in turns)
    return Played(episode.task_id, episode.seat, episode.outcome, len(turns), invalid)


def _is_cut(turn: Turn, stop: Any) -> bool:
    """Whether a reply that a model drew ends before its stop token."""
    return bool(turn.reply_tokens) and turn.reply_tokens[-1] != stop
