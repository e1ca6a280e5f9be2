"""The compact rendering."""

from castaway.envs.marooned.compact import user_text
from tests.castaway.envs.marooned.tables import Table


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
