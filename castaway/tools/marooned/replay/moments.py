"""Prepares the data of a replay page: the true state in each moment, and what each sailor knew then.

The true state comes from the saved episode. What the sailors knew is found by playing the episode again, with its id
and its actions. The game is deterministic, so each moment must equal the saved one. If one differs, the rules have
changed since; the page then says so and shows only the true state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from castaway.datasets.episodes import Row
from castaway.envs.marooned.actions import parse_action
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.observation import Observation, phase_at
from castaway.envs.marooned.scenario import Scenario, load_scenario
from castaway.errors import CastawayError
from castaway.tools.marooned.rulebook import SCENARIOS

Data = dict[str, Any]

NEEDED = frozenset({"day", "turn", "sailors", "piles", "ship", "store", "clues", "messages"})
"""Keys that a saved moment must have to be drawn."""


def replay_data(rows: Sequence[Row]) -> Data:
    """All data of the page, as values that JSON can represent.

    Raises:
        CastawayError: the rows are not an episode of MAROONED.
    """
    head, *moments = rows
    if not is_of_marooned(rows):
        raise CastawayError("this is no episode of MAROONED: its moments lack the island")
    scenario = _scenario(moments[0])
    known = _knowledge(scenario, head, moments)
    return {
        "head": dict(head),
        "island": _island(scenario),
        "clues": moments[-1]["clues"],
        "talk": _talk(moments),
        "moments": _changes([_truth(scenario, moment) for moment in moments]),
        "known": known and {name: _changes(found) for name, found in known.items()},
    }


def is_of_marooned(rows: Sequence[Row]) -> bool:
    """Whether each moment of an episode has what is drawn."""
    _, *moments = rows
    return bool(moments) and all(set(moment) >= NEEDED for moment in moments)


def _scenario(moment: Row) -> Scenario:
    """The scenario that has this crew, ship and island; a saved episode does not name its scenario."""
    for name in SCENARIOS:
        scenario = load_scenario(name)
        levels = {place[0] for place in moment["piles"].values()}
        same = set(scenario.crew) == set(moment["sailors"]) and set(scenario.components) == set(moment["ship"])
        if same and levels <= set(scenario.levels):
            return scenario
    raise CastawayError("no scenario of MAROONED has the crew and the ship of this episode")


def _island(scenario: Scenario) -> Data:
    """The constants of the scenario that the page shows."""
    levels = {
        name: {"height": level.height, "width": level.width, "depth": level.depth, "vision": level.vision}
        for name, level in scenario.levels.items()
    }
    return {
        "name": scenario.name,
        "crew": scenario.crew,
        "levels": levels,
        "camp": [scenario.ground, *scenario.camp],
        "components": {name: part.share for name, part in scenario.components.items()},
        "energy": scenario.energy.most,
        "backpack": scenario.backpack,
        "days": scenario.days,
    }


def _truth(scenario: Scenario, moment: Row) -> Data:
    """The true state in a moment, as the page reads it."""
    phase, number = phase_at(scenario, moment["turn"])
    return {
        "day": moment["day"],
        "turn": moment["turn"],
        "phase": ", ".join(filter(None, [f"{phase.name} {number}/{phase.turns}", moment.get("weather", "")])),
        "sailors": moment["sailors"],
        "piles": moment["piles"],
        "store": moment["store"],
        "ship": moment["ship"],
        "vote": moment.get("vote"),
        "clues": len(moment["clues"]),
        "said": moment.get("said", {}),
        "did": moment.get("actions", {}),
        "winner": moment.get("winner", ""),
        "ending": moment.get("ending", ""),
    }


def _talk(moments: Sequence[Row]) -> list[Data]:
    """All messages, public or to one sailor, each with the number of the first moment in which it is known."""
    found: list[Data] = []
    for number, (before, after) in enumerate(pairwise(moments), start=1):
        for message in after["messages"][len(before["messages"]) :]:
            found.append({"moment": number, **{name: message.get(name, "") for name in ("speaker", "to", "text")}})
        # A message to one sailor is no entry of the public messages; it is found in the action.
        for speaker, typed in after.get("actions", {}).items():
            action = parse_action(typed)
            if action and action.verb == "TELL":
                to, text = action.arguments
                found.append({"moment": number, "speaker": speaker, "to": to, "text": text})
    return found


def _knowledge(scenario: Scenario, head: Row, moments: Sequence[Row]) -> dict[str, list[Data]] | None:
    """What each sailor knew in each moment; None if the episode differs from the saved one when it is played again."""
    environment = MaroonedEnvironment(scenario.name, "compact")
    known: dict[str, list[Data]] = {name: [] for name in scenario.crew}
    try:
        environment.reset(head["task_id"], head.get("seat", ""))
        for moment in moments:
            saved = {name: value for name, value in moment.items() if name != "said"}
            # Through JSON, so that tuples become lists as in the saved moment.
            if json.loads(json.dumps(environment.snapshot())) != saved:
                return None
            for name in scenario.crew:
                known[name].append(_known(environment.observation(name)))
            if not environment.done:
                environment.step({name: said["action"] for name, said in moment.get("said", {}).items()})
    except (ValueError, TypeError, KeyError):  # an id, a seat or an action that today's rules do not have
        return None
    return known


def _known(observation: Observation) -> Data:
    """What one sailor knows, in the form of a moment."""
    mates = {
        mate.name: {
            "status": mate.status,
            "place": list(mate.place) if mate.place else None,
            "symptoms": mate.symptoms,
        }
        for mate in observation.mates
    }
    return {
        "place": list(observation.place),
        "vision": observation.vision,
        "symptoms": observation.symptoms,
        "note": observation.note,
        "mates": mates,
        "piles": {pile.id: [*pile.place, pile.amount] for pile in observation.piles},
        "vote": observation.vote_open,
        "voted": observation.voted,
    }


def _changes(moments: Sequence[Data]) -> list[Data]:
    """The moments with only the piles that changed since the one before, which keeps the page small.

    None stands for a pile that is gone.
    """
    before: Data = {}
    found = []
    for moment in moments:
        piles = moment["piles"]
        changed = {id: pile for id, pile in piles.items() if before.get(id) != pile}
        found.append({**moment, "piles": {**changed, **dict.fromkeys(before.keys() - piles.keys())}})
        before = piles
    return found
