"""The view of MAROONED: an episode's last vote in a few lines, and a page that replays it without server or network.

The true state comes from the saved episode. What the sailors knew comes from playing the episode again, with its id
and its actions. The game is deterministic, so each moment must equal the saved one. If one differs, the rules have
changed since; the page then says so and shows only the true state.

Text that models wrote is never interpreted as markup. The episode is in the page as JSON with `<` escaped, the page
inserts text only with `textContent`, and its content security policy allows only its own script.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from castaway.config.errors import CastawayError
from castaway.envs.marooned.actions import parse_action
from castaway.envs.marooned.engine import OUT_OF_TURNS
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.observation import Observation, phase_at
from castaway.envs.marooned.scenario import Repertoire, Scenario, load_scenario
from castaway.rollout.episodes import Row
from castaway.tasks.reply import parse_reply
from castaway.tools.marooned.rulebook import SCENARIOS
from castaway.tools.transcript import clean, end_of
from castaway.tools.view import TaskView, render

Data = dict[str, Any]
NEEDED = frozenset({"day", "turn", "sailors", "piles", "ship", "store", "clues", "messages"})
"""Keys that a saved moment must have to be drawn."""


class MaroonedView(TaskView):
    def brief(self, rows: Sequence[Row]) -> list[str]:
        """The last vote: who voted for whom, and why; of an episode without one, its last turn."""
        head, *moments = rows
        votes = [after for after in moments if any(_ballots(after)) and after["clues"][-1:]]
        if not is_of_marooned(rows) or not votes:
            return super().brief(rows)
        day, ballots = votes[-1]["day"], dict[str, str]()
        for before, after in pairwise(moments):
            if after["day"] == day:
                ballots |= {name: f"{name} votes for {whom}{_reason(before, name)}" for name, whom in _ballots(after)}
        traitors = [name for name, one in moments[-1]["sailors"].items() if one["role"] == "traitor"]
        counted = [clue["text"] for clue in moments[-1]["clues"] if clue["kind"] == "vote" and clue["day"] == day]
        known = f"; {traitors[0]} is the traitor, which the others do not know" if traitors else ""
        return [
            f"The vote on day {day}{known}:",
            *(f"  {clean(line)}" for line in ballots.values()),
            *counted,
            end_of(head),
        ]

    def state(self, moment: Row) -> Iterable[str]:
        """The traitor, whom the other sailors do not know, and the plain values."""
        traitors = [name for name, one in (moment.get("sailors") or {}).items() if one["role"] == "traitor"]
        return [*(f"traitor: {name}" for name in traitors), *super().state(moment)]

    def page(self, rows: Sequence[Row]) -> str:
        return replay_page(rows)


def _ballots(after: Row) -> Iterator[tuple[str, str]]:
    for name, typed in after.get("actions", {}).items():
        action = parse_action(typed)
        if action and action.verb in ("CALL_VOTE", "VOTE"):
            yield name, action.arguments[0]


def _reason(before: Row, name: str) -> str:
    said = before.get("said", {}).get(name)
    return f": {parse_reply(said['text']).reasoning}" if said else ""


# The page ------------------------------------------------------------------------------------------------------------


def replay_page(rows: Sequence[Row]) -> str:
    """The HTML page of a saved episode; CastawayError if it is not one of MAROONED."""
    data = replay_data(rows)
    script, style = ((Path(__file__).parent / f"replay.{ending}").read_text("utf-8") for ending in ("js", "css"))
    return render(
        "replay.html.jinja",
        title=f"MAROONED, {data['island']['name']}, episode {data['head']['task_id']}",
        script=Markup(script),
        style=Markup(style),
        policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        episode=htmlsafe_json_dumps(data, sort_keys=True, separators=(",", ":")),
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def replay_data(rows: Sequence[Row]) -> Data:
    """All data of the page, as values that JSON can represent."""
    head, *moments = rows
    if not is_of_marooned(rows):
        raise CastawayError("this is no episode of MAROONED: its moments lack the island")
    scenario = _scenario(moments[0])
    known = _knowledge(scenario, head, moments)
    return {
        "head": dict(head),
        "island": _island(scenario),
        "clues": moments[-1]["clues"],
        "talk": _talk(moments),
        "moments": _changes([_truth(scenario, moment) for moment in moments]),
        "known": known and {name: _changes(seen) for name, seen in known.items()},
    }


def is_of_marooned(rows: Sequence[Row]) -> bool:
    """Whether each moment of an episode has what is drawn."""
    _, *moments = rows
    return bool(moments) and all(set(moment) >= NEEDED for moment in moments)


def _scenario(moment: Row) -> Scenario:
    """The scenario that has this crew, ship and island; a saved episode does not name its scenario."""
    for name in SCENARIOS:
        scenario = load_scenario(name)
        levels = {place[0] for place in moment["piles"].values()}
        same = set(scenario.crew) == set(moment["sailors"]) and set(scenario.components) == set(moment["ship"])
        if same and levels <= set(scenario.levels):
            return scenario
    raise CastawayError("no scenario of MAROONED has the crew and the ship of this episode")


def _island(scenario: Scenario) -> Data:
    return {
        **scenario.model_dump(include={"name", "crew", "backpack", "days"}),
        "levels": {name: level.model_dump(exclude={"stairs", "piles"}) for name, level in scenario.levels.items()},
        "camp": [scenario.ground, *scenario.camp],
        "components": {name: part.share for name, part in scenario.components.items()},
        "energy": scenario.energy.most,
    }


def _truth(scenario: Scenario, moment: Row) -> Data:
    phase, number = phase_at(scenario, moment["turn"])
    same = {name: moment[name] for name in ("day", "turn", "sailors", "piles", "store", "ship")}
    return same | {
        "phase": ", ".join(filter(None, [f"{phase.name} {number}/{phase.turns}", moment.get("weather", "")])),
        "vote": moment.get("vote"),
        "clues": len(moment["clues"]),
        "said": moment.get("said", {}),
        "did": moment.get("actions", {}),
        **{name: moment.get(name, "") for name in ("winner", "ending")},
    }


def _talk(moments: Sequence[Row]) -> list[Data]:
    """All messages, public or to one sailor, each with the number of the first moment in which it is known."""
    talk: list[Data] = []
    for number, (before, after) in enumerate(pairwise(moments), start=1):
        for message in after["messages"][len(before["messages"]) :]:
            talk.append({"moment": number, **{name: message.get(name, "") for name in ("speaker", "to", "text")}})
        # A message to one sailor is no entry of the public messages; it is in the action.
        for speaker, typed in after.get("actions", {}).items():
            action = parse_action(typed)
            if action and action.verb == "TELL":
                to, text = action.arguments
                talk.append({"moment": number, "speaker": speaker, "to": to, "text": text})
    return talk


def _knowledge(scenario: Scenario, head: Row, moments: Sequence[Row]) -> dict[str, list[Data]] | None:
    """What each sailor knew in each moment; None if the episode differs from the saved one when it is played again.

    A saved episode does not name the budget of its turns and the repertoire of the scripts either.
    """
    last = moments[-1]
    clock = (last["day"] - 1) * scenario.turns_per_day + last["turn"]
    turns = clock if last.get("ending") == OUT_OF_TURNS else None
    played = (MaroonedEnvironment(scenario.name, "compact", turns, one) for one in get_args(Repertoire))
    known = (_played_again(environment, head, moments) for environment in played)
    return next((one for one in known if one is not None), None)


def _played_again(environment: MaroonedEnvironment, head: Row, moments: Sequence[Row]) -> dict[str, list[Data]] | None:
    known: dict[str, list[Data]] = {name: [] for name in environment.agents}
    try:
        environment.reset(head["task_id"], head.get("seat", ""))
        for moment in moments:
            saved = {name: value for name, value in moment.items() if name != "said"}
            # Through JSON, so that tuples become lists as in the saved moment.
            if json.loads(json.dumps(environment.snapshot())) != saved:
                return None
            for name in environment.agents:
                known[name].append(_known(environment.observation(name)))
            if not environment.done:
                environment.step({name: said["action"] for name, said in moment.get("said", {}).items()})
    except (ValueError, TypeError, KeyError):  # an id, a seat or an action that today's rules do not have
        return None
    return known


def _known(observation: Observation) -> Data:
    mates = {
        mate.name: {"status": mate.status, "place": list(mate.place) if mate.place else None, "symptoms": mate.symptoms}
        for mate in observation.mates
    }
    same = {name: getattr(observation, name) for name in ("vision", "symptoms", "note", "voted")}
    piles = {pile.id: [*pile.place, pile.amount] for pile in observation.piles}
    return {**same, "place": list(observation.place), "mates": mates, "piles": piles, "vote": observation.vote_open}


def _changes(moments: Sequence[Data]) -> list[Data]:
    """The moments with only the piles that changed, which keeps the page small; None stands for a pile that is gone."""
    before: Data = {}
    frames = []
    for moment in moments:
        piles = moment["piles"]
        changed = {id: pile for id, pile in piles.items() if before.get(id) != pile}
        frames.append({**moment, "piles": {**changed, **dict.fromkeys(before.keys() - piles.keys())}})
        before = piles
    return frames
