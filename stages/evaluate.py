"""evaluate: base, SFT, PPO and final policy play held-out ids, alone.

No teacher helps: what is not a legal action counts as idleness. On the same ids the demonstrators play as well, so that
every figure stands beside that of the players whom the student was shown. Where `best_of` says so, each policy plays
once more, and the reward model chooses among several of its replies.

    python -m flows evaluate@marooned
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from tqdm import tqdm

from castaway.envs.base import HELD_OUT_START, Prompt, block_of
from castaway.envs.registry import make_environment, task_module
from castaway.models.policy import load_model, load_tokenizer
from castaway.models.reward import RewardScorer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.rollout import Answer, Speaker, play_episodes
from castaway.rl.speaker import BestOf, ModelSpeaker
from castaway.rl.trajectory import Episode, Turn
from castaway.statistics import clustered_mean, proportion
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Play, count, save episodes."""
    params = context.params.evaluate
    seed_everything(context.params.seed, context.params.threads)
    base, sft, ppo, final = (context.folder(stage) for stage in ("base", "sft", "ppo", "correction_sft"))
    policies: dict[str, list[Path]] = {"base": [], "sft": [sft], "ppo": [sft, ppo], "final": [sft, final]}
    seats = task_module(context.task).EVALUATION_SEATS
    counts = {seat: params.episodes if seat == seats[0] else params.traitor_episodes for seat in seats}
    # A seed plays held-out episodes of its own: that several seeds agree is not the luck of the same 300.
    first = HELD_OUT_START + block_of(context.params.seed)
    tasks = [(first + number, seat) for seat in seats for number in range(counts[seat])]
    metrics: dict[str, Any] = {}
    rounds = len(policies) * (1 if params.best_of == 1 else 2) + 1
    with tqdm(total=rounds * len(tasks), desc="evaluate", unit="episode") as bar:

        def play(name: str, speaker: Speaker) -> None:
            episodes = play_episodes(
                lambda: make_environment(context.params, context.task),
                tasks,
                speaker,
                teacher=None,
                parallel=128,
                keep_snapshots=params.replays,
                on_finished=lambda _: bar.update(),
            )
            metrics[name] = {**_figures(episodes, seats), **_own_figures(context, episodes, seats[0])}
            for episode in episodes[: params.replays]:
                _save_episode(context.output / name / f"{episode.task_id}.jsonl", episode)

        scorer = RewardScorer.load(context.folder("reward_model"), base, [sft], load_tokenizer(base))
        for name, adapters in policies.items():
            speaker = _speaker(context, base, adapters)
            play(name, speaker)
            if params.best_of > 1:
                play(f"{name}_best_of_{params.best_of}", BestOf(speaker, scorer, params.best_of))
        play("demonstrators", _demonstrators(context))
    return metrics


def _speaker(context: Context, base: Path, adapters: Sequence[Path]) -> ModelSpeaker:
    """A policy with all of its adapters merged."""
    device = "cpu" if context.params.device == "cpu" else "cuda"
    actor = ActorCritic(load_model(base, adapters)).to(device)
    generator = torch.Generator(device=device).manual_seed(context.params.seed)
    params = context.params.evaluate
    ppo = context.params.ppo
    return ModelSpeaker(
        actor, load_tokenizer(base), params.temperature, ppo.max_new_tokens, generator, ppo.tokens_per_pass
    )


def _demonstrators(context: Context) -> Speaker:
    """The players that the demonstrations come from."""
    play = task_module(context.task).demonstrator(Random(context.params.seed), context.params.dataset.carelessness)

    def speak(prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer(str(play(prompt))) for prompt in prompts]

    return speak


def _figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy; those of a further seat bear its name."""
    figures: dict[str, Any] = {}
    for seat in seats:
        prefix = "" if seat == seats[0] else f"{seat}_"
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


def _is_cut(turn: Turn, stop: Any) -> bool:
    """Whether a reply that a model drew ends before its stop token."""
    return bool(turn.reply_tokens) and turn.reply_tokens[-1] != stop


def _save_episode(path: Path, episode: Episode) -> None:
    """A whole episode as JSON lines: a head, then its moments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {
        "task_id": episode.task_id,
        "seat": episode.seat,
        "success": episode.outcome.success,
        "ending": episode.outcome.ending,
    }
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=False) for row in [head, *episode.snapshots]]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
