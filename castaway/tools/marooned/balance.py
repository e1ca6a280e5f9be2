"""Measures how balanced a scenario of MAROONED is, in many games of scripted crews against scripted traitors.

The players are fixed and the games are seeded, so the same command prints the same table. The games have training ids:
the constants of a scenario can be tuned with this table without using the held-out ids of evaluation.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random
from typing import NamedTuple

from castaway.envs.marooned import scripted
from castaway.envs.marooned.actions import Action
from castaway.envs.marooned.affairs import suspect
from castaway.envs.marooned.decisions import REST, Decision, Script, ballot, first_legal
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.scripted import Typist
from castaway.metrics.markdown import percent, table, with_interval
from castaway.tasks.intervals import clustered_mean, proportion

FIRST_ID = 900_000_000  # the training id of the first game; the others follow


def _living(observation: Observation) -> list[str]:
    return [mate.name for mate in observation.mates if mate.status == "alive"]


def framer(observation: Observation) -> Decision:
    """A traitor that plants evidence in discussions and calls a vote on it, and otherwise acts as a saboteur."""
    if not observation.phase.vote:
        return scripted.saboteur(observation)
    named = suspect(observation, least=50)
    wishes = [ballot(observation, named)] if named else []
    wishes += [Decision(Action("FRAME", (name,)), "blame") for name in _living(observation)[:1]]
    return first_legal(observation, *wishes)


def blind_voter(observation: Observation) -> Decision:
    """Votes in every discussion, without evidence, for the first living sailor of the crew.

    Voters who follow the order of the crew agree on one sailor: the best that voters without knowledge can do.
    """
    mates = _living(observation) if observation.phase.vote else []
    return first_legal(observation, ballot(observation, mates[0])) if mates else REST


Player = Script | type[Typist]  # a typist is made for each sailor, with a random generator of its own
MATCHES: dict[str, tuple[Player, Player, str]] = {
    "workers, idle traitor": (scripted.worker, scripted.waiter, "90 to 100"),
    "workers, saboteur": (scripted.worker, scripted.saboteur, "40 to 60"),
    "workers, framer": (scripted.worker, framer, "40 to 60"),
    "waiters, idle traitor": (scripted.waiter, scripted.waiter, "0 to 0"),
    "typists, typist": (Typist, Typist, "0 to 5"),
    "blind voters, idle traitor": (blind_voter, scripted.waiter, "at most 20"),
}
"""The colonists, the traitor, and the percentage of games that the crew should win.

One of five sailors is the traitor, so blind voters may win a fifth of the games, give or take chance.
"""


class Ended(NamedTuple):
    crew_won: bool
    ending: str
    days: int
    progress: float  # how complete the ship was, in percent


def balance_table(scenario: str, episodes: int, processes: int = 1) -> str:
    """A Markdown table with one row for each match: who won and how, with 95 % intervals."""
    header = ["colonists, traitor", "crew wins (95 %)", "wanted", "days", "ship", "how it ended"]
    ids, rows = range(FIRST_ID, FIRST_ID + episodes), []
    with ProcessPoolExecutor(processes) as pool:
        for name, (colonists, traitor, wanted) in MATCHES.items():
            ended = list(pool.map(partial(_play, scenario, colonists, traitor), ids, chunksize=8))
            wins = proportion(sum(one.crew_won for one in ended), episodes)
            endings = Counter(one.ending for one in ended).most_common()
            told = "; ".join(f"{ending} {percent(count / episodes)}" for ending, count in endings)
            days, ship = _mean([one.days for one in ended]), _mean([one.progress for one in ended])
            rows.append([name, with_interval(wins), wanted, days, ship, told])
    return f"{scenario}, {episodes} games each, training ids {FIRST_ID} and up.\n\n{table(header, rows)}"


def _play(scenario: str, colonists: Player, traitor: Player, seed: int) -> Ended:
    game = Game(load_scenario(scenario), seed)
    world, scripts = game.world, dict[str, Script]()
    for number, sailor in enumerate(world.sailors.values(), start=1):
        player = traitor if sailor.role == "traitor" else colonists
        scripts[sailor.name] = player(Random(seed * 16 + number)) if isinstance(player, type) else player
    while not game.over:
        game.step({one.name: scripts[one.name](game.observation(one.name)).action for one in world.living})
    return Ended(world.winner == "crew", world.ending, world.day, world.progress)


def _mean(values: Sequence[float]) -> str:
    mean = clustered_mean([[value] for value in values])
    return f"{mean.value:.1f} ({mean.low:.1f} to {mean.high:.1f})"
