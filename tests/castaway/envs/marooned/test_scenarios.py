"""The data of the scenarios fit together."""

import pytest

from castaway.envs.marooned.scenario import load_scenario


@pytest.mark.parametrize("name", ["skiff", "classic"])
def test_a_scenario_names_what_exists_and_its_ship_can_be_finished(name: str) -> None:
    scenario = load_scenario(name)
    parts, levels = scenario.components.values(), scenario.levels.values()
    heights = [level.height for level in levels]
    assert len(set(heights)) == len(heights) and 0 in heights and len(set(scenario.crew)) == len(scenario.crew)
    assert sum(part.share for part in parts) == 100
    assert all(part.after is None or part.after in scenario.components for part in parts)
    assert all(other in scenario.levels for level in levels for other in level.stairs)
    named = {
        *scenario.food,
        scenario.poison_type,
        scenario.antidote_type,
        *(kind for level in levels for kind in level.piles),
    }
    assert named <= set(scenario.resources)
    for kind in {kind for part in parts for kind in part.step_cost}:
        needed = sum(part.steps * part.step_cost.get(kind, 0) for part in parts)
        assert needed <= scenario.pile_amount * sum(level.piles.get(kind, 0) for level in levels), kind
