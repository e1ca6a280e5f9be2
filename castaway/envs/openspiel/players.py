"""The scripted players of all games, and preference pairs by the value of moves.

The expert knows only the observation. In games with perfect information it first looks a few moves ahead (`boards`).
Apart from that, and in all other games, it uses the heuristic values of `boards` and `chance`. Ties go to the first
move of the menu, so the expert is deterministic.

The tree search is OpenSpiel's, in C++. It knows the true state: in a game with hidden cards it plays as if it saw all.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from string import digits
from typing import Any

import pyspiel

from castaway.envs.openspiel import boards, chance, chess
from castaway.envs.openspiel.games import Game, MoveValue, Observation, load_variant, position, read
from castaway.envs.openspiel.rendering import names
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply, labelled, markdown, reason_only, unlabelled
from castaway.tasks.task import PairRow, Player

BY_LOT = "0"  # the idle action, a random move: a policy with only invalid replies plays at the base rate, not better


def action_texts(observation: Observation) -> tuple[str, ...]:
    """What is typed for each move of the menu: its name in the full rendering, its number in the others."""
    if observation.rendering == "full":
        return names(observation)
    return tuple(str(number) for number in range(1, len(observation.moves) + 1))


# Opponents ---------------------------------------------------------------------------------------------------------

Opponent = Callable[[Any], int]  # chooses a legal move, OpenSpiel's number, in the true state
EXPLORATION = 1.414  # the exploration constant of UCT: the square root of 2, for returns of about 1
MEMORY_IN_MEGABYTES = 64


def simulations_of(name: str) -> int:
    """N for the opponent `mcts-N`, 0 for `random`, which does not search; ValueError for any other."""
    kind, _, count = name.partition("-")
    if name == "random":
        return 0
    if kind != "mcts" or not count.isdecimal() or int(count) < 2:
        raise ValueError(f"there is no opponent {name!r}: it is random, or mcts-N with 2 simulations or more")
    return int(count)


def make_opponent(simulations: int, game: Any, random: Random) -> Opponent:
    if not simulations:
        return lambda state: random.choice(state.legal_actions())
    bot = _search(game, simulations, random.getrandbits(31), random.getrandbits(31))
    return lambda state: int(bot.step(state))


def _search(game: Any, simulations: int, rollout_seed: int, seed: int) -> Any:
    evaluator = pyspiel.RandomRolloutEvaluator(1, rollout_seed)
    # No exact solving, which would make a small number of simulations play perfectly near the end.
    return pyspiel.MCTSBot(game, evaluator, EXPLORATION, simulations, MEMORY_IN_MEGABYTES, False, seed, False)


# The expert --------------------------------------------------------------------------------------------------------

GUIDES: dict[str, Callable[[Observation], list[MoveValue]]] = {
    "tic_tac_toe": boards.three_in_a_row,
    "connect_four": boards.drop,
    "kuhn_poker": chance.kuhn,
    "leduc_poker": chance.leduc,
    "liars_dice": chance.liar,
    "goofspiel": chance.goofspiel,
    "phantom_ttt": boards.three_in_a_row,
    "dark_hex": boards.path,
    "hex": boards.path,
    "clobber": boards.capture_all,
    "dots_and_boxes": boards.boxes,
    "nim": boards.piles,
    "go": boards.stones,
    "othello": boards.reversi,
    "pig": chance.pig,
    "blackjack": chance.blackjack,
    "sheriff": chance.sheriff,
    "euchre": chance.euchre,
    "hearts": chance.hearts,
    "oh_hell": chance.oh_hell,
    "dark_chess": chess.sight,
}
"""Game to the function that gives the value of each move of the menu, in its order, from what the player knows."""
_DECISIVE = 1000.0  # more than any value that a guide returns


def move_values(observation: Observation) -> list[MoveValue]:
    values = GUIDES[observation.game.name](observation)
    judged = boards.judgement(observation)
    dangerous = 0 < len(judged.safe) < len(values)
    for at, (worth, _) in enumerate(values):
        if at in judged.wins:
            values[at] = MoveValue(3 * _DECISIVE, "win")
        elif at in judged.forcing:
            values[at] = MoveValue(_DECISIVE + worth, "force")
        elif dangerous and not judged.wins:
            values[at] = MoveValue(worth, "block") if at in judged.safe else MoveValue(worth - 2 * _DECISIVE, "risk")
    return values


def best_move(observation: Observation) -> int:
    worths = [value.worth for value in move_values(observation)]
    return worths.index(max(worths))


def shortfall(prompt: Prompt, action: str) -> float:
    """The share of the other moves that the expert holds to be better; 1 if it is drawn by lot."""
    if action == BY_LOT:
        return 1.0
    worths = [value.worth for value in move_values(prompt.observation)]
    own = worths[action_texts(prompt.observation).index(action)]
    return sum(worth > own for worth in worths) / max(1, len(worths) - 1)


# Replies -----------------------------------------------------------------------------------------------------------

AIMLESS = "any"  # the reasoning of a random move
_SENTENCES: dict[str, str] = read("sentences")


def reasons(observation: Observation) -> list[str]:
    called = zip(move_values(observation), names(observation), strict=True)
    return [reason_text(observation, value.why, name) for value, name in called]


def reason_text(observation: Observation, why: str, name: str = "") -> str:
    """The reason `why` for a move, in the words of the rendering."""
    if observation.rendering != "full":
        return f"{why} {name}".rstrip()
    # What balances the piles of nim is told to a tiny model first, and the verdict comes last.
    word = why.split()[-1] if why.startswith("odd") else why.rstrip(digits)
    return _SENTENCES.get(word, f"{word.capitalize()}: {{}}.").format(name, why[len(word) :])


def with_move(observation: Observation, at: int, plain: bool = False) -> Reply:
    """The reply with the move in position `at` of the menu, from 0; `plain` for a reason without content."""
    why = reason_text(observation, AIMLESS) if plain else reasons(observation)[at]
    return Reply(why, action_texts(observation)[at])


def expert(prompt: Prompt) -> Reply:
    return with_move(prompt.observation, best_move(prompt.observation))


def demonstrator(random: Random, random_action_rate: float) -> Player:
    def play(prompt: Prompt) -> Reply:
        if random.random() >= random_action_rate:
            return expert(prompt)
        return with_move(prompt.observation, random.randrange(len(prompt.observation.moves)), plain=True)

    return play


def extra_replies(observation: Observation, random: Random, count: int) -> list[Reply]:
    replies = [Reply(*both) for both in zip(reasons(observation), action_texts(observation), strict=True)]
    return random.sample(replies, min(count, len(replies)))


def format_error(reply: Reply, random: Random) -> str:
    """The reply as text with a format error: the move by name or in words, a full stop, or an error of all games."""
    why, action = reply.reasoning, reply.action
    own = [labelled(why, why.split(" ")[-1]), labelled(why, f"move {action}"), labelled(why, f"{action}.")]
    return random.choice([*own, markdown(reply), unlabelled(reply), reason_only(reply)])


# Preference pairs --------------------------------------------------------------------------------------------------

SIMULATIONS = 200  # of the search in one situation
CLEAR = 0.3  # smallest difference in value that counts as clearly worse; a lost game is 0, a won one 1
PLAIN_SHARE = 0.25  # share of the pairs in which both replies have a reasoning without content
TRIES = range(40)  # attempts to find two situations that fit; after that a game beside others gets no more pairs


def preference_pairs(prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
    """At most `count` pairs for these prompts, about the same number for each variant of each game.

    Two situations of one game are used if the best move of each is also in the other's menu, and clearly worse there
    than the other's best move. They give two pairs, so every reply is chosen as often as it is rejected, no reply is
    better without its situation, and a reward model has to read the situation.
    """
    by_variant: dict[tuple[str, int], list[Prompt]] = {}
    for prompt in prompts:
        if len(prompt.observation.moves) > 1:
            by_variant.setdefault((prompt.observation.game.name, prompt.observation.variant), []).append(prompt)
    groups, rows = deque(by_variant.values()), list[PairRow]()
    for _ in range(count):
        if not groups or len(rows) >= count - 1:
            break
        alike = groups.popleft()
        tries = (_two_pairs(random.choice(alike), random.choice(alike), random.random() < PLAIN_SHARE) for _ in TRIES)
        two = next(filter(None, tries), [])
        rows += two
        # A game of which hardly any two situations fit, such as Othello, would be searched for hours beside others.
        if two or not groups:
            groups.append(alike)
    return rows


def _two_pairs(one: Prompt, other: Prompt, plain: bool) -> list[PairRow]:
    first, second = top_move(one.observation), top_move(other.observation)
    here, there = action_texts(one.observation)[first], action_texts(other.observation)[second]
    if not (_clearly_worse(one.observation, there) and _clearly_worse(other.observation, here)):
        return []
    mine = str(with_move(one.observation, first, plain))
    theirs = str(with_move(other.observation, second, plain))
    return [(one.messages, mine, theirs), (other.messages, theirs, mine)]


def _clearly_worse(observation: Observation, action: str) -> bool:
    scores, legal = move_scores(observation), action_texts(observation)
    return action in legal and max(scores) - scores[legal.index(action)] >= CLEAR


def top_move(observation: Observation) -> int:
    scores = move_scores(observation)
    return scores.index(max(scores))


def move_scores(observation: Observation) -> tuple[float, ...]:
    """The score of each move, from 0 to 1: in games with perfect information, the mean of a tree search.

    Elsewhere a search would use what the player cannot know, so the scores are the expert's values, scaled.
    """
    if observation.game.open:
        return _searched(observation.game, observation.variant, observation.history)
    worths = [value.worth for value in move_values(observation)]
    span = max(worths) - min(worths)
    return tuple((worth - min(worths)) / span if span else 0.5 for worth in worths)


@lru_cache(maxsize=2**14)
def _searched(game: Game, variant: int, history: tuple[int, ...]) -> tuple[float, ...]:
    """The mean result of the search's simulations of each legal move; a move never tried gets the worst mean."""
    state = position(game, variant, history)
    root = _search(load_variant(game, variant), SIMULATIONS, 0, 0).mcts_search(state)
    means = {child.action: child.total_reward / child.explore_count for child in root.children if child.explore_count}
    worst = min(means.values())
    return tuple((1 + means.get(action, worst)) / 2 for action in state.legal_actions())
