"""Every crew of a built run against every traitor: the SFT policy, PPO's, and the scripts, in the seat of all sailors.

The games have training ids, far from those that a run draws, so that no held-out id is asked. What each player typed is
counted by verb, beside the demonstrations: which actions it has learned.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import torch
from tqdm import tqdm

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows, reply_text
from castaway.envs.marooned.actions import FORMS
from castaway.envs.marooned.task import Marooned
from castaway.metrics.markdown import percent, table, with_interval
from castaway.models.policy import load_adapter, load_model, using
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation, Policy, play_episodes
from castaway.rollout.policies import ModelPolicy
from castaway.rollout.sampling import SamplingRules
from castaway.tasks.environment import Prompt
from castaway.tasks.intervals import Interval, proportion
from castaway.tasks.registry import read_params, task_of
from castaway.tasks.reply import parse_reply
from castaway.tools.marooned.balance import FIRST_ID

PLAYERS = ("sft", "ppo", "expert")
ROLES = ("colonist", "traitor")
INVALID = "no legal action"

Verbs = dict[str, dict[str, Counter[str]]]
"""By player and role, how often each verb was typed."""


@dataclass(frozen=True, slots=True)
class CrossTable:
    """What came of the games: wins of the crew by (crew, traitor), and the verbs."""

    run: str
    games: int
    """Of each crew against each traitor."""
    wins: Mapping[tuple[str, str], Interval]
    verbs: Verbs

    def as_json(self) -> str:
        """All numbers, for programs."""
        cells = [{"crew": c, "traitor": t, **one.entries("crew_wins")} for (c, t), one in self.wins.items()]
        content = {"run": self.run, "games": self.games, "first_id": FIRST_ID, "cells": cells, "verbs": self.verbs}
        return json.dumps(content, indent=2) + "\n"

    def as_markdown(self) -> str:
        """The tables: who wins, and for each role the share of its turns that each verb has."""
        rows = [[crew, *(with_interval(self.wins[crew, traitor]) for traitor in PLAYERS)] for crew in PLAYERS]
        parts = [
            f"Crew wins (95 %), {self.run}, {self.games} games a cell, training ids {FIRST_ID} and up.",
            table(["crew", *(f"traitor: {name}" for name in PLAYERS)], rows),
        ]
        for role in ROLES:
            counts = {player: of_role[role] for player, of_role in self.verbs.items()}
            typed = [verb for verb in (*FORMS, INVALID) if any(count[verb] for count in counts.values())]
            rows = [[verb, *(percent(c[verb] / max(1, c.total())) for c in counts.values())] for verb in typed]
            parts += [f"Share of the turns of a {role}, by verb.", table([role, *counts], rows)]
        return "\n\n".join(parts)


def cross_table(root: Path, run: str, games: int) -> CrossTable:
    """Play all pairs with a run's policies; CastawayError if it is no run of MAROONED, or is not built."""
    params = read_params(root / "params.yaml")
    task, params = task_of(params, run), params.for_run(run)
    if not isinstance(task, Marooned):
        raise CastawayError(f"{run} is a run of {task.name}; only runs of marooned have crews and traitors")
    verbs: Verbs = {"demonstrations": _demonstrated(root / "data" / run / "dataset" / "demonstrations.jsonl")}
    verbs |= {player: {role: Counter() for role in ROLES} for player in PLAYERS}
    seed_everything(params.seed, params.threads)
    policies, wins = _policies(root, run, params, task), {}
    for crew, traitor in tqdm(list(product(PLAYERS, PLAYERS)), desc="cross", unit="cell"):
        names, tasks = {"colonist": crew, "traitor": traitor}, [(FIRST_ID + n, "all") for n in range(games)]
        players = policies()
        sides = {role: players[name] for role, name in names.items()}
        episodes = play_episodes(task.make, tasks, partial(_by_role, sides), teacher=None)
        wins[crew, traitor] = proportion(sum(one.outcome.success for one in episodes), games)
        for trajectory in (part for episode in episodes for part in episode.trajectories):
            typed = (_verb(turn.action) if turn.valid else INVALID for turn in trajectory.turns)
            verbs[names[trajectory.role]][trajectory.role].update(typed)
    return CrossTable(run, games, wins, verbs)


def _policies(root: Path, run: str, params: Params, task: Marooned) -> Callable[[], dict[str, Policy]]:
    """Makes the players by name; those that are made together draw from one new generator."""
    base, name = root / "data" / params.tasks[run].base / "base", params.tasks[run].base
    sft, ppo = (root / "data" / run / stage for stage in ("sft", "ppo"))
    for folder in (base, sft, ppo):
        if not folder.is_dir():
            raise CastawayError(f"{folder} does not exist; `dvc repro` builds it")
    tokenizer = ChatTokenizer.load(base)
    model = load_adapter(load_model(base, [sft], params.bases[name].dtype), ppo, trainable=False)
    rules = SamplingRules.of(tokenizer, params.ppo.rollout, params.evaluate.temperature)
    actor = ActorCritic(model)

    def make() -> dict[str, Policy]:
        drawn = ModelPolicy(actor, tokenizer, rules, torch.Generator().manual_seed(params.seed))

        def play(adapter: str | None, prompts: Sequence[Prompt]) -> list[Generation]:
            with using(model, adapter):
                return drawn(prompts)

        def expert(prompts: Sequence[Prompt]) -> list[Generation]:
            return [Generation(str(task.expert(prompt))) for prompt in prompts]

        return {"sft": partial(play, None), "ppo": partial(play, "default"), "expert": expert}

    return make


def _by_role(sides: Mapping[str, Policy], prompts: Sequence[Prompt]) -> list[Generation]:
    """Each prompt's reply from the player of its role; those of a role are one batch."""
    by_role = {role: [prompt for prompt in prompts if prompt.role == role] for role in sides}
    drawn = {role: iter(sides[role](some) if some else ()) for role, some in by_role.items()}
    return [next(drawn[prompt.role]) for prompt in prompts]


def _demonstrated(path: Path) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {role: Counter() for role in ROLES}
    for row in read_rows(path, DEMONSTRATIONS):
        counts[row["role"]][_verb(parse_reply(reply_text(row["completion"])).action)] += 1
    return counts


def _verb(action: str) -> str:
    return action.split(" ", 1)[0]
