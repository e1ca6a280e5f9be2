"""What a teacher needs for MAROONED: the intention behind an invalid reply, and legal actions that are mistakes."""

import re
from difflib import SequenceMatcher, get_close_matches

from castaway.envs.marooned.actions import DIRECTIONS, FORMS, Action, legal_actions, parse_action, read, refuse
from castaway.envs.marooned.affairs import suspect
from castaway.envs.marooned.compact import heading, lurker, next_pile, steps
from castaway.envs.marooned.decisions import REST
from castaway.envs.marooned.full import in_words
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import AIMLESS
from castaway.envs.marooned.state import Place, SeenPile
from castaway.tasks.environment import Refusal

SYNONYMS = {  # verbs that models were observed to invent
    **dict.fromkeys(("MOVING", "GO", "WALK", "FOLLOW", "EXPLORE"), "MOVE"),
    **dict.fromkeys(("CHECK_STATUS", "LOOK", "REST", "SLEEP"), "WAIT"),
    **dict.fromkeys(("COLLECT", "PICK"), "GATHER"),
    **{"STORE": "DEPOSIT", "REPAIR": "BUILD", "CONSTRUCT": "BUILD", "CONSUME": "EAT", "HEAL": "USE_ANTIDOTE"},
}
_TYPED = re.compile(rf"(?<![A-Za-z_])(?:{'|'.join(sorted(FORMS, key=len, reverse=True))})(?![A-Za-z_])")
_LONGEST_WORD = 24  # number of characters kept of a word, so that gibberish does not make the comparison slow
_ALIKE = 0.75  # how much a word has to be like a verb, as a ratio of `SequenceMatcher`, to be taken for it
_AIMS = {  # the reason that scripted sailors give for a verb; `{}` is its first argument
    "GATHER": "{} here",
    "DEPOSIT": "store",
    "BUILD": "ready",
    "EAT": "hungry",
    "SABOTAGE": "unseen",
    "FRAME": "blame",
    "VOTE": "suspect {}",
    "CALL_VOTE": "suspect {}",
}


_MORE_AIMS = {
    "USE_ANTIDOTE": "cure",
    "CALL_SOS": "ill",
    "SAY": "tell",
    "TELL": "tell",
    "ACCUSE": "suspect {}",
    "SHOW_BACKPACK": "open",
    "REFUSE_SHOW": "hide",
    "GIVE": "share",
    "CLIMB": "stair here",
    "POISON": "alone",
}
"""The same in the whole repertoire."""


class MaroonedRules:
    def __init__(self, sentences: bool = False) -> None:
        self._sentences = sentences

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        return read(observation, action)[1]

    legal_actions = staticmethod(legal_actions)

    def repair(self, observation: Observation, text: str) -> str:
        """The legal action closest in meaning: first by the intention behind the verb, then by text similarity."""
        upper = _words(text)
        verb = _verb(text, upper)
        typed = list(_TYPED.finditer(text))
        if not verb and typed:  # the action follows other text: reasoning, a label in Markdown, an aim
            upper = _words(text[typed[-1].start() :])
            verb = typed[-1].group()
        if not verb:
            return "WAIT"
        wish = _intention(observation, verb, upper)
        if wish is not None and refuse(observation, wish) is None:
            return str(wish)
        legal = legal_actions(observation)
        same_verb = [action for action in legal if action.split(" ", 1)[0] == verb]
        pool = same_verb or (["WAIT"] if verb in FORMS else list(legal))
        wanted = " ".join([verb, *upper[1:]])
        return max(pool, key=lambda action: SequenceMatcher(None, action.upper(), wanted, autojunk=False).ratio())

    def reason(self, observation: Observation, action: str) -> str:
        parsed = parse_action(action)
        verb, argument = (parsed.verb, parsed.arguments[0] if parsed.arguments else "") if parsed else ("", "")
        if verb == "MOVE":
            aim = _aim_of_a_step(observation, argument)
        else:
            aims = _AIMS | (_MORE_AIMS if observation.scenario.repertoire == "whole" else {})
            aim = aims.get(verb, REST.aim).format(argument)
        return in_words(aim) if self._sentences else aim

    def blunder(self, observation: Observation, action: str) -> str:
        parsed = parse_action(action)
        if parsed is None:
            return ""
        named = {lurker(observation), *(clue.about for clue in observation.clues)}
        if parsed.verb in ("VOTE", "CALL_VOTE") and observation.role == "colonist" and parsed.arguments[0] not in named:
            return f"No evidence names {parsed.arguments[0]}."
        if parsed.verb == "EAT" and observation.energy >= observation.scenario.energy.most and observation.ate:
            return "You have eaten today and your energy is full."
        if parsed.verb == "WAIT" and observation.role == "colonist":
            return _passed_by(observation)
        return ""


