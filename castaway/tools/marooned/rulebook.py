"""Tables of the constants and rewards of MAROONED's scenarios, from the data that the game itself uses.

castaway rules                              print the tables
castaway rules --write docs/marooned.md     write them between the markers in a file
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castaway.envs.marooned.scenario import Component, Level, Phase, Scenario, Tiers
from castaway.metrics.markdown import table

SCENARIOS = ("classic", "skiff")
"""All scenarios."""


def constants_table(scenarios: Sequence[Scenario]) -> str:
    """A Markdown table with one row for each constant and one column for each scenario."""
    columns = [constants(scenario) for scenario in scenarios]
    labels = dict.fromkeys(label for column in columns for label in column)
    rows = [[label, *(column.get(label, "none") for column in columns)] for label in labels]
    return table(["constant", *(scenario.name for scenario in scenarios)], rows, figures=False)


def pay_table(scenario: Scenario) -> str:
    """A Markdown table of the rewards of each role."""
    roles = (scenario.colonist, scenario.traitor)
    rows = [[label, *(f"{getattr(pay, name):+g}" for pay in roles)] for name, label in PAID_FOR.items()]
    for mark in scenario.colonist.milestones:
        rows.append([f"the ship reaches {mark} %, once", *(f"{pay.milestones.get(mark, 0):+g}" for pay in roles)])
    return table(["paid for", "colonist", "traitor"], rows)


PAID_FOR = {
    "turn": "each turn",
    "gather": "a GATHER from a pile of nature's",
    "deposit": "a DEPOSIT that raises what was ever handed in",
    "build": "a BUILD that advanced a component",
    "progress_point": "each point of ship progress, lost ones taken back",
    "success": "the own side wins",
    "death": "the own death",
    "traitor_ejected": "the traitor is ejected",
    "innocent_ejected": "an innocent is ejected",
    "ballot_right": "a ballot against the traitor",
    "ballot_wrong": "a ballot against an innocent",
    "sabotage": "a SABOTAGE",
    "poison_kill": "a death by its poison",
    "energy_high": "high energy, each turn",
    "energy_low": "low energy, each turn",
    "named": "named too often in the log, once",
}
"""The fields of `RolePay` in words."""


def constants(scenario: Scenario) -> dict[str, str]:
    """Every constant of a scenario by its label in the table, in the order of the rules."""
    return {
        "crew": f"{len(scenario.crew)}, one of them the traitor",
        "days": str(scenario.days),
        "turns a day": str(scenario.turns_per_day),
        **{f"phase {phase.name}": _phase(phase) for phase in scenario.phases},
        **{f"level {name}": _level(level) for name, level in scenario.levels.items()},
        **{f"piles, {name}": _counts(level.piles) for name, level in scenario.levels.items()},
        "units in a pile": str(scenario.pile_amount),
        "units that a GATHER takes": str(scenario.gather_amount),
        "backpack": f"{scenario.backpack} units",
        "start": "anywhere on the ground" if scenario.scattered else "at the camp",
        **{f"ship, {name}": _component(part) for name, part in scenario.components.items()},
        "sailors at the camp for a BUILD": str(scenario.builders),
        **_body(scenario),
        **_harm(scenario),
        "weather": _weather(scenario),
        "victory tiers": "none" if scenario.tiers is None else _tiers(scenario.tiers),
        "a vote closes after": f"{_many(scenario.vote_turns, 'turn')}, or with its phase",
        "a vote takes": f"{scenario.quorum} living sailors",
        "ejected by more than": f"{scenario.majority} % of the living",
        "no more votes after": f"{_many(scenario.mistakes, 'ejected innocent')}",
        "length of a message": f"{scenario.message_length} characters",
        "the traitor wins with fewer than": f"{scenario.least_alive} left",
    }


def _body(scenario: Scenario) -> dict[str, str]:
    energy = scenario.energy
    return {
        "energy at the start": f"{energy.start} of {energy.most}",
        "walk, climb up, climb down": f"{energy.walk}, {energy.climb_up}, {energy.climb_down} energy",
        "gather, build": f"{energy.gather}, {energy.build} energy",
        "the traitor pays": f"{energy.traitor_discount} % less, rounded up",
        "at dawn": f"+{energy.fed} energy if fed the day before, else -{energy.hungry}",
        "high and low energy": f"above {scenario.energy_high}, below {scenario.energy_low}",
        "food": ", ".join(f"{kind} +{gain}" for kind, gain in scenario.food.items()),
    }


def _harm(scenario: Scenario) -> dict[str, str]:
    poison, rules = scenario.poison, scenario.evidence
    kinds = ("sabotage", "poison_collected", "suspicious_death", "location_mismatch", "resource_theft")
    least, most = scenario.sabotage_points
    return {
        "poison": f"signs on day {poison.early}, severe on day {poison.severe}, death on day {poison.death}",
        "SABOTAGE takes": f"{least} to {most} points of a component",
        "SABOTAGE reaches": f"{_many(scenario.sabotage_range, 'tile')} from the ship",
        "a hand is recognised within": _many(rules.witness, "tile"),
        **{f"evidence, {kind.replace('_', ' ')}": _strength(getattr(rules, kind)) for kind in kinds},
        "evidence, false information": _strength(rules.false_information),
        "named too often": f"in more than {scenario.named_limit} entries of the log",
        "evidence, framing": f"{rules.framing[0]} to {rules.framing[1]}",
    }


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _counts(box: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {kind}" for kind, amount in box.items())


def _level(level: Level) -> str:
    return f"{level.width} x {level.depth} tiles, sight {level.vision}"


def _phase(phase: Phase) -> str:
    allowed = [word for word, yes in (("work", phase.work), ("votes", phase.vote)) if yes] or ["talk only"]
    talk = _many(phase.messages, "message")
    pause = f", one in {phase.message_every} turns" if phase.message_every > 1 else ""
    return f"{_many(phase.turns, 'turn')}; {' and '.join(allowed)}; {talk}{pause}"


def _component(part: Component) -> str:
    after = f", after the {part.after}" if part.after else ""
    return f"{part.share} %; {part.steps} BUILDs of {_counts(part.step_cost)}{after}"


def _weather(scenario: Scenario) -> str:
    rules = scenario.weather
    if rules is None:
        return "none"
    return (
        f"on {rules.chance} % of the days: storm (no work), fog (sight {rules.fog_vision}), "
        f"rain (work costs {rules.rain_cost} %) or clear skies ({rules.clear_cost} %)"
    )


def _tiers(tiers: Tiers) -> str:
    crew = ", ".join(f"{share} % with {least} colonists" for least, share in tiers.survivors.items())
    traitor = ", ".join(f"{share} % with the ship below {below} %" for below, share in tiers.progress.items())
    return f"of the pay for success {crew}; {traitor}"


def _strength(strength: int | None) -> str:
    return "not used" if strength is None else str(strength)
