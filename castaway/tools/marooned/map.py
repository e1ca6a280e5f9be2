"""A map of what a sailor sees, for a person at a terminal; a prompt says the same in fewer words."""

from __future__ import annotations

from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.state import Place


def drawn(observation: Observation) -> str:
    """The tiles in sight, north up: @ you, C camp, digits sailors, letters piles, # sea, . land."""
    here, x, y = observation.place
    level, reach = observation.scenario.levels[here], observation.vision
    west = x - reach
    rows = {
        row: ["." if 0 <= column < level.width else "#" for column in range(west, x + reach + 1)]
        for row in range(max(0, y - reach), min(level.depth, y + reach + 1))
    }

    def mark(place: Place, letter: str) -> None:
        where, column, row = place
        if where == here and row in rows and 0 <= column - west <= 2 * reach:
            rows[row][column - west] = letter

    # Later marks replace earlier ones on the same tile, so the most important ones come last.
    for pile in observation.piles:
        mark(pile.place, pile.kind[0])
    mark(observation.camp, "C")
    crowd: dict[Place, int] = {}
    for mate in observation.mates:
        if mate.place:
            crowd[mate.place] = crowd.get(mate.place, 0) + 1
            mark(mate.place, str(crowd[mate.place]))
    mark(observation.place, "@")
    title = "Map in sight (north up; @ you, C camp, digits sailors, letters piles, # sea):"
    return "\n".join([title, *("".join(row) for row in rows.values())])
