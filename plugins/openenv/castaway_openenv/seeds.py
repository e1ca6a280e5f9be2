"""Whether a server repeats an episode for the same seed, found out by asking twice.

OpenEnv hands a seed to every environment, and some drop it without a word: issue 1102 of OpenEnv tells of one whose
secret word differs each time while the first observation is the same. So whole episodes are compared: two of one seed,
turn by turn side by side, which also finds randomness that sessions share, and the same once more in a session that was
used before.
"""

from __future__ import annotations

from random import Random
from typing import Any

from castaway.config.errors import CastawayError

from castaway_openenv.episode import Episode
from castaway_openenv.server import Server
from castaway_openenv.session import Moment

SEEDS = (0, 1, 2)
TURNS = 20
"""An episode is compared up to this turn."""


def check_seeds(server: Server) -> None:
    """Ask a server twice, once for each process; if `game.unseeded` is set, not at all.

    Raises:
        CastawayError: the same seed and actions give different episodes, or the server does not answer.
    """
    if server.game.unseeded:
        server.repeats = False
    if server.repeats is not None:
        return
    for seed in SEEDS:
        turn = server.run(_first_difference(server, seed))
        if turn is not None:
            raise CastawayError(
                f"the OpenEnv server at {server.game.url} is not reproducible: two episodes of seed {seed} with the "
                f"same actions differ in turn {turn}; mend its seeding, or set `game.unseeded` to train all the same"
            )
    server.repeats = True


async def _first_difference(server: Server, seed: int) -> int | None:
    """The turn in which two episodes of a seed differ, 0 for the first observation; None if they do not."""
    first, second = Episode(server, seed), Episode(server, seed)
    one, other = await first.begin(), await second.begin()
    random, played, told = Random(f"openenv {seed}"), list[dict[str, Any]](), [one]
    while one == other and not one.done and len(played) < min(TURNS, server.game.turns):
        action = _any_action(server, one, random)
        if action is None:
            break
        played.append(action)
        answers = await first.act(action), await second.act(action)
        if not all(isinstance(answer, Moment) for answer in answers):
            break  # a rejected action is the environment's to tell
        one, other = (answer for answer in answers if isinstance(answer, Moment))
        told.append(one)
    first.close()
    second.close()
    if one != other:
        return len(told) - 1
    return await _differs_in_used_session(server, seed, played, told)


async def _differs_in_used_session(
    server: Server, seed: int, played: list[dict[str, Any]], told: list[Moment]
) -> int | None:
    """The turn in which an episode played once more, in a session that was used, differs from what was told."""
    again = Episode(server, seed)
    moments = [await again.begin(), *[await again.act(action) for action in played]]
    again.close()
    return next((turn for turn, (now, before) in enumerate(zip(moments, told, strict=False)) if now != before), None)


def _any_action(server: Server, moment: Moment, random: Random) -> dict[str, Any] | None:
    """An action drawn from those that are listed now; None if there is none."""
    offered = server.game.offered(moment.observation)
    return server.game.message(random.choice(offered)) if offered else None
