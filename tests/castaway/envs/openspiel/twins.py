"""Pairs of states that differ only in what a player cannot know.

What is hidden is said here by hand, game by game, from the games' rules and not from the texts that are tested: a
twin has the same history but for hidden deals and moves, and every move after them was legal in it too.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from castaway.envs.openspiel.games import GAMES, load_variant

NAMED = {game.name: game for game in GAMES}
CHANCE = -1
Record = list[tuple[int, int]]
"""Who did what, chance included."""


def kuhn_or_leduc(record: Record, player: int, seats: int) -> set[int]:
    return {index for index in range(seats) if index != player}


def dice(record: Record, player: int, seats: int) -> set[int]:
    rolled = [index for index, (actor, _) in enumerate(record) if actor == CHANCE]
    return {index for index in rolled if index // (len(rolled) // seats) != player}


def moves_of_others(record: Record, player: int, seats: int) -> set[int]:
    return {index for index, (actor, _) in enumerate(record) if actor not in (CHANCE, player)}


def hole_card(record: Record, player: int, seats: int) -> set[int]:
    return {2}


def cargo(record: Record, player: int, seats: int) -> set[int]:
    return {0} if player == 1 else set()


def euchre_cards(record: Record, player: int, seats: int) -> set[int]:
    """The dealer, twenty cards round the table, the card turned up; a dealer told to take it lays one down unseen."""
    dealer, first_card, pass_ = record[0][1], 1, 24
    hidden = {first_card + k for k in range(20) if (dealer + k) % 4 != player}
    called = next((index for index in range(22, len(record)) if record[index][1] != pass_), None)
    if called is not None and called < 26 and player != dealer:
        hidden.add(called + 1)
    return hidden


def hearts_cards(record: Record, player: int, seats: int) -> set[int]:
    """The direction, 52 cards round the table, then three cards passed by everybody unless the direction is 0."""
    direction = record[0][1]
    hidden = {1 + k for k in range(52) if k % 4 != player}
    passes = range(53, min(65, len(record))) if direction else ()
    return hidden | {i for i in passes if record[i][0] != player and (record[i][0] + direction) % 4 != player}


def oh_hell_cards(record: Record, player: int, seats: int) -> set[int]:
    """The number of tricks, the dealer, the cards round the table, the card turned up."""
    dealt = [index for index, (actor, _) in enumerate(record) if actor == CHANCE][2:-1]
    return {index for index in dealt if (index - 2) % seats != player}


HIDDEN: dict[str, Callable[[Record, int, int], set[int]]] = {
    "kuhn_poker": kuhn_or_leduc,
    "leduc_poker": kuhn_or_leduc,
    "liars_dice": dice,
    "goofspiel": moves_of_others,
    "phantom_ttt": moves_of_others,
    "dark_hex": moves_of_others,
    "blackjack": hole_card,
    "sheriff": cargo,
    "euchre": euchre_cards,
    "hearts": hearts_cards,
    "oh_hell": oh_hell_cards,
    "dark_chess": moves_of_others,
}


def bids_won(record: Record) -> list[int]:
    bids = [action for actor, action in record if actor != CHANCE]
    return [(own > other) - (own < other) for own, other in zip(bids[::2], bids[1::2], strict=False)]


STRAIGHT, ASLANT = ((0, 1), (1, 0), (0, -1), (-1, 0)), ((1, 1), (1, -1), (-1, 1), (-1, -1))
KNIGHT = tuple((2 * one, other) for one, other in ASLANT) + tuple((one, 2 * other) for one, other in ASLANT)
STEPS = {"r": STRAIGHT, "b": ASLANT, "q": STRAIGHT + ASLANT, "k": STRAIGHT + ASLANT, "n": KNIGHT}


def in_sight(fen: str, white: bool) -> dict[tuple[int, int], str]:
    """What stands on the cells that are a player's own, or that its pieces go to; whether a pawn can step forward."""
    rows = ["".join("." * int(mark) if mark.isdigit() else mark for mark in row) for row in fen.split()[0].split("/")]
    board = {(at, place): mark for at, row in enumerate(rows) for place, mark in enumerate(row)}
    found = {}
    for (row, column), mark in board.items():
        if not mark.isalpha() or mark.isupper() != white:
            continue
        found[row, column] = mark
        for down, right in STEPS.get(mark.lower(), ()):
            cell = row + down, column + right
            while cell in board:
                found[cell] = board[cell]
                if mark.lower() in "kn" or board[cell] != ".":
                    break
                cell = cell[0] + down, cell[1] + right
        if mark.lower() == "p":
            ahead = row - 1 if white else row + 1
            found[ahead, column] = "." if board.get((ahead, column)) == "." else found.get((ahead, column), "blocked")
            taken = [(ahead, column + right) for right in (-1, 1) if board.get((ahead, column + right), ".") != "."]
            found |= {cell: board[cell] for cell in taken if board[cell].isupper() != white}
    return found


def told(name: str, record: Record, state: Any, player: int) -> object:
    """What a player learns of hidden moves: who has won each round of goofspiel, what stands where pieces can go."""
    if name == "goofspiel":
        return bids_won(record)
    return in_sight(str(state), white=player == 1) if name == "dark_chess" else None


def random_record(game: Any, random: Random) -> tuple[Record, list[int]]:
    """A whole random game, and the places in it at which somebody was to move."""
    state, record, turns = game.new_initial_state(), [], []
    while not state.is_terminal():
        actor = CHANCE if state.is_chance_node() else state.current_player()
        if actor != CHANCE:
            turns.append(len(record))
        record.append((actor, random.choice(state.legal_actions())))
        state.apply_action(record[-1][1])
    return record, turns


def replay(game: Any, record: Record) -> Any:
    """The state after a record, or None where it breaks the rules or another is to move than was."""
    state = game.new_initial_state()
    for actor, action in record:
        mover = CHANCE if state.is_chance_node() else state.current_player()
        if state.is_terminal() or mover != actor or action not in state.legal_actions():
            return None
        state.apply_action(action)
    return state


def changed(game: Any, record: Record, hidden: set[int], random: Random) -> Record:
    """The record with one hidden action replaced; where that was done later and as hidden, the two are swapped."""
    place = random.choice(sorted(hidden))
    choice = random.choice(replay(game, record[:place]).legal_actions())
    twin = list(record)
    for other in hidden:
        if other != place and record[other][1] == choice and record[other][0] == record[place][0]:
            twin[other] = (record[other][0], record[place][1])
    twin[place] = (record[place][0], choice)
    return twin


def twins(name: str, variant: int, count: int) -> Iterator[tuple[int, Any, Any]]:
    """Players that are to move, with the state as it is and as it might be for all they know: never the same."""
    game = load_variant(NAMED[name], variant)
    random, found = Random(variant), 0
    for _ in range(200 * count):
        if found == count:
            return
        record, turns = random_record(game, random)
        record = record[: random.choice(turns)]
        state = replay(game, record)
        player = state.current_player()
        hidden = {i for i in HIDDEN[name](record, player, game.num_players()) if i < len(record)}
        if not hidden:
            continue
        twin = replay(game, other := changed(game, record, hidden, random))
        if twin is None or twin.is_terminal() or twin.current_player() != player or str(twin) == str(state):
            continue
        if told(name, record, state, player) == told(name, other, twin, player):
            found += 1
            yield player, state, twin
    raise AssertionError(f"only {found} twins of {name} in {200 * count} games")
