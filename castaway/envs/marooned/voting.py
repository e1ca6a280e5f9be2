"""Counts votes: at the deadline, at the end of the phase, or as soon as every living sailor has voted."""

from __future__ import annotations

from collections import Counter

from castaway.envs.marooned.evidence import log_clue
from castaway.envs.marooned.observation import phase_at
from castaway.envs.marooned.pay import Pay
from castaway.envs.marooned.state import World


def count_vote(world: World, pay: Pay) -> None:
    """Close the open vote if it is due, and eject the sailor that enough living sailors voted for."""
    vote = world.vote
    if vote is None or not _due(world):
        return
    world.vote, world.voted_today = None, True
    living = {sailor.name for sailor in world.living}
    valid = {voter: name for voter, name in vote.ballots.items() if voter in living and name in living}
    for voter, name in valid.items():
        rates = pay.of(world.sailors[voter])
        right = world.sailors[name].role == "traitor"
        pay.add(world.sailors[voter], rates.ballot_right if right else rates.ballot_wrong)
    ballots = Counter(valid.values())
    name, count = max(ballots.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    if count * 100 <= world.scenario.majority * len(living):
        log_clue(world, pay, "vote", "", 0, "The vote ejected nobody.")
        return
    ejected = world.sailors[name]
    guilty = ejected.role == "traitor"
    for sailor in world.living:
        rates = pay.of(sailor)
        pay.add(sailor, rates.traitor_ejected if guilty else rates.innocent_ejected)
    ejected.alive, ejected.ejected = False, True
    log_clue(world, pay, "vote", "", 0, f"The vote ejected {name}.")
    strength = world.scenario.evidence.false_information
    if guilty:
        world.winner, world.ending = "crew", "the traitor was ejected"
        return
    world.mistakes += 1
    if strength is not None:
        caller = vote.called_by
        log_clue(world, pay, "false", caller, strength, f"{caller} called the vote against an innocent.")


def _due(world: World) -> bool:
    assert world.vote is not None
    if world.clock >= world.vote.closes or all(sailor.name in world.vote.ballots for sailor in world.living):
        return True
    phase, number = phase_at(world.scenario, world.turn)
    return number == phase.turns
