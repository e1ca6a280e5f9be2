"""Whether a game keeps the contract here: the checker, games side by side, random texts, and other hash seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from castaway.config.errors import CastawayError
from castaway.tasks.environment import Prompt
from castaway.tools.checker import FREE_WORDS, check_environment
from castaway_textarena.environment import PLAYER, TABLE, TextArenaEnvironment
from castaway_textarena.rules import SILENCE

_PIECES = (
    "[",
    "]",
    "]]",
    "[[",
    " ",
    "0",
    "1",
    "7",
    "99999999999999999999",
    "-1",
    "²",
    "٣",
    "a1",
    "A",
    "up",
    "->",
    ",",
    ":",
)
_WHOLE_STEP = 97
_TURNS = 30
"""Number of moves after which a game on trial is cut short."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was found of a game."""

    game: str
    fault: str
    """What it lacks, in one sentence; empty if it passes."""
    notes: tuple[str, ...] = ()
    """What the checker says besides."""
    listed: bool = False
    """Whether its legal moves are listed."""


def tried(game: str, texts: int = 10_000) -> Trial:
    """Check a game.

    Args:
        game: TextArena's name of it.
        texts: how many random texts are said in it.
    """

    def make() -> TextArenaEnvironment:
        return TextArenaEnvironment(game, rendering="compact", turns=_TURNS)

    try:
        notes = check_environment(make, [0])
        environment = make()
        environment.reset(0, TABLE)
        listed = bool(environment.rules.legal_actions(environment.prompts()[0].observation))
        fault = own_code_fails(make) or side_by_side(make) or nothing_raised(make, texts)
        return Trial(game, fault, notes, listed)
    except CastawayError as error:
        return Trial(game, str(error).removeprefix(f"the game {game} ").removeprefix("cannot be played: "))


def own_code_fails(make: Callable[[], TextArenaEnvironment], episodes: int = 5) -> str:
    """The error that TextArena's code raises on legal moves; empty if there is none in some random episodes."""
    for task_id in range(episodes):
        environment = make()
        _ = [*_moments(environment, task_id, Random(task_id))]
        if "TextArena raises" in environment.outcome().ending:
            return environment.outcome().ending
    return ""


def side_by_side(make: Callable[[], TextArenaEnvironment]) -> str:
    """What differs if two episodes are played in turns rather than one after the other; empty if nothing does."""
    alone = [[*_moments(make(), task_id, Random(task_id))] for task_id in (1, 2)]
    together: list[list[str]] = [[], []]
    running = [(number, _moments(make(), 1 + number, Random(1 + number))) for number in (0, 1)]
    while running:
        for number, moments in list(running):
            moment = next(moments, None)
            if moment is None:
                running.remove((number, moments))
            else:
                together[number].append(moment)
    return "" if together == alone else "an episode differs if another one is played beside it"


def nothing_raised(make: Callable[[], TextArenaEnvironment], texts: int) -> str:
    """Say random texts in games; the error that is raised, or empty.

    All of them go to TextArena's code as they are, and through the rules; one in `_WHOLE_STEP` takes the usual
    way, where the rules keep back what is not legal.
    """
    environment, random = make(), Random(0)
    environment.reset(0, TABLE)
    seen = environment.prompts()[0].observation
    for number in range(texts):
        if environment.done:
            environment.rewind()
        text = random_text(random)
        try:
            environment.rules.refusal(seen, text)
            if number % _WHOLE_STEP:
                environment.say(text)
                continue
            seen = environment.prompts()[0].observation
            environment.step({PLAYER: environment.rules.repair(seen, text) if number % 2 else text})
        except Exception as error:
            return f"the text {text!r} raises {type(error).__name__}: {error}"
    return ""


def random_text(random: Random) -> str:
    """A text of random letters of all scripts, or of what moves are made of."""
    if random.random() < 0.5:
        return "".join(random.choices(_PIECES, k=random.randrange(12)))
    return "".join(
        chr(random.choice((random.randrange(128), random.randrange(0xD800)))) for _ in range(random.randrange(40))
    )


def digest(game: str) -> str:
    """The hash of all that two random episodes show and pay; it must be the same in every process."""
    found = hashlib.sha256()
    for task_id in (0, 1):
        environment = TextArenaEnvironment(game, rendering="full", turns=_TURNS)
        for moment in _moments(environment, task_id, Random(task_id)):
            found.update(moment.encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def _moments(environment: TextArenaEnvironment, task_id: int, random: Random) -> Iterator[str]:
    """Play an episode with random legal moves, and yield all that is shown and paid as text."""
    environment.reset(task_id, TABLE)
    rewards: dict[str, float] = {}
    while not environment.done:
        prompts = environment.prompts()
        yield json.dumps([[prompt.messages for prompt in prompts], rewards, environment.snapshot()])
        rewards = environment.step({prompt.agent: _any_move(environment, prompt, random) for prompt in prompts})
    outcome = environment.outcome()
    yield json.dumps([rewards, environment.snapshot(), outcome.ending, dict(outcome.details)])


def _any_move(environment: TextArenaEnvironment, prompt: Prompt, random: Random) -> str:
    return random.choice(environment.rules.legal_actions(prompt.observation) or (*FREE_WORDS, SILENCE))
