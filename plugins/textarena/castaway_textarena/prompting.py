"""How an observation is written as chat messages.

- `full`, for instruct models: TextArena's own rules of the game and its examples in the system message; then what it
  shows in its version for training, which are the messages of the game and the newest board, and the legal moves;
- `compact`, for small models: without rules, one word for each fact (`castaway_textarena.compact`).
"""

from castaway.tasks.environment import Message
from castaway_textarena.compact import situation
from castaway_textarena.observation import Observation

_HOW = "Answer in two lines: a short reason, and what you say in the game, with your move in brackets. For example:"


def messages(seen: Observation) -> tuple[Message, ...]:
    """The chat messages for an observation, in its rendering."""
    if seen.rendering == "compact":
        system = f"{seen.game} {seen.player}"
        user = situation(seen)
    else:
        example = seen.legal[0] if seen.legal else "[a move]"
        system = f"{seen.prompt.strip()}\n\n{_HOW}\nREASONING: it is my best move\nACTION: {example}"
        said = [f"Player {sender}: {text}" for sender, text in seen.talk[-6:]]
        parts = ["\n".join([*seen.messages, *said]), seen.board, seen.complaint, _listed(seen.legal)]
        user = "\n\n".join(part.strip("\n") for part in parts if part.strip()) or "It is your turn."
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


def _listed(legal: tuple[str, ...]) -> str:
    """The legal moves on one line; a long list would fill the prompt, and the rules say what moves are."""
    return f"Legal moves: {' '.join(legal)}" if 0 < len(legal) <= 40 else ""
