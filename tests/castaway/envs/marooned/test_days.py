"""Hunger, poison, pay, and how a game ends."""

import pytest

from castaway.envs.marooned.environment import MaroonedEnvironment
from tests.castaway.envs.marooned.tables import Table


def dawn(table: Table) -> dict[str, float]:
    """Play the last turn of the day."""
    table.world.turn = table.scenario.turns_per_day
    return table.step({})


def test_who_ate_is_stronger_at_dawn_and_who_did_not_is_weaker() -> None:
    table = Table()
    eater, faster = table.put(table.colonists[0], energy=50, apple=2), table.put(table.colonists[1], energy=50)
    table.do(**{eater.name: "EAT apple"})
    assert (eater.energy, eater.backpack, eater.ate) == (65, {"apple": 1}, True)
    dawn(table)
    assert (eater.energy, faster.energy) == (75, 30)
    dawn(table)  # what was eaten counts for one night
    assert (eater.energy, faster.energy) == (55, 10)


def test_food_does_not_lift_energy_above_the_most() -> None:
    table = Table()
    eater = table.put(table.colonists[0], energy=95, apple=1)
    table.do(**{eater.name: "EAT apple"})
    assert eater.energy == 100
    dawn(table)
    assert eater.energy == 100


def test_hunger_kills_is_paid_once_and_leaves_the_load_behind() -> None:
    table = Table()
    weak = table.put(table.colonists[0], energy=20, wood=3)
    paid = dawn(table)
    assert paid[weak.name] == pytest.approx(-50 - 0.01)
    assert not weak.alive and weak.energy == 0 and weak.backpack == {}
    assert [(p.kind, p.amount) for p in table.world.piles.values() if p.place == weak.place] == [("wood", 3)]
    assert table.world.clues[-1].text == f"{weak.name} died of hunger."
    assert table.step({})[weak.name] == 0.0


def test_a_traitor_that_starves_hands_nobody_the_victory() -> None:
    table = Table()
    table.put(table.traitor, energy=5)
    dawn(table)
    assert not table.traitor.alive and not table.over


def test_poison_shows_after_a_day_and_kills_after_three() -> None:
    table = Table().phase("exploration")
    victim, traitor = table.colonists[0], table.put(table.traitor, poison=1)
    table.do(**{traitor.name: f"POISON {victim.name}"})
    assert traitor.backpack == {}

    def signs() -> str:
        mate = table.observation(table.colonists[1].name).mate(victim.name)
        assert mate is not None
        return mate.symptoms

    assert signs() == ""
    seen = []
    for _ in range(2):
        dawn(table)
        seen.append(signs())
    assert seen == ["early", "severe"]
    paid = dawn(table)
    assert not victim.alive
    assert paid[victim.name] == pytest.approx(-50 - 0.01 + 0.05)
    assert paid[traitor.name] == pytest.approx(10 - 0.01)


@pytest.mark.parametrize("day", [1, 2])
def test_an_antidote_cures_once_symptoms_show(day: int) -> None:
    table = Table().phase("exploration")
    victim, healer = table.colonists[0], table.put(table.colonists[1], antidote_herb=1)
    table.do(**{table.put(table.traitor, poison=1).name: f"POISON {victim.name}"})
    assert table.sentence(healer, f"USE_ANTIDOTE {victim.name}") == f"{victim.name} shows no symptoms."
    for _ in range(day):
        dawn(table)
    table.do(**{healer.name: f"USE_ANTIDOTE {victim.name}"})
    assert victim.poisoned_on is None and healer.backpack == {}
    dawn(table)
    dawn(table)
    assert victim.alive


def test_a_second_antidote_of_the_same_turn_is_not_used_up() -> None:
    table = Table()
    victim, one, two = table.colonists[0], *(table.put(s, antidote_herb=1) for s in table.colonists[1:3])
    victim.poisoned_on = 0
    table.do(**{healer.name: f"USE_ANTIDOTE {victim.name}" for healer in (one, two)})
    assert sorted([one.backpack, two.backpack], key=len) == [{}, {"antidote_herb": 1}]


