"""Additional scripted players for measuring the balance of MAROONED: three traitors, and two colonists who vote.

Like those in `castaway.envs.marooned.scripted`, each sees only its own observation.
"""

from __future__ import annotations

from random import Random

from castaway.envs.marooned.actions import Action
from castaway.envs.marooned.compact import lurker, nearest_pile
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import REST, Decision, Saboteur, Worker, ballot, fetch, first_legal, suspect, walk
from castaway.envs.marooned.state import distance


def _living(observation: Observation) -> list[str]:
    return [mate.name for mate in observation.mates if mate.status == "alive"]


class Poisoner:
    """A traitor that sabotages the ship if possible, and otherwise poisons one sailor after another, unseen."""

    def __init__(self) -> None:
        """Nobody is poisoned yet."""
        self._saboteur = Saboteur()
        self._poisoned: set[str] = set()

    def __call__(self, observation: Observation) -> Decision:
        """Sabotage the ship, poison a sailor within reach, follow one who is not, or fetch poison."""
        if not observation.phase.work:
            return self._saboteur(observation)
        strike = self._saboteur(observation)
        if strike.action.verb == "SABOTAGE":
            return strike
        healthy = [m for m in observation.mates if m.status == "alive" and m.name not in self._poisoned]
        if len(self._poisoned) >= observation.scenario.least_alive or not healthy:
            return self._saboteur(observation)
        here, poison = observation.place, observation.scenario.poison_type
        if observation.backpack.get(poison):
            mate = min(healthy, key=lambda m: (distance(m.place, here) if m.place else 1_000_000, m.name))
            strike = first_legal(observation, Decision(Action("POISON", (mate.name,)), "unseen"))
            if strike != REST:
                self._poisoned.add(mate.name)
                return strike
            if mate.place and mate.place[0] == here[0]:
                return first_legal(observation, Decision(walk(observation, mate.place), "follow"))
            return self._saboteur(observation)
        pile = nearest_pile(observation, {poison})
        if pile is None:
            return self._saboteur(observation)
        seen = any(m.place and distance(m.place, here) <= observation.scenario.evidence.witness for m in healthy)
        return REST if pile.place == here and seen else first_legal(observation, fetch(observation, pile))


class Framer:
    """A traitor that plants evidence in discussions and calls a vote on it, and otherwise acts as a saboteur."""

    def __init__(self) -> None:
        """Use a saboteur for all other turns."""
        self._saboteur = Saboteur()

    def __call__(self, observation: Observation) -> Decision:
        """Plant evidence, then vote for the sailor whom the log accuses most."""
        if not observation.phase.vote:
            return self._saboteur(observation)
        named = suspect(observation, least=50)
        wishes = [ballot(observation, named)] if named else []
        wishes += [Decision(Action("FRAME", (name,)), "blame") for name in _living(observation)[:1]]
        return first_legal(observation, *wishes)


class Impostor:
    """A traitor that goes where a worker goes and brings its load to the ship, but puts nothing into it.

    It sabotages the ship when nobody sees it, and never waits beside it.
    """

    def __init__(self) -> None:
        """Work with one script and harm with the other."""
        self._worker, self._saboteur = Worker(), Saboteur()

    def __call__(self, observation: Observation) -> Decision:
        """Sabotage if possible, otherwise what a worker does, without building."""
        strike = self._saboteur(observation)
        if not observation.phase.work or strike.action.verb == "SABOTAGE":
            return strike
        work = self._worker(observation)
        return REST if work.action.verb in ("BUILD", "DEPOSIT") else work


class BlindVoter:
    """Votes in every discussion without any evidence: for the first living sailor of the crew, or for a random one.

    Voters who follow the order of the crew agree on one sailor: the best that voters without knowledge can do.
    """

    def __init__(self, random: Random | None = None) -> None:
        """Choose with `random`; without it, follow the order of the crew."""
        self._random = random

    def __call__(self, observation: Observation) -> Decision:
        """Vote in a discussion, otherwise wait."""
        mates = _living(observation)
        if not observation.phase.vote or not mates:
            return REST
        return first_legal(observation, ballot(observation, self._random.choice(mates) if self._random else mates[0]))


class HunchVoter(Worker):
    """A worker that votes for whoever lurks beside the broken ship: what a crew can make of a saboteur's habits."""

    def __call__(self, observation: Observation) -> Decision:
        """The vote, if there is one to cast; otherwise what a worker does."""
        vote = first_legal(observation, ballot(observation, lurker(observation)))
        return vote if vote != REST else super().__call__(observation)
