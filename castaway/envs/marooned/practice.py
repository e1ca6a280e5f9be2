"""Extra replies for pretraining the tiny base model: the same situation with other aims, and the action for each aim.

From played turns alone a small model learns slowly where in a prompt to look; these replies show it for every resource.
"""

from __future__ import annotations

from random import Random

from castaway.envs.marooned.compact import bringable, heading, lurker, nearest_pile, ready_components
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import ballot, fetch, go_to_camp, suspect
from castaway.tasks.reply import Reply


def practice(observation: Observation, random: Random, count: int) -> list[Reply]:
    """At most `count` replies with different aims, in random order. They need not be legal or good."""
    piles = [nearest_pile(observation, {kind}) for kind in observation.scenario.resources]
    decisions = [fetch(observation, pile) for pile in piles if pile]
    answers = [Reply(decision.aim, str(decision.action)) for decision in decisions]
    # The prompt always shows what is carried and what can be built, so these replies fit it even away from the camp.
    answers += [Reply("store", f"DEPOSIT {kind} {amount}") for kind, amount in list(bringable(observation).items())[:1]]
    aim, verb = ("unseen", "SABOTAGE") if observation.role == "traitor" else ("ready", "BUILD")
    answers += [Reply(aim, f"{verb} {name}") for name in ready_components(observation)[:1]]
    named = (lurker(observation), suspect(observation, least=1))
    ballots = [ballot(observation, name) for name in dict.fromkeys(named)]
    answers += [Reply(vote.aim, str(vote.action)) for vote in ballots if vote]
    if heading(observation.place, observation.camp) != "here":
        decision = go_to_camp(observation)
        answers.append(Reply(decision.aim, str(decision.action)))
    random.shuffle(answers)
    return answers[:count]
