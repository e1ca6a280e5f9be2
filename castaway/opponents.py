"""Further scripted sailors, for measuring how fair MAROONED is: more ways to play against, and ways to play badly.

Each sees its own observation and nothing else, like those of `castaway.envs.marooned.scripted`.
"""

from __future__ import annotations

from random import Random

from castaway.envs.marooned.actions import Action
from castaway.envs.marooned.compact import nearest_pile
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import REST, Decision, Saboteur, fetch, first_legal, go_to_camp, suspect, walk
from castaway.envs.marooned.state import distance


def _ballot(observation: Observation, name: str) -> Decision:
    verb = "VOTE" if observation.vote_open else "CALL_VOTE"
    return Decision(Action(verb, (name,)), f"suspect {name}")


def _living(observation: Observation) -> list[str]:
    return [mate.name for mate in observation.mates if mate.status == "alive"]


class Poisoner:
    """A traitor that gathers poison unseen and gives it to whoever is beside it; without poison it is a saboteur."""

    def __init__(self) -> None:
        """Fall back on sabotage."""
        self._saboteur = Saboteur()

    def __call__(self, observation: Observation) -> Decision:
        """Poison who is beside, fetch poison, or break the ship."""
        if not observation.phase.work:
            return self._saboteur(observation)
        poison = observation.scenario.poison_type
        if observation.backpack.get(poison):
            strike = first_legal(observation, *self._victims(observation))
            return strike if strike != REST else self._follow(observation)
        pile = nearest_pile(observation, {poison})
        if pile is None:
            return self._saboteur(observation)
        reach = observation.scenario.evidence.witness
        seen = any(mate.place and distance(mate.place, pile.place) <= reach for mate in observation.mates)
        if pile.place == observation.place and seen:
            return REST
        step = first_legal(observation, fetch(observation, pile))
        return step if step != REST else self._saboteur(observation)

    def _victims(self, observation: Observation) -> list[Decision]:
        """Those beside it who show no symptoms yet, unless a third sailor is near enough to see it."""
        reach = observation.scenario.evidence.witness
        near = [m for m in observation.mates if m.place and distance(m.place, observation.place) <= reach]
        beside = [m for m in near if m.place and distance(m.place, observation.place) <= 1 and not m.symptoms]
        return [Decision(Action("POISON", (mate.name,)), "unseen") for mate in beside] if len(near) == 1 else []

    def _follow(self, observation: Observation) -> Decision:
        """A step toward the nearest mate of its level."""
        places = [m.place for m in observation.mates if m.place and m.place[0] == observation.place[0]]
        nearest = min(places, key=lambda place: (distance(place, observation.place), place), default=None)
        if nearest is None:
            return first_legal(observation, go_to_camp(observation))
        return first_legal(observation, Decision(walk(observation, nearest), "follow"))


class Framer:
    """A traitor that plants evidence at the first discussion, calls a vote on it, and is a saboteur besides."""

    def __init__(self) -> None:
        """Fall back on sabotage."""
        self._saboteur = Saboteur()

    def __call__(self, observation: Observation) -> Decision:
        """Frame, then press for the ejection of whoever the log names."""
        if not observation.phase.vote:
            return self._saboteur(observation)
        named = suspect(observation, least=50)
        wishes = [_ballot(observation, named)] if named else []
        wishes += [Decision(Action("FRAME", (name,)), "blame") for name in _living(observation)[:1]]
        return first_legal(observation, *wishes)


class BlindVoter:
    """Votes in every discussion, on nothing: for the first living mate in the order of the crew, or any.

    All who follow the order name the same sailor, so that their votes add up as well as they can without knowledge.
    """

    def __init__(self, random: Random | None = None) -> None:
        """Draw from `random`, or follow the order."""
        self._random = random

    def __call__(self, observation: Observation) -> Decision:
        """A vote when there is one, else to wait."""
        mates = _living(observation)
        if not observation.phase.vote or not mates:
            return REST
        return first_legal(observation, _ballot(observation, self._random.choice(mates) if self._random else mates[0]))
