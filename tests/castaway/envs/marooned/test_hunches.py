"""A vote on a hunch: ordinary players cast it, the expert never does, and the teacher lets it pass."""

from random import Random

import pytest

from castaway.envs.marooned.compact import lurker
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scripted import Careless, Worker
from castaway.envs.marooned.teaching import MaroonedRules
from tests.castaway.envs.marooned.tables import Table


@pytest.fixture
def table() -> Table:
    """A discussion after an unseen sabotage; the traitor stands beside the ship, the crew at it."""
    table = Table("skiff")
    level, x, y = table.observation(table.traitor.name).camp
    for mate in table.colonists:
        table.put(mate, (level, x, y))
    table.put(table.traitor, (level, x - 1, y))
    table.world.ship["hull"] = 40
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    return table.phase("discussion")


def test_an_ordinary_player_votes_now_and_then_for_who_lurks_and_the_expert_never_does(table: Table) -> None:
    seen = table.observation(table.colonists[0].name)
    assert lurker(seen) == table.traitor.name
    ballot = f"CALL_VOTE {table.traitor.name}"
    cast = [str(Careless(Random(number), 0.0)(seen).action) == ballot for number in range(100)]
    assert 30 < sum(cast) < 70
    assert not str(Worker()(seen).action).startswith("CALL_VOTE")


def test_the_teacher_holds_a_vote_for_who_lurks_for_no_mistake(table: Table) -> None:
    reader, other = table.colonists[:2]
    rules, seen = MaroonedRules(), table.observation(reader.name)
    assert rules.blunder(seen, f"CALL_VOTE {table.traitor.name}") == ""
    assert rules.blunder(seen, f"CALL_VOTE {other.name}") == f"No evidence names {other.name}."


def test_hunches_are_often_right_and_not_always() -> None:
    """Of a game of careless sailors: the player cannot know, so a policy has to learn what a hunch is worth."""
    environment, right, wrong = MaroonedEnvironment("skiff", "compact"), 0, 0
    for number in range(60):
        environment.reset(number, "all")
        players = {name: Careless(Random(f"{number} {name}"), 0.4) for name in environment.agents}
        while not environment.done:
            prompts = environment.prompts()
            roles = {prompt.agent: prompt.role for prompt in prompts}
            named = {lurker(prompt.observation) for prompt in prompts if prompt.role == "colonist"} - {""}
            right += sum(roles.get(name) == "traitor" for name in named)
            wrong += sum(roles.get(name) == "colonist" for name in named)
            environment.step({p.agent: str(players[p.agent](p.observation).action) for p in prompts})
    assert right > wrong > 10
