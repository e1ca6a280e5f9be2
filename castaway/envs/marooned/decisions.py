"""Decisions of scripted sailors, each with its aim, and what they are made of: steps, errands and ballots."""

from collections.abc import Callable
from dataclasses import dataclass

from castaway.envs.marooned.actions import WAIT, Action, refuse
from castaway.envs.marooned.compact import heading
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.state import Place, SeenPile
from castaway.tasks.reply import Reply


@dataclass(frozen=True, slots=True)
class Decision:
    """An action of a scripted sailor, with the aim that becomes its reasoning."""

    action: Action
    aim: str

    @property
    def reply(self) -> Reply:
        return Reply(self.aim, str(self.action))


Script = Callable[[Observation], Decision]  # a legal action for this turn


def walk(observation: Observation, goal: Place) -> Action:
    """One step toward a place, as if it were on the sailor's level; WAIT at the place itself."""
    direction = heading(observation.place, (observation.place[0], goal[1], goal[2]))
    return WAIT if direction == "here" else Action("MOVE", (direction,))


def fetch(observation: Observation, pile: SeenPile) -> Decision:
    if pile.place == observation.place:
        return Decision(Action("GATHER", (pile.id,)), f"{pile.id} here")
    return Decision(walk(observation, pile.place), f"{pile.id} {heading(observation.place, pile.place)}")


def go_to_camp(observation: Observation) -> Decision:
    return Decision(walk(observation, observation.camp), f"camp {heading(observation.place, observation.camp)}")


def first_legal(observation: Observation, *wishes: Decision | None) -> Decision:
    """The first of the decisions that is legal now; if none is, WAIT."""
    return next((wish for wish in wishes if wish is not None and refuse(observation, wish.action) is None), REST)


REST = Decision(WAIT, "rest")


def ballot(observation: Observation, name: str) -> Decision | None:
    """A vote against the sailor of this name, which need not be legal now; None without a name."""
    verb = "VOTE" if observation.vote_open else "CALL_VOTE"
    return Decision(Action(verb, (name,)), f"suspect {name}") if name else None
