"""The compact rendering."""

import pytest

from castaway.envs.marooned.compact import nearest_pile, user_text
from tests.castaway.envs.marooned.tables import Table


@pytest.mark.parametrize(("level", "nearest"), [("ground", "WOOD_902"), ("cave", "WOOD_901")])
def test_a_pile_is_left_to_a_sailor_that_is_nearer_only_on_the_same_level(level: str, nearest: str) -> None:
    table = Table("classic")
    for pile in [pile for pile in table.world.piles.values() if pile.kind == "wood"]:
        table.world.piles.pop(pile.id)
        table.world.by_place[pile.place].remove(pile.id)
    # The traitor knows where everybody is, on other levels too.
    traitor, mate = table.traitor, table.colonists[0]
    table.put(traitor, ("ground", 10, 10))
    for other in table.colonists:
        table.put(other, ("ground", 0, 0))
    table.put(mate, (level, 12, 10))
    table.lay("WOOD_901", "wood", ("ground", 12, 10))
    table.lay("WOOD_902", "wood", ("ground", 10, 14))
    found = nearest_pile(table.observation(traitor.name), {"wood"})
    assert found is not None and found.id == nearest


def test_a_traitor_reads_who_would_see_it_and_whether_the_ship_is_in_reach_across_a_corner() -> None:
    table = Table("skiff")
    level, x, y = table.observation(table.traitor.name).camp
    for other in table.colonists:
        table.put(other, (level, 4, 4))
    table.world.ship["hull"] = 40

    def last_line() -> str:
        return user_text(table.observation(table.traitor.name)).splitlines()[-1]

    table.put(table.traitor, (level, x - 1, y - 1))
    assert "camp EAST 2 " in last_line() and last_line().endswith("beside nobody lurks nobody ready hull")
    table.put(table.traitor, (level, x - 2, y))
    assert "camp EAST 2 " in last_line() and last_line().endswith("beside nobody lurks nobody ready far")
    table.put(table.colonists[1], (level, x - 2, y))
    assert f"beside {table.colonists[1].name} lurks" in last_line()
    table.world.ship["hull"] = 0
    assert last_line().endswith("ready far")
    table.put(table.traitor, (level, x - 1, y))
    assert last_line().endswith("ready nothing")  # in reach of a ship that nobody has begun


def test_who_stands_alone_beside_a_ship_that_was_broken_unseen_lurks() -> None:
    table = Table("skiff")
    level, x, y = table.observation(table.traitor.name).camp
    reader, mate, *others = table.colonists
    for other in (reader, *others):
        table.put(other, (level, 4, 4))
    table.put(mate, (level, x + 1, y))
    table.put(table.traitor, (level, x - 1, y - 1))
    table.world.ship["hull"] = 40

    def lurks() -> str:
        return user_text(table.observation(reader.name)).rpartition("lurks ")[2].split()[0]

    assert lurks() == "nobody"
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    assert lurks() == "nobody"  # two stand there
    table.put(mate, (level, x, y))
    assert lurks() == table.traitor.name  # at the ship is not beside it
    table.put(table.traitor, (level, x - 2, y))
    assert lurks() == "nobody"


def test_a_sailor_reads_what_the_log_holds_against_it() -> None:
    table = Table("skiff")
    mate = table.colonists[0]
    table.put(mate, (*table.observation(mate.name).camp,))
    table.put(table.traitor, mate.place)
    table.world.ship["hull"] = 40
    assert "blamed 0" in user_text(table.observation(table.traitor.name))
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    assert "blamed 95" in user_text(table.observation(table.traitor.name))
    assert "blamed 0" in user_text(table.observation(mate.name))
