"""What a sailor can work out about the company: who is suspected, ill, hungry or alone, and what was said of it.

The scripts of the whole repertoire decide by these facts, and the compact rendering names them.
"""

from castaway.envs.marooned.observation import Mate, Observation, phase_at
from castaway.envs.marooned.state import Place, distance

TRUSTED_CLUE = 80  # strength from which the worker trusts a clue; planted ones reach at most 75
ACCUSING_CLUE = 50  # strength from which a sailor is accused
STALKED = 10  # distance in tiles within which a traitor follows a sailor that is alone
HUNGRY = "I have no food."


def living(observation: Observation) -> list[Mate]:
    """The other sailors that are alive."""
    return [mate for mate in observation.mates if mate.status == "alive"]


def suspect(observation: Observation, least: int = TRUSTED_CLUE) -> str:
    """The living other sailor named by the strongest clue of strength `least` or more; empty if there is none."""
    names = [mate.name for mate in living(observation)]
    clues = [(-clue.strength, clue.about) for clue in observation.clues if clue.about in names]
    strength, name = min(clues, default=(0, ""))
    return name if -strength >= least else ""


def case(observation: Observation) -> tuple[str, str]:
    """Whom to accuse, and how far that has come today: `new`, `told` aloud, or `accused`; two empty texts for none."""
    name, today = suspect(observation, ACCUSING_CLUE), observation.day
    if not name:
        return "", ""
    log = [clue.text for clue in observation.clues if clue.kind == "accusation" and clue.day == today]
    if any(text.endswith(f" accused {name}.") for text in log):
        return name, "accused"
    said = [message.text for message in observation.messages if message.day == today and not message.to]
    return name, "told" if any(text.startswith(f"{name} ") for text in said) else "new"


def speaks_first(observation: Observation) -> bool:
    """Whether the sailor is the first of the crew that is alive and not under suspicion, who speaks for the others."""
    able = {observation.name, *(mate.name for mate in living(observation))} - {suspect(observation, ACCUSING_CLUE)}
    return observation.name == next(name for name in observation.scenario.crew if name in able or len(able) == 0)


def turns_left(observation: Observation) -> int:
    """The turns of this phase after this one."""
    phase, number = phase_at(observation.scenario, observation.turn)
    return phase.turns - number


def searched(observation: Observation) -> bool:
    """Whether the sailor has shown its backpack today, or refused to."""
    log = [clue for clue in observation.clues if clue.kind == "search" and clue.day == observation.day]
    return any(clue.text.startswith(f"{observation.name} ") for clue in log)


def patient(observation: Observation) -> Mate | None:
    """The nearest other sailor that shows symptoms of poison."""
    return _nearest(observation, [mate for mate in living(observation) if mate.symptoms])


def told(observation: Observation, name: str) -> bool:
    """Whether the sailor has told another one anything, as far as it remembers."""
    own = [message for message in observation.messages if message.speaker == observation.name]
    return any(message.to == name for message in own)


def asker(observation: Observation) -> str:
    """Who asked for food a turn ago and stands on the same tile; empty if nobody does."""
    here = {mate.name for mate in living(observation) if mate.place == observation.place}
    asked = [message for message in observation.messages if message.text == HUNGRY and message.speaker in here]
    now = (observation.day, observation.turn - 1)
    return next((message.speaker for message in asked if (message.day, message.turn) == now), "")


def quarry(observation: Observation) -> Mate | None:
    """For a traitor: the nearest sailor that is alone, seems well, and was not lulled by a word since."""
    if observation.role != "traitor":
        return None
    reach, mates = observation.scenario.evidence.witness, [mate for mate in living(observation) if mate.place]
    alone = [
        mate
        for mate in mates
        if all(_apart(mate, other) > reach for other in mates if other is not mate)
        and not (mate.symptoms or told(observation, mate.name))
        and distance(mate.place or observation.place, observation.place) <= STALKED
    ]
    return _nearest(observation, alone)


def prey(observation: Observation) -> str:
    """Whom a traitor can poison now without being seen; empty for nobody."""
    mate, reach = quarry(observation), observation.scenario.evidence.witness
    if mate is None or mate.place is None or distance(mate.place, observation.place) > 1:
        return ""
    others = [other.place for other in living(observation) if other is not mate]
    return "" if any(place and distance(place, observation.place) <= reach for place in others) else mate.name


def stair_home(observation: Observation) -> Place | None:
    """On another level than the camp's: the place of the stair that leads back."""
    level, home = observation.place[0], observation.camp[0]
    where = observation.scenario.levels[level].stairs.get(home) if level != home else None
    return (level, where[0], where[1]) if where else None


def _apart(one: Mate, other: Mate) -> int:
    return distance(one.place, other.place) if one.place and other.place else 1_000_000


def _nearest(observation: Observation, mates: list[Mate]) -> Mate | None:
    known = [(distance(mate.place, observation.place), mate.name, mate) for mate in mates if mate.place]
    return min(known, key=lambda one: one[:2], default=(0, "", None))[2]
