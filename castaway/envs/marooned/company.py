"""What scripted sailors do beside their work with `repertoire: whole`, by the facts in `affairs`.

A colonist cures, fetches herbs from another level, shows its backpack, tells and accuses, and shares its food. The
traitor gathers poison unseen, follows who is alone, poisons and lulls it, hides what it carries, and blames others.
"""

from castaway.envs.marooned.actions import Action
from castaway.envs.marooned.affairs import (
    HUNGRY,
    asker,
    case,
    living,
    patient,
    prey,
    quarry,
    searched,
    speaks_first,
    stair_home,
    suspect,
    told,
    turns_left,
)
from castaway.envs.marooned.compact import heading, nearest_pile
from castaway.envs.marooned.decisions import Decision, fetch, walk
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.state import Place, distance

LULLING = "All is well here."
BRINGING = "I bring you a herb."
DEEDS = {"sabotage": "broke the ship", "poison": "took poison", "poisoning": "poisoned a sailor"}
"""What a sailor says of a suspect, by the kind of the entry in the log."""
POISONED = "You poisoned "  # how the result of a POISON begins
NEAR = 8  # steps to a pile of poison for which a traitor leaves the ship

Wishes = list[Decision | None]
"""In their order; the first that is legal counts."""


def as_colonist(observation: Observation) -> Wishes:
    """What comes before work."""
    return [*_medicine(observation), *_word(observation), *_search(observation), *_food(observation), *_up(observation)]


def _do(verb: str, *arguments: str, aim: str) -> Decision:
    return Decision(Action(verb, arguments), aim)


def _toward(observation: Observation, place: Place, what: str) -> Decision:
    return Decision(walk(observation, place), f"{what} {heading(observation.place, place)}")


def _medicine(observation: Observation) -> Wishes:
    herb, ill = observation.scenario.antidote_type, patient(observation)
    held = observation.backpack.get(herb, 0)
    wishes: Wishes = [_do("USE_ANTIDOTE", name, aim="cure") for name in (observation.name, ill.name if ill else "")]
    if observation.symptoms and not held:
        pile = nearest_pile(observation, {herb}) if observation.phase.work else None
        wishes += [_do("TAKE", herb, "1", aim="cure"), fetch(observation, pile) if pile else None]
        wishes.append(_do("CALL_SOS", aim="ill"))
    if held and ill and ill.place and ill.place[0] == observation.place[0]:
        wishes.append(None if told(observation, ill.name) else _do("TELL", ill.name, BRINGING, aim="tell"))
        wishes.append(_toward(observation, ill.place, "patient"))
    if held > 1:
        wishes.append(_do("DEPOSIT", herb, str(held - 1), aim="store"))
    return wishes


def _word(observation: Observation) -> Wishes:
    """Evidence is told once a day, and its sailor accused before the vote; weak evidence is no reason to vote."""
    (name, state), vote = case(observation), observation.phase.vote
    first, sure, time = speaks_first(observation), name == suspect(observation), turns_left(observation) > 0
    if not name or state == "accused":
        return []
    if vote and first and (time or not sure):
        return [_do("ACCUSE", name, aim=f"suspect {name}")]
    if sure and state == "new" and (time if vote else first):
        kind = max((clue.strength, clue.kind) for clue in observation.clues if clue.about == name)[1]
        return [_do("SAY", f"{name} {DEEDS.get(kind, 'is guilty')}.", aim="tell")]
    return []


def _search(observation: Observation) -> Wishes:
    if not observation.accused or searched(observation):
        return []
    poison = observation.scenario.poison_type
    if held := observation.backpack.get(poison, 0):
        away = _do("DROP", poison, str(held), aim="hide") if turns_left(observation) else None
        return [away, _do("REFUSE_SHOW", aim="hide")]
    return [_do("SHOW_BACKPACK", aim="open")]


def _food(observation: Observation) -> Wishes:
    foods = observation.scenario.food
    spare = [kind for kind in foods if observation.backpack.get(kind, 0) > 1]
    if (name := asker(observation)) and spare:
        return [_do("GIVE", name, spare[0], "1", aim="share")]
    stored = observation.at_camp and any(kind in observation.store for kind in foods)
    full = observation.ate or stored or any(kind in observation.backpack for kind in foods)
    asked = any(one.speaker == observation.name and one.text == HUNGRY for one in observation.messages)
    alone = all(mate.place != observation.place for mate in living(observation))
    late = observation.phase.work or turns_left(observation) < 2 or suspect(observation)
    return [] if full or asked or alone or late else [_do("SAY", HUNGRY, aim="hungry")]


def _up(observation: Observation) -> Wishes:
    """Herbs grow on other levels: whoever comes upon the stair gathers some, and comes back."""
    herb, levels = observation.scenario.antidote_type, observation.scenario.levels
    held, here = herb in observation.backpack, observation.place
    if home := stair_home(observation):
        pile = None if held else nearest_pile(observation, {herb})
        back = _climb(observation, observation.camp[0]) if here == home else _toward(observation, home, "stair")
        return [fetch(observation, pile) if pile else back]
    fit = observation.energy > observation.scenario.energy_high and turns_left(observation) > levels[here[0]].width // 2
    if observation.stair and herb in levels[observation.stair[0]].piles and fit and not held:
        return [_climb(observation, observation.stair[0])]
    return []


def _climb(observation: Observation, level: str) -> Decision:
    levels = observation.scenario.levels
    slope = "UP" if levels[level].height > levels[observation.place[0]].height else "DOWN"
    return _do("CLIMB", slope, aim="stair here")


def as_traitor(observation: Observation) -> Wishes:
    """What comes before sabotage."""
    wishes: Wishes = list(_search(observation))
    if observation.note.startswith(POISONED):
        wishes.append(_do("TELL", observation.note.removeprefix(POISONED).rstrip("."), LULLING, aim="lull"))
    if name := prey(observation):
        wishes.append(_do("POISON", name, aim="alone"))
    if observation.phase.vote and turns_left(observation):
        name, state = case(observation)
        wishes.append(_do("ACCUSE", name, aim=f"suspect {name}") if name and state != "accused" else None)
        wishes.append(_lie(observation))
    return wishes


def _lie(observation: Observation) -> Decision | None:
    """Once a day, after somebody has broken the ship unseen: that another one was there."""
    today, mates = observation.day, living(observation)
    broken = any(clue.kind == "sabotage" and not clue.about and clue.day == today for clue in observation.clues)
    spoken = any(one.speaker == observation.name and one.day == today for one in observation.messages)
    return _do("SAY", f"{mates[0].name} was at the ship.", aim="blame") if broken and mates and not spoken else None


def prowl(observation: Observation) -> Wishes:
    """What comes before lurking at the ship: to poison that nobody watches, or after a sailor that is alone."""
    poison, reach = observation.scenario.poison_type, observation.scenario.evidence.witness
    if poison in observation.backpack:
        mate = quarry(observation)
        return [_toward(observation, mate.place, "prey")] if mate and mate.place else []
    pile = nearest_pile(observation, {poison})
    places = [mate.place for mate in living(observation) if mate.place]
    if pile is None or distance(pile.place, observation.place) > NEAR:
        return []
    watched = any(distance(place, pile.place) <= reach for place in places)
    return [] if watched else [fetch(observation, pile)]
