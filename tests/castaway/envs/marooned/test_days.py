"""Hunger, poison, pay, and how a game ends."""

import pytest

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
    table.put(table.traitor, energy=5)
    dawn(table)
    assert not table.traitor.alive and not table.over, "a traitor that starves hands nobody the victory"
    assert (eater.energy, faster.energy) == (75, 30)
    dawn(table)  # what was eaten counts for one night
    assert (eater.energy, faster.energy) == (55, 10)


def test_hunger_kills_is_paid_once_and_leaves_the_load_behind() -> None:
    table = Table()
    weak = table.put(table.colonists[0], energy=20, wood=3)
    paid = dawn(table)
    assert paid[weak.name] == pytest.approx(-50 - 0.01)
    assert not weak.alive and weak.energy == 0 and weak.backpack == {}
    assert [(p.kind, p.amount) for p in table.world.piles.values() if p.place == weak.place] == [("wood", 3)]
    assert table.world.clues[-1].text == f"{weak.name} died of hunger."
    assert table.step({})[weak.name] == 0.0


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
def test_an_antidote_cures_once_symptoms_show_and_a_second_one_is_not_used_up(day: int) -> None:
    table = Table().phase("exploration")
    victim, one, two = table.colonists[0], *(table.put(sailor, antidote_herb=1) for sailor in table.colonists[1:3])
    table.do(**{table.put(table.traitor, poison=1).name: f"POISON {victim.name}"})
    assert table.sentence(one, f"USE_ANTIDOTE {victim.name}") == f"{victim.name} shows no symptoms."
    for _ in range(day):
        dawn(table)
    table.do(**{healer.name: f"USE_ANTIDOTE {victim.name}" for healer in (one, two)})
    assert victim.poisoned_on is None
    assert sorted([one.backpack, two.backpack], key=len) == [{}, {"antidote_herb": 1}]
    dawn(table)
    dawn(table)
    assert victim.alive


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
