"""What a player is shown, in one of three renderings, and what it may type.

- `full`: in the system message the rules, how to answer, and an example, the same in every turn of a variant, so that
  a server computes them once; then the position as people draw it and the legal moves by name;
- `compact`: without the rules, in one word for each fact, for small models;
- `assisted`: like `compact`; in games with perfect information it also names the moves that win at once, or else, if
  only some moves are safe, those that do not allow the opponent to win at once. It does not choose a move.

An action is the number of a move in the menu, or in the full rendering its name. Numbers start at 1, in OpenSpiel's
order, so the form is the same in all games, which a tiny model needs. An instruct model writes the name of the move,
as a person would, and need not count.
"""

import re
from difflib import SequenceMatcher
from functools import cache

from castaway.envs.openspiel.boards import judgement
from castaway.envs.openspiel.games import Game, Observation, load_variant, observe
from castaway.envs.openspiel.players import BY_LOT, action_texts, best_move, reasons, with_move
from castaway.envs.openspiel.rendering import names, rules, situation, title, user_text
from castaway.tasks.environment import Message, Refusal


def messages(observation: Observation) -> tuple[Message, ...]:
    game = observation.game
    if observation.rendering == "full":
        system, user = _system(game, observation.variant), user_text(observation)
    else:
        called = names(observation)
        system = f"{game.name} {game.variants[observation.variant].name} {observation.side}"
        menu = " ".join(["moves", *(f"{number}: {name}" for number, name in enumerate(called, 1))])
        user = "\n".join([situation(observation), *_threats(observation, called), menu])
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


@cache
def _system(game: Game, variant: int) -> str:
    """The system message of the full rendering; the example is the expert's first move."""
    state = load_variant(game, variant).new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    first = observe(game, variant, state.current_player(), state, "full")
    return (
        f"You play {title(first)}. {rules(first)}\n"
        "Answer in two lines: a short reason, and one move as it is written in the list of moves. For example:\n"
        f"{with_move(first, best_move(first))}"
    )


def _threats(observation: Observation, called: tuple[str, ...]) -> list[str]:
    if observation.rendering != "assisted":
        return []
    judged = judgement(observation)
    safe = judged.safe if len(judged.safe) < len(called) else ()
    kind, moves = ("wins", judged.wins) if judged.wins else ("safe", safe)
    return [" ".join([kind, *(called[at] for at in moves)])] if moves else []


_NUMBER = re.compile("[1-9][0-9]{0,3}")
_DIGITS = re.compile("[0-9]{1,4}")
_LONGEST_TEXT = 200  # characters of a reply that `repair` looks at
_MISSPELT = 0.8  # smallest similarity, 0 to 1, at which a text counts as a misspelt name


class MenuRules:
    legal_actions = staticmethod(action_texts)

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        if action == BY_LOT:
            return None
        if observation.rendering == "full":
            return _no_name(action, action_texts(observation))
        count = len(observation.moves)
        if not _NUMBER.fullmatch(action):
            return Refusal("form", f"Answer with the number of a move, from 1 to {count}.")
        if int(action) > count:
            return Refusal("impossible", f"There is no move {action}: the menu ends with {count}.")
        return None

    def repair(self, observation: Observation, text: str) -> str:
        """In order: the text itself, a name in it, a misspelt name, a number of the menu, the most similar name."""
        text, legal = text[:_LONGEST_TEXT], action_texts(observation)
        if text.strip() in legal:
            return text.strip()
        called = names(observation)
        if named := [name for name in called if name.casefold() in text.casefold()]:
            return legal[called.index(max(named, key=len))]
        likeness = [SequenceMatcher(None, name.casefold(), text.casefold(), False).ratio() for name in called]
        likest = likeness.index(max(likeness))
        if likeness[likest] >= _MISSPELT:
            return legal[likest]
        numbers = [str(int(digits)) for digits in _DIGITS.findall(text)]
        return next((number for number in numbers if number in legal), legal[likest])

    def reason(self, observation: Observation, action: str) -> str:
        return "by lot" if action == BY_LOT else reasons(observation)[action_texts(observation).index(action)]

    def blunder(self, observation: Observation, action: str) -> str:
        """Missing an immediate win, allowing one to the opponent although another move does not, or a random move."""
        if action == BY_LOT:
            return "The move is left to the lot."
        judged, at = judgement(observation), action_texts(observation).index(action)
        called = names(observation)
        if judged.wins and at not in judged.wins:
            return f"Move {judged.wins[0] + 1} ({called[judged.wins[0]]}) wins at once."
        if not judged.wins and judged.safe and at not in judged.safe:
            return f"After {called[at]} the other side has won or can win at once."
        return ""


def _no_name(action: str, legal: tuple[str, ...]) -> Refusal | None:
    """Why the text is not the name of a legal move; a name such as others have is a move that is not possible now."""
    if action in legal:
        return None
    if _shape(action) in {_shape(name) for name in legal}:
        return Refusal("impossible", f"{action[:40]} is not among the legal moves.")
    return Refusal("form", f"Answer with a move as it is written in the list, such as {legal[0]}.")


def _shape(name: str) -> str:
    return re.sub("[A-Z]", "A", re.sub("[a-z]", "a", re.sub("[0-9]", "0", name)))
