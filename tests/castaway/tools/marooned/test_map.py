"""The map that a person is shown."""

from castaway.tools.marooned.map import drawn
from tests.castaway.envs.marooned.tables import Table


def test_the_most_important_sign_of_a_tile_is_drawn() -> None:
    table = Table("skiff")
    sailor, other, *rest = table.world.living
    for one in rest:
        table.put(one, ("ground", 4, 4))
    table.put(sailor, ("ground", 0, 0))
    table.put(other, ("ground", 1, 0))
    title, *rows = drawn(table.observation(sailor.name)).split("\n")
    assert title.startswith("Map in sight") and len(rows) == 5
    assert rows[0][5:7] == "@1" and rows[2][7] == "C" and rows[4][9] == "3" and rows[0][:5] == "#####"
