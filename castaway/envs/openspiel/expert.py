"""A competent player of all twenty games: what it knows is the observation, and what it thinks is written down.

In games with nothing to hide it first looks a few moves ahead (`tactics`); beyond that, and in the others, it goes by
the opinions of `boards`, `luck` and `tricks`. Equals go to the first of the menu, so it is deterministic.
"""

from __future__ import annotations

from castaway.envs.openspiel import boards, luck, tricks
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.opinion import Guide, Opinion
from castaway.envs.openspiel.tactics import judgement

GUIDES: dict[str, Guide] = {
    "tic_tac_toe": boards.three_in_a_row,
    "connect_four": boards.drop,
    "kuhn_poker": luck.kuhn,
    "leduc_poker": luck.leduc,
    "liars_dice": luck.liar,
    "goofspiel": luck.goofspiel,
    "phantom_ttt": boards.three_in_a_row,
    "dark_hex": boards.path,
    "hex": boards.path,
    "clobber": boards.capture_all,
    "dots_and_boxes": boards.boxes,
    "nim": boards.piles,
    "go": boards.stones,
    "othello": boards.reversi,
    "pig": luck.pig,
    "blackjack": luck.blackjack,
    "sheriff": luck.sheriff,
    "euchre": tricks.euchre,
    "hearts": tricks.hearts,
    "oh_hell": tricks.oh_hell,
}
"""Who knows which game."""
_DECISIVE = 1000.0
"""More than any guide's opinion."""


def opinions(observation: Observation) -> list[Opinion]:
    """What the player thinks of each move of the menu."""
    found = GUIDES[observation.game.name](observation)
    judged = judgement(observation)
    dangerous = 0 < len(judged.safe) < len(found)
    for at, opinion in enumerate(found):
        if at in judged.wins:
            found[at] = Opinion(3 * _DECISIVE, "win")
        elif at in judged.forcing:
            found[at] = Opinion(_DECISIVE + opinion.worth, "force")
        elif dangerous and not judged.wins:
            safe = at in judged.safe
            worth = opinion.worth if safe else opinion.worth - 2 * _DECISIVE
            found[at] = Opinion(worth, "block" if safe else "risk")
    return found


def best_move(observation: Observation) -> int:
    """The place in the menu, from 0, of the move that the player makes."""
    worths = [opinion.worth for opinion in opinions(observation)]
    return worths.index(max(worths))