def test_a_victim_can_cure_itself() -> None:
    table = Table()
    sailor = table.put(table.colonists[0], antidote_herb=2)
    assert table.sentence(sailor, f"USE_ANTIDOTE {sailor.name}") == "You show no symptoms."
    sailor.poisoned_on = 0
    table.do(**{sailor.name: f"USE_ANTIDOTE {sailor.name}"})
    assert sailor.poisoned_on is None and sailor.backpack == {"antidote_herb": 1}


def test_milestones_are_paid_once() -> None:
    table = Table()
    world, builder, mate = table.world, *table.colonists[:2]
    world.ship["hull"] = 80  # 24 %
    world.store["wood"] = 20
    assert table.do(**{builder.name: "BUILD hull"})[mate.name] == pytest.approx(0.04 + 6 + 5)
    table.phase("exploration")
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    before = world.progress
    assert table.do(**{builder.name: "BUILD hull"})[mate.name] == pytest.approx(0.04 + world.progress - before)


def test_the_builder_is_paid_for_building_and_the_traitor_loses_by_progress() -> None:
    table = Table()
    table.world.store["wood"] = 10
    builder, mate = table.colonists[:2]
    paid = table.do(**{builder.name: "BUILD hull"})
    assert paid[builder.name] == pytest.approx(0.04 + 6 + 0.5)
    assert paid[mate.name] == pytest.approx(0.04 + 6)
    assert paid[table.traitor.name] == pytest.approx(-0.01 - 3)
    assert builder.energy == 97 and table.world.spent == {"wood": 10}


def test_a_build_that_comes_too_late_costs_nothing() -> None:
    table = Table()
    table.world.store["wood"] = 10
    first, second = [sailor for sailor in table._order() if sailor.role == "colonist"][:2]
    table.do(**{first.name: "BUILD hull", second.name: "BUILD hull"})
    assert (first.energy, second.energy) == (97, 100)
    assert second.note == "The hull could not be built any more."


def test_the_finished_ship_wins_for_the_crew_alone() -> None:
    table = Table()
    table.world.ship = dict.fromkeys(table.world.ship, 100) | {"hull": 80}
    table.world.milestones = {"25", "50", "75"}
    table.world.store["wood"] = 10
    paid = table.do(**{table.colonists[0].name: "BUILD hull"})
    assert (table.world.winner, table.world.ending) == ("crew", "the ship was finished")
    assert paid[table.colonists[1].name] == pytest.approx(0.04 + 6 + 100)
    assert paid[table.traitor.name] == pytest.approx(-0.01 - 3)


def test_the_last_day_over_wins_for_the_traitor() -> None:
    table = Table()
    table.world.day = table.scenario.days
    paid = dawn(table)
    assert (table.world.winner, table.world.ending) == ("traitor", "the last day was over")
    assert paid[table.traitor.name] == pytest.approx(100 - 0.01)
    with pytest.raises(ValueError, match="over"):  # victory is not paid twice
        table.step({})
    assert paid[table.colonists[0].name] == pytest.approx(0.04)


def test_weakness_costs_and_strength_pays() -> None:
    table = Table()
    weak, middling = table.put(table.colonists[0], energy=19), table.put(table.colonists[1], energy=50)
    paid = table.step({})
    assert paid[weak.name] == pytest.approx(-0.51)
    assert paid[middling.name] == pytest.approx(-0.01)


def test_an_illegal_action_is_recorded_as_what_was_executed() -> None:
    environment = MaroonedEnvironment("classic", "compact")
    environment.reset(0, "all")
    environment.step({"Alice": "BUILD mast", "Bob": "nonsense", "Eve": "CALL_SOS"})
    played = environment.snapshot()["actions"]
    assert (played["Alice"], played["Bob"], played["Diana"], played["Eve"]) == ("WAIT", "WAIT", "WAIT", "CALL_SOS")
