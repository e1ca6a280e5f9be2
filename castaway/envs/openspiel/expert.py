"""The expert: a competent player of all twenty games, which knows only the observation.

In games with perfect information it first looks a few moves ahead (`tactics`). Apart from that, and in all other games,
it uses the heuristic values of `boards`, `luck` and `tricks`. Ties go to the first move of the menu, so the expert is
deterministic.
"""

from __future__ import annotations

from castaway.envs.openspiel import boards, luck, tricks
from castaway.envs.openspiel.move_value import Guide, MoveValue
from castaway.envs.openspiel.observation import Observation
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
"""Game to the function that values its moves."""
_DECISIVE = 1000.0
"""More than any value that a guide returns."""


def move_values(observation: Observation) -> list[MoveValue]:
    """The value of each move of the menu to the player."""
    found = GUIDES[observation.game.name](observation)
    judged = judgement(observation)
    dangerous = 0 < len(judged.safe) < len(found)
    for at, move_value in enumerate(found):
        if at in judged.wins:
            found[at] = MoveValue(3 * _DECISIVE, "win")
        elif at in judged.forcing:
            found[at] = MoveValue(_DECISIVE + move_value.worth, "force")
        elif dangerous and not judged.wins:
            safe = at in judged.safe
            worth = move_value.worth if safe else move_value.worth - 2 * _DECISIVE
            found[at] = MoveValue(worth, "block" if safe else "risk")
    return found


def best_move(observation: Observation) -> int:
    """The position in the menu, from 0, of the most valuable move."""
    worths = [move_value.worth for move_value in move_values(observation)]
    return worths.index(max(worths))
