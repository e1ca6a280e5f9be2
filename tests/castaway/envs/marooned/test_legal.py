"""The legal actions are exactly those that are not refused, however they are found."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.actions import DIRECTIONS, FORMS, Action, legal_actions, refuse
from castaway.envs.marooned.observation import Observation, observe
from castaway.envs.marooned.state import SeenPile, distance
from tests.castaway.envs.marooned.tables import Table
from tests.castaway.envs.marooned.test_conservation import draw_action


def everything(observation: Observation) -> set[str]:
    """Every action but talk that can be spelt with the words of this game."""
    scenario = observation.scenario
    words = {
        "direction": list(DIRECTIONS),
        "slope": ["UP", "DOWN"],
        "pile": [pile.id for pile in observation.piles],
        "resource": scenario.resources,
        "amount": [str(number) for number in range(1, scenario.backpack + 3)],
        "name": scenario.crew,
        "component": list(scenario.components),
    }
    found = set()
    for verb, kinds in FORMS.items():
        if "text" in kinds:
            continue
        spellings: list[tuple[str, ...]] = [()]
        for kind in kinds:
            spellings = [(*start, word) for start in spellings for word in words[kind]]
        found |= {str(a) for a in (Action(verb, spelling) for spelling in spellings) if not refuse(observation, a)}
    return found


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6), turns=st.integers(0, 24))
@settings(max_examples=12)
def test_legal_is_what_is_not_refused(scenario: str, seed: int, turns: int) -> None:
    table, random = Table(scenario, seed), Random(seed)
    if scenario == "classic":
        table.world.turn = random.choice([1, 20, 80, 90])
    for sailor in table.world.living[:3]:
        table.put(sailor, table.world.camp, wood=2, apple=1, poison=1)
    table.world.store.update(wood=3, apple=1)
    table.world.ship[next(iter(table.scenario.components))] = 50
    for _ in range(turns):
        if not table.over:
            table.step({sailor.name: draw_action(table, sailor.name, random) for sailor in table.world.living})
    for sailor in table.world.living:
        observation = table.observation(sailor.name)
        legal = legal_actions(observation)
        assert len(set(legal)) == len(legal)
        assert set(legal) == everything(observation)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_a_look_finds_the_piles_in_sight_and_remembers_the_others(seed: int) -> None:
    table, random = Table("classic", seed), Random(seed)
    world, sailor = table.world, table.colonists[0]
    remembered: dict[str, SeenPile] = {}
    for _ in range(30):
        level = random.choice(list(table.scenario.levels))
        vision = table.scenario.levels[level].vision
        size = table.scenario.levels[level]
        sailor.place = (level, random.randrange(size.width), random.randrange(size.depth))
        for pile in random.sample(list(world.piles.values()), 3):
            pile.amount -= 1
            if not pile.amount:
                del world.piles[pile.id]
                world.by_place[pile.place].remove(pile.id)
        for id in [id for id, pile in remembered.items() if distance(pile.place, sailor.place) <= vision]:
            del remembered[id]
        for pile in world.piles.values():
            if distance(pile.place, sailor.place) <= vision:
                remembered[pile.id] = SeenPile(pile.id, pile.kind, pile.place, pile.amount)
        assert observe(world, sailor).piles == tuple(remembered[id] for id in sorted(remembered))
