"""Plays validation episodes of a run with any model, beside a random player and the expert; no build is changed.

Held-out blocks belong to the stage `evaluate`, whose every asking is recorded.
"""

from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.params import Params
from castaway.metrics.markdown import interval, share, table, with_interval
from castaway.models.policy import load_policy
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import return_large_blocks, seed_everything
from castaway.processes.hardware import require, torch_name
from castaway.processes.host_file import load_host
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.outcomes import figures_of
from castaway.rollout.play import Policy, play_episodes
from castaway.rollout.policies import ModelPolicy, scripted
from castaway.rollout.sampling import SamplingRules
from castaway.tasks.draws import place_of
from castaway.tasks.environment import index_at
from castaway.tasks.registry import task_class
from castaway.tasks.task import Task
from castaway.tools.weights import Weights, quieten

LOOKED_THROUGH = 1000  # ids whose games are told if there is none of the name that was typed

Evaluation = dict[str, dict[str, Any]]
"""The figures of each player by name."""


def evaluate(
    weights: Weights,
    root: Path,
    params: Params,
    run: str,
    *,
    seat: str,
    game: str,
    episodes: int,
    temperature: float | None,
) -> Evaluation:
    """The figures of the model, of the random player and of the expert, on the same validation episodes.

    `seat` is a seat or an opponent, empty for the main one; `game` a kind of episode, empty for all.
    """
    params = params.for_run(run)
    task = in_seat(params, run, seat)
    tasks = [(task_id, task.evaluation_seats[0]) for task_id in validation_ids(task, params.seed, game, episodes)]
    quieten()
    seed_everything(params.seed, params.threads)
    players = {"model": model_policy(weights, root, params, run, temperature)}
    players |= {name: scripted(task, name, params.seed, random_action_rate=0.0) for name in ("random", "expert")}
    figures = {}
    with tqdm(total=len(players) * len(tasks), desc="evaluate", unit="episode", disable=None) as bar:
        for name, player in players.items():
            ended = play_episodes(task.make, tasks, player, None, parallel=128, on_finished=lambda _: bar.update())
            figures[name] = figures_of(task, ended)
    return figures


def in_seat(params: Params, run: str, seat: str) -> Task[Any]:
    """The task of a run, whose one evaluated seat is `seat`; CastawayError if it has no such seat."""
    block = params.tasks[run]
    own = task_class(block.task)
    seats = (seat,) if seat else own.evaluation_seats[:1]
    task: Task[Any] = type(own.__name__, (own,), {"evaluation_seats": seats, "__module__": own.__module__})(block.game)
    try:
        known = task.make().seats
    except ValueError as error:  # of a seat that makes its opponent, as `mcts-50` does
        raise CastawayError(f"{run}: {error}") from None
    if seats[0] not in known:
        raise CastawayError(f"{run} has no seat {seat!r}; {did_you_mean(seat, known)}")
    return task


def validation_ids(task: Task[Any], seed: int, game: str, count: int) -> list[int]:
    """The first validation ids of a seed, of one game if it is named; CastawayError if there are fewer."""
    ids = task.training_ids()
    rest = (ids[place] for place in range(index_at(place_of("validation", seed), len(ids)), len(ids)))
    if game:
        looked = list(islice(rest, LOOKED_THROUGH))
        kinds = sorted({task.kind_of(task_id) for task_id in looked})
        if game not in kinds:
            raise CastawayError(f"the run plays no game {game!r}; {did_you_mean(game, kinds)}")
        rest = (task_id for part in (looked, rest) for task_id in part if task.kind_of(task_id) == game)
    chosen = list(islice(rest, count))
    if len(chosen) < count:
        raise CastawayError(f"there are {len(chosen):,} validation ids, where {count:,} are asked for; ask for fewer")
    return chosen


def model_policy(weights: Weights, root: Path, params: Params, run: str, temperature: float | None) -> Policy:
    """The model as a player, in the run's precision and on its device; by default at the temperature of `evaluate`."""
    kind = load_host(root).pin(f"evaluate@{run}", params.device)
    require(kind, f"evaluate@{run}")
    device = torch_name(kind)
    policy = load_policy(weights.base, weights.adapters, params.bases[params.tasks[run].base].dtype)
    tokenizer = ChatTokenizer.load(weights.base)
    actor = ActorCritic(policy).to(device)
    return_large_blocks(actor.hidden_size)
    rules = SamplingRules.of(tokenizer, params.ppo.rollout, temperature or params.evaluate.temperature)
    return ModelPolicy(actor, tokenizer, rules, torch.Generator(device=device).manual_seed(params.seed))


def as_table(evaluation: Evaluation) -> str:
    """A row for each player, with 95 % intervals."""
    header = ["player", "success (95 %)", "invalid replies", "mean return", "episodes"]
    rows = []
    for player, one in evaluation.items():
        mean = interval(one, "mean_return")
        returned = f"{mean.value:.2f} ({mean.low:.2f} to {mean.high:.2f})"
        invalid = with_interval(interval(one, "invalid_rate"))
        rows.append([player, share(one, "success_rate"), invalid, returned, str(one["episodes"])])
    return table(header, rows)
