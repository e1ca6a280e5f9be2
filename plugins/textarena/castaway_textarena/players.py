"""Who plays a game without being trained: at random, by search, by what is known of the game, or a served model."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from castaway_textarena.catalogue import family
from castaway_textarena.negotiation import trade
from castaway_textarena.observation import Observation
from castaway_textarena.search import move_values

Choose = Callable[[Observation], str]
"""Chooses a move for a situation."""


def random_player(random: Random) -> Choose:
    """Any legal move; where moves cannot be listed, an example from what the game shows, or a few words."""
    return lambda seen: random.choice(seen.legal or suggestions(seen))


def suggestions(seen: Observation) -> list[str]:
    """Texts for a game whose moves cannot be listed: what stands in brackets in what the player was shown last."""
    recent = [text for _, text, kind in seen.shown[-6:] if kind != "PLAYER_ACTION"] + [seen.prompt]
    marked = [f"[{inside}]" for text in recent for inside in _bracketed(text)]
    return [*dict.fromkeys(marked)][:40] or ["I have nothing to add."]


def _bracketed(text: str) -> list[str]:
    parts = [part.split("]")[0] for part in text.split("[")[1:] if "]" in part]
    return [part for part in parts if part.strip() and "\n" not in part and len(part) < 60]


def best_move(seen: Observation, depth: int) -> str:
    """A competent move: by search in open games, by what is known in a few others, else any legal one.

    Args:
        seen: the situation.
        depth: how many moves the search looks ahead.
    """
    if known := _KNOWN.get(family(seen.game)):
        return known(seen)
    values = move_values(seen, depth)
    if values:
        return max(values, key=lambda move: values[move])
    return Random(f"{seen.game} {seen.shown}").choice(seen.legal or suggestions(seen))


def _kuhn(seen: Observation) -> str:
    """Bet and call: in TextArena 0.7.4 neither adds to the pot, as it would in Kuhn's game, so only folding costs."""
    return "[bet]" if "[bet]" in seen.legal else "[call]"


def _number(seen: Observation) -> str:
    """The middle of the numbers that the hints leave."""
    low, high = 0, 10**9
    guess = 0
    for _, text, kind in seen.shown:
        if kind == "PLAYER_ACTION":
            digits = "".join(letter for letter in text if letter.isdigit())
            guess = int(digits) if digits else guess
        elif kind != "PROMPT" and "higher" in text:
            low = max(low, guess)
        elif kind != "PROMPT" and "lower" in text:
            high = min(high, guess)
    left = [move for move in seen.legal if low < int(move.strip("[]")) < high]
    return left[len(left) // 2] if left else seen.legal[0]


_KNOWN: dict[str, Choose] = {"GuessTheNumber": _number, "KuhnPoker": _kuhn, "SimpleNegotiation": trade}
"""Games with secrets or chance, of which a competent move is known."""
