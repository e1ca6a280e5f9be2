"""Tables of the constants and rewards of MAROONED's scenarios, from the data that the game itself uses."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Template
from ruamel.yaml import YAML

from castaway.envs.marooned.scenario import Scenario
from castaway.metrics.markdown import table

SCENARIOS = ("classic", "skiff")
HERE = Path(__file__).parent


def rulebook(scenarios: Sequence[Scenario]) -> str:
    """The constants of the scenarios, and the rewards of each, or once if they are the same."""
    first, *others = scenarios
    same = all((one.colonist, one.traitor) == (first.colonist, first.traitor) for one in others)
    pay = [pay_table(first)] if same else [f"{one.name}:\n\n{pay_table(one)}" for one in scenarios]
    return "\n\n".join([constants_table(scenarios), *pay])


def constants_table(scenarios: Sequence[Scenario]) -> str:
    columns = [constants(scenario) for scenario in scenarios]
    labels = dict.fromkeys(label for column in columns for label in column)
    rows = [[label, *(column.get(label, "none") for column in columns)] for label in labels]
    return table(["constant", *(scenario.name for scenario in scenarios)], rows, figures=False)


def pay_table(scenario: Scenario) -> str:
    roles = (scenario.colonist, scenario.traitor)
    paid_for = YAML(typ="safe").load(HERE / "rewards.yaml")
    rows = [[label, *(f"{getattr(pay, name):+g}" for pay in roles)] for name, label in paid_for.items()]
    for mark in scenario.colonist.milestones:
        rows.append([f"the ship reaches {mark} %, once", *(f"{pay.milestones.get(mark, 0):+g}" for pay in roles)])
    return table(["paid for", "colonist", "traitor"], rows)


def constants(scenario: Scenario) -> dict[str, str]:
    """Every constant of a scenario by its label in the table, in the order of the rules."""
    template = Template((HERE / "constants.jinja").read_text("utf-8"), trim_blocks=True, lstrip_blocks=True)
    lines = (line.partition(": ") for line in template.render(s=scenario).strip().split("\n"))
    return {label: value for label, _, value in lines}
