"""What the base model's text adds: synthetic states that the game can handle, and further replies that suit them."""

from dataclasses import fields
from random import Random

import pytest

from castaway.envs.marooned.compact import ready_components
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scripted import expert
from castaway.envs.marooned.task import Marooned, MaroonedParams, synthetic_observation
from tests.castaway.envs.marooned.tables import Table

TASK = Marooned(MaroonedParams(scenario="skiff", rendering="compact", traitor_share=0.2))
OTHER = {"turn", "phase", "place", "mates", "energy", "backpack", "ate", "store", "ship", "clues"}
"""What is made up."""


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
def test_made_up_states_are_possible_and_change_what_they_should(scenario: str) -> None:
    table, random = Table(scenario), Random(1)
    seen = table.observation(table.colonists[0].name)
    for _ in range(300):
        other = synthetic_observation(seen, random)
        assert {one.name for one in fields(seen) if getattr(seen, one.name) != getattr(other, one.name)} <= OTHER
        assert set(other.ship) == set(seen.ship) and min(other.ship.values()) < 100
        assert other.load <= seen.scenario.backpack and 1 <= other.energy <= seen.scenario.energy.most
        assert all(amount > 0 for box in (other.backpack, other.store) for amount in box.values())
        assert {clue.about for clue in other.clues} <= {"", *seen.scenario.crew} and len(other.clues) <= 2


def test_a_finished_part_over_a_broken_one_is_among_them_and_is_mended() -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(2)
    environment.reset(0, "all")
    colonist = next(prompt for prompt in environment.prompts() if prompt.role == "colonist")
    mended = 0
    for _ in range(600):
        prompt = TASK.synthetic(environment, colonist, random)
        seen = prompt.observation
        assert prompt.messages == environment.prompt_of(seen).messages
        assert environment.rules.refusal(seen, expert(prompt).action) is None
        if seen.ship["sail"] == 100 and seen.at_camp and ready_components(seen) == ["hull"]:
            mended += expert(prompt).action == "BUILD hull"
    assert mended >= 5


def test_a_traitor_practises_sabotage_where_the_prompt_says_that_it_may_and_never_builds() -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(4)
    struck, spared = 0, 0
    for number in range(100):
        environment.reset(number, "traitor")
        (prompt,) = environment.prompts()
        seen = synthetic_observation(prompt.observation, random)
        shown = environment.prompt_of(seen).messages[-1]["content"].rpartition("ready ")[2]
        actions = {
            reply.action for reply in TASK.practice(seen, random, 100) if reply.action.startswith(("SABOT", "BUILD"))
        }
        legal = [action for action in environment.rules.legal_actions(seen) if action.startswith("SABOTAGE")]
        assert (shown not in ("nothing", "far")) == bool(legal)
        assert actions == ({f"SABOTAGE {shown}"} if legal else set()) and actions <= set(legal)
        struck, spared = struck + bool(legal), spared + (not legal)
    assert struck > 10 and spared > 10
