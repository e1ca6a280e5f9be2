"""What a teacher of MAROONED needs to know: what was meant by a wrong action, and what is legal but foolish."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from castaway.envs.marooned.actions import DIRECTIONS, FORMS, Action, parse_action
from castaway.envs.marooned.compact import heading, next_pile
from castaway.envs.marooned.conduct import legal_actions, read, refuse
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import AIMLESS, REST, suspect
from castaway.envs.marooned.state import Place, SeenPile
from castaway.tasks.environment import Refusal

SYNONYMS = {
    "MOVING": "MOVE",
    "GO": "MOVE",
    "WALK": "MOVE",
    "FOLLOW": "MOVE",
    "EXPLORE": "MOVE",
    "CHECK_STATUS": "WAIT",
    "LOOK": "WAIT",
    "REST": "WAIT",
    "SLEEP": "WAIT",
    "COLLECT": "GATHER",
    "PICK": "GATHER",
    "STORE": "DEPOSIT",
    "REPAIR": "BUILD",
    "CONSTRUCT": "BUILD",
    "CONSUME": "EAT",
    "HEAL": "USE_ANTIDOTE",
}
"""Verbs that models invent, as seen in the wild, and what they stand for."""
_TYPED = re.compile(rf"(?<![A-Za-z_])(?:{'|'.join(sorted(FORMS, key=len, reverse=True))})(?![A-Za-z_])")
"""A verb as typed, standing alone."""
_LONGEST_WORD = 24
_AIMS = {
    "GATHER": "{} here",
    "DEPOSIT": "store",
    "BUILD": "ready",
    "EAT": "hungry",
    "SABOTAGE": "unseen",
    "FRAME": "blame",
    "VOTE": "suspect {}",
    "CALL_VOTE": "suspect {}",
}
"""What scripted sailors give as their reason for a verb; `{}` is its first argument."""


class MaroonedRules:
    """The game's `Rules`."""

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Why the text is not a legal action, or None."""
        return read(observation, action)[1]

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """Legal actions as typed."""
        return legal_actions(observation)

    def repair(self, observation: Observation, text: str) -> str:
        """The legal action nearest in meaning: first the intention behind the verb, then the likeness of the words."""
        upper = _words(text)
        verb = _verb(text, upper)
        typed = list(_TYPED.finditer(text))
        if not verb and typed:  # the action stands behind something else: REASONING, a label in markdown, an aim
            upper = _words(text[typed[-1].start() :])
            verb = typed[-1].group()
        wish = _intention(observation, verb, upper)
        if wish is not None and refuse(observation, wish) is None:
            return str(wish)
        legal = legal_actions(observation)
        same_verb = [action for action in legal if action.split(" ", 1)[0] == verb]
        pool = same_verb or (["WAIT"] if verb in FORMS or not verb else list(legal))
        wanted = " ".join([verb, *upper[1:]])
        return max(pool, key=lambda action: SequenceMatcher(None, action.upper(), wanted, autojunk=False).ratio())

    def reason(self, observation: Observation, action: str) -> str:
        """The aim that a scripted sailor would give."""
        parsed = parse_action(action)
        verb, argument = (parsed.verb, parsed.arguments[0] if parsed.arguments else "") if parsed else ("", "")
        if verb == "MOVE":
            return _aim_of_a_step(observation, argument)
        return _AIMS[verb].format(argument) if verb in _AIMS else REST.aim

    def blunder(self, observation: Observation, action: str) -> str:
        """Legal, but against the sailor's own interest on what it knows."""
        parsed = parse_action(action)
        if parsed is None:
            return ""
        named = {clue.about for clue in observation.clues}
        if parsed.verb in ("VOTE", "CALL_VOTE") and observation.role == "colonist" and parsed.arguments[0] not in named:
            return f"No evidence names {parsed.arguments[0]}."
        if parsed.verb == "EAT" and observation.energy >= observation.scenario.energy.most and observation.ate:
            return "You have eaten today and your energy is full."
        if parsed.verb == "WAIT" and observation.role == "colonist":
            return _passed_by(observation)
        return ""


def _passed_by(observation: Observation) -> str:
    """What a colonist that waits could do for the crew without a step: vote on strong evidence, or build."""
    name = suspect(observation)
    ballots = [Action(verb, (name,)) for verb in ("VOTE", "CALL_VOTE")] if name else []
    if any(refuse(observation, ballot) is None for ballot in ballots):
        return f"Strong evidence names {name}, and there is a vote to be had."
    for component in observation.scenario.components:
        if refuse(observation, Action("BUILD", (component,))) is None:
            return f"The {component} can be built now."
    return ""


def _aim_of_a_step(observation: Observation, direction: str) -> str:
    """Toward the camp, or toward what is needed next, or nowhere in particular."""
    pile = next_pile(observation)
    goals = [("camp", observation.camp), *([(pile.id, pile.place)] if pile else [])]
    named = [name for name, place in goals if heading(observation.place, place) == direction]
    return f"{named[0]} {direction}" if named else AIMLESS


def _words(text: str) -> list[str]:
    """The first words and numbers, in capitals."""
    return [word[:_LONGEST_WORD].upper() for word in re.findall(r"[A-Za-z]+|[0-9]+", text.replace("_", " "))[:12]]


def _verb(text: str, upper: list[str]) -> str:
    """The verb that the text begins with or was meant to, or empty for gibberish."""
    squeezed = re.sub(r"[^A-Z]", "", text.upper())
    for verb in sorted([*FORMS, *SYNONYMS], key=len, reverse=True):
        if squeezed.startswith(verb.replace("_", "")):
            return SYNONYMS.get(verb, verb)
    if not upper:
        return ""
    best = max(FORMS, key=lambda verb: SequenceMatcher(None, verb, upper[0], autojunk=False).ratio())
    return best if SequenceMatcher(None, best, upper[0], autojunk=False).ratio() >= 0.75 else ""


def _intention(observation: Observation, verb: str, words: list[str]) -> Action | None:
    """What a sailor that wrote this verb wanted, as a step that is possible from here."""
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
    """The direction that the words contain (NORTHEAST has two), the first that is possible."""
    text = " ".join(words)
    named = [d for d in DIRECTIONS if d in text]
    if not named and any(word in ("CENTER", "CAMP", "SHIP", "HOME", "BASE") for word in words):
        return _toward(observation, observation.camp)
    legal = [Action("MOVE", (direction,)) for direction in named]
    return next((action for action in legal if refuse(observation, action) is None), None)


def _meant_pile(observation: Observation, words: list[str]) -> SeenPile | None:
    """The nearest known pile of a kind that the words name."""
    near = sorted(
        (pile for pile in observation.piles if pile.place[0] == observation.place[0]),
        key=lambda p: (abs(p.place[1] - observation.place[1]) + abs(p.place[2] - observation.place[2]), p.id),
    )
    text = " ".join(words[1:]).replace(" ", "")
    exact = [pile for pile in near if pile.id.replace("_", "") in text]
    kinds = [pile for pile in near if any(len(word) > 2 and word in pile.id for word in words[1:])]
    return next(iter([*exact, *kinds]), None)


def _toward(observation: Observation, goal: Place) -> Action | None:
    """A legal step toward a place of the same level."""
    if goal[0] != observation.place[0]:
        return None
    east, south = goal[1] - observation.place[1], goal[2] - observation.place[2]
    steps = []
    if east:
        steps.append((abs(east), "EAST" if east > 0 else "WEST"))
    if south:
        steps.append((abs(south), "SOUTH" if south > 0 else "NORTH"))
    if not steps:
        return None
    return Action("MOVE", (max(steps)[1],))
