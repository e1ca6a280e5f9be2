"""Plays MAROONED's crew against traitors that it never met in training.

    python -m benchmarks.traitors --episodes 200    then: castaway results --write docs/results.md

PPO's crew always plays against the scripted saboteur, which waits beside the ship for its chance, and the prompt names
whoever stands there alone (`lurks`). This shows what the crew is worth without that habit: against scripts with other
habits, and against the traitor that the run trained itself. Validation ids: no held-out game is asked. The metrics are
written to data/RUN/metrics/traitors.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import product
from random import Random

from tqdm import tqdm

from benchmarks.imitation import context_of
from benchmarks.seeds import ROOT, run, status_of
from castaway.envs.marooned.environment import MaroonedEnvironment, standard_casting
from castaway.envs.marooned.scripted import Saboteur, Script, Worker
from castaway.envs.marooned.task import Marooned
from castaway.errors import CastawayError
from castaway.metrics.intervals import proportion
from castaway.models.policy import using
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policies import ModelPolicy
from castaway.rl.rollout import Generation, Policy, play_episodes
from castaway.tasks.environment import Prompt, ids_in_a_row
from castaway.tasks.registry import task_of
from castaway.tools.marooned.traitors import Framer, HunchVoter, Impostor, Poisoner
from stages import evaluate
from stages.context import Context

FIRST_ID = 940_000_000
"""The first validation id; the others follow. PPO is watched on others."""
LEARNED = "the run's own traitor"
TRAITORS: dict[str, Callable[[], Script]] = {
    "saboteur": Saboteur,
    "impostor": Impostor,
    "poisoner": Poisoner,
    "framer": Framer,
}
"""The scripted traitors; only the first one is met in training."""
SCRIPTS: dict[str, Callable[[], Script]] = {"expert": Worker, "expert with hunches": HunchVoter}
"""The scripted crews."""
CREWS = ("sft", "final")
"""The crews with a model."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.traitors", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("--task", default="marooned", help="a run of params.yaml")
    top.add_argument("--episodes", type=int, default=200, help="games of each crew against each traitor")
    options = top.parse_args(arguments)

    def work() -> None:
        context = context_of(ROOT, options.task)
        task = task_of(context.params, context.run)
        if not isinstance(task, Marooned):
            raise CastawayError(f"{options.task} is a run of {task.name}, not of marooned; name another with --task")
        figures = measure(context, task, options.episodes)
        revision = run(ROOT, "git", "rev-parse", "--short", "HEAD").strip()
        path = ROOT / "data" / options.task / "metrics" / "traitors.json"
        found = {"episodes": options.episodes, "revision": revision, "crews": figures}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=2) + "\n", "utf-8")

    return status_of(work)


def measure(context: Context, task: Marooned, episodes: int) -> dict[str, dict[str, dict[str, float]]]:
    """The success rate of each crew against each traitor, with its interval."""
    ids, names = ids_in_a_row(task.training_ids(), FIRST_ID, episodes), [*TRAITORS, LEARNED]
    trained = policies(context)
    crews = {name: scripted(make) for name, make in SCRIPTS.items()} | trained
    found: dict[str, dict[str, dict[str, float]]] = {crew: {} for crew in crews}
    with tqdm(total=len(crews) * len(names) * episodes, unit="game") as bar:
        for crew, traitor in product(crews, names):
            # A scripted traitor is part of the environment; the learned one plays in it, as one of five sailors.
            alone = traitor in TRAITORS
            make = environments(task, TRAITORS[traitor]) if alone else task.make
            games = [(one, "crew" if alone else "all") for one in ids]
            played = play_episodes(make, games, divided(crews[crew], trained["final"]), teacher=None)
            bar.update(len(played))
            wins = proportion(sum(episode.outcome.success for episode in played), len(played))
            found[crew][traitor] = wins.entries("success_rate")
    return found


def policies(context: Context) -> dict[str, Policy]:
    """The policies of `CREWS`, which share one model."""
    seed_everything(context.params.seed, context.params.threads)
    tokenizer = ChatTokenizer.load(context.folder("base"))
    model, adapters = evaluate.trained_policies(context)
    policy = ModelPolicy(
        ActorCritic(model), tokenizer, evaluate.sampling_rules(context, tokenizer), evaluate.generator_of(context)
    )

    def with_adapter(name: str) -> Policy:
        def answer(prompts: Sequence[Prompt]) -> list[Generation]:
            with using(model, adapters[name]):
                return policy(prompts)

        return answer

    return {name: with_adapter(name) for name in CREWS}


def scripted(make: Callable[[], Script]) -> Policy:
    """A crew of scripts. They keep no memory, so one script plays all colonists."""
    script = make()
    return lambda prompts: [Generation(f"ACTION: {script(prompt.observation).action}") for prompt in prompts]


def divided(crew: Policy, traitor: Policy) -> Policy:
    """A policy in which two others share the sailors by role."""

    def answer(prompts: Sequence[Prompt]) -> list[Generation]:
        found: dict[int, Generation] = {}
        for policy, role in ((crew, "colonist"), (traitor, "traitor")):
            own = [at for at, prompt in enumerate(prompts) if prompt.role == role]
            if own:
                found |= zip(own, policy([prompts[at] for at in own]), strict=True)
        return [found[at] for at in range(len(prompts))]

    return answer


def environments(task: Marooned, traitor: Callable[[], Script]) -> Callable[[], MaroonedEnvironment]:
    """Makes environments of the task with that traitor in place of the saboteur."""

    def casting(role: str, random: Random) -> Script:
        return traitor() if role == "traitor" else standard_casting(role, random)

    return lambda: MaroonedEnvironment(task.game.scenario, task.game.rendering, casting)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