def _passed_by(observation: Observation) -> str:
    name = suspect(observation)
    ballots = [Action(verb, (name,)) for verb in ("VOTE", "CALL_VOTE")] if name else []
    if any(refuse(observation, ballot) is None for ballot in ballots):
        return f"Strong evidence names {name}, and there is a vote to be had."
    for component in observation.scenario.components:
        if refuse(observation, Action("BUILD", (component,))) is None:
            return f"The {component} can be built now."
    return ""


def _aim_of_a_step(observation: Observation, direction: str) -> str:
    pile = next_pile(observation)
    goals = [("camp", observation.camp), *([(pile.id, pile.place)] if pile else [])]
    named = [name for name, place in goals if heading(observation.place, place) == direction]
    return f"{named[0]} {direction}" if named else AIMLESS


def _words(text: str) -> list[str]:
    return [word[:_LONGEST_WORD].upper() for word in re.findall(r"[A-Za-z]+|[0-9]+", text.replace("_", " "))[:12]]


def _verb(text: str, upper: list[str]) -> str:
    # Without spaces and marks `*Use antidote*` begins with USE_ANTIDOTE as well; the longest verb is tried first.
    squeezed = re.sub(r"[^A-Z]", "", text.upper())
    for verb in sorted([*FORMS, *SYNONYMS], key=len, reverse=True):
        if squeezed.startswith(verb.replace("_", "")):
            return SYNONYMS.get(verb, verb)
    return _nearest(upper[0]) if upper else ""


def _nearest(word: str) -> str:
    # Faster than all ratios, since nearly all verbs fail its upper bounds; of equally close verbs the first one counts.
    close = get_close_matches(word, FORMS, len(FORMS), _ALIKE)
    ratios = {verb: SequenceMatcher(None, verb, word, autojunk=False).ratio() for verb in FORMS if verb in close}
    return max(ratios, key=lambda verb: ratios[verb], default="")


def _intention(observation: Observation, verb: str, words: list[str]) -> Action | None:
    if verb == "MOVE":
        return _any_direction(observation, words)
    if verb == "GATHER":
        pile = _meant_pile(observation, words)
        if pile is None:
            return None
        return Action("GATHER", (pile.id,)) if pile.place == observation.place else _toward(observation, pile.place)
    if verb in ("DEPOSIT", "TAKE", "BUILD", "SABOTAGE") and not observation.at_camp:
        return _toward(observation, observation.camp)
    if verb == "DEPOSIT":
        kinds = [kind for kind in observation.backpack if any(word.lower() in kind for word in words)]
        kind = next(iter(kinds or observation.backpack), None)
        return Action("DEPOSIT", (kind, str(observation.backpack[kind]))) if kind else None
    return None


def _any_direction(observation: Observation, words: list[str]) -> Action | None:
    named = [direction for direction in DIRECTIONS if direction in " ".join(words)]
    if not named and any(word in ("CENTER", "CAMP", "SHIP", "HOME", "BASE") for word in words):
        return _toward(observation, observation.camp)
    legal = [Action("MOVE", (direction,)) for direction in named]
    return next((action for action in legal if refuse(observation, action) is None), None)


def _meant_pile(observation: Observation, words: list[str]) -> SeenPile | None:
    here = observation.place
    near = [pile for pile in observation.piles if pile.place[0] == here[0]]
    near.sort(key=lambda pile: (steps(here, pile.place), pile.id))
    text = " ".join(words[1:]).replace(" ", "")
    exact = [pile for pile in near if pile.id.replace("_", "") in text]
    kinds = [pile for pile in near if any(len(word) > 2 and word in pile.id for word in words[1:])]
    return next(iter([*exact, *kinds]), None)


def _toward(observation: Observation, goal: Place) -> Action | None:
    if goal[0] != observation.place[0]:
        return None
    east, south = goal[1] - observation.place[1], goal[2] - observation.place[2]
    longer = max((abs(east), "EAST" if east > 0 else "WEST"), (abs(south), "SOUTH" if south > 0 else "NORTH"))
    return Action("MOVE", (longer[1],)) if longer[0] else None
