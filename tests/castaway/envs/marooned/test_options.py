"""Weather and victory tiers, which a scenario may have."""

from typing import Any

import pytest

from castaway.envs.marooned import full
from castaway.envs.marooned.scenario import Scenario, load_scenario
from castaway.tools.marooned.rulebook import constants_table
from tests.castaway.envs.marooned.tables import Table

WEATHER = {"chance": 100, "fog_vision": 1, "rain_cost": 200, "clear_cost": 80}
TIERS = {"survivors": {4: 100, 3: 75, 2: 50}, "progress": {50: 100, 80: 75, 101: 50}}


class Chosen(Table):
    """A table with changed constants."""

    def __init__(self, **changes: Any) -> None:
        scenario = Scenario.model_validate(load_scenario("classic").model_dump() | changes)
        super(Table, self).__init__(scenario, 1)

    def under(self, weather: str) -> "Chosen":
        self.world.weather = weather
        self._observations = {}
        return self


def test_a_storm_stops_work_and_nothing_else() -> None:
    table = Chosen(weather=WEATHER).under("storm")
    table.phase("exploration")
    sailor = table.colonists[0]
    assert table.sentence(sailor, "MOVE NORTH") == "MOVE is not possible in a storm."
    assert table.sentence(sailor, "SAY it blows") == ""
    assert "Weather: storm." in full.user_text(table.observation(sailor.name))


def test_fog_shortens_sight() -> None:
    table = Chosen(weather=WEATHER)
    one, other = table.colonists[:2]
    table.put(other, ("ground", 17, 15))
    seen = {}
    for weather in ("fog", ""):
        mate = table.under(weather).observation(one.name).mate(other.name)
        assert mate is not None
        seen[weather] = mate.place
    assert seen == {"fog": None, "": ("ground", 17, 15)}


@pytest.mark.parametrize(("weather", "cost"), [("rain", 10), ("clear", 4), ("", 5), ("fog", 5)])
def test_rain_is_hard_and_clear_skies_are_easy(weather: str, cost: int) -> None:
    table = Chosen(weather=WEATHER).under(weather)
    table.phase("exploration")
    sailor = table.put(table.colonists[0], ("ground", 0, 0), energy=50)
    table.lay("WOOD_900", "wood", sailor.place)
    table.do(**{sailor.name: "GATHER WOOD_900"})
    assert sailor.energy == 50 - cost


def test_the_weather_changes_at_dawn_and_is_drawn_from_the_seed() -> None:
    def days() -> list[str]:
        table, found = Chosen(weather=WEATHER), []
        for _ in range(5):
            found.append(table.world.weather)
            table.world.turn = table.scenario.turns_per_day
            table.step({})
        return found

    assert days() == days() and len(set(days())) > 1
    assert Table().world.weather == ""


@pytest.mark.parametrize(("dead", "share"), [(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.0)])
def test_the_crews_victory_is_worth_its_survivors(dead: int, share: float) -> None:
    table = Chosen(tiers=TIERS, least_alive=1)
    for sailor in table.colonists[:dead]:
        sailor.alive = False
    table.world.ship = dict.fromkeys(table.world.ship, 100)
    table.world.milestones = {"25", "50", "75"}
    assert table.step({})[table.colonists[3].name] == pytest.approx(100 * share + 0.04)


@pytest.mark.parametrize(("points", "share"), [(0, 1.0), (49, 1.0), (50, 0.75), (80, 0.5)])
def test_the_traitors_victory_is_worth_what_it_has_prevented(points: int, share: float) -> None:
    table = Chosen(tiers=TIERS)
    table.world.ship = dict.fromkeys(table.world.ship, points)
    table.world.day, table.world.turn = table.scenario.days, table.scenario.turns_per_day
    assert table.step({})[table.traitor.name] == pytest.approx(100 * share - 0.01)


def test_the_rules_tell_them() -> None:
    text = constants_table([Chosen(weather=WEATHER, tiers=TIERS).scenario])
    assert "fog (sight 1)" in text and "75 % with 3 colonists" in text
