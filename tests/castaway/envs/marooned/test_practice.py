"""What the base model's text adds to each situation: colonists are shown what they might do, traitors what they may."""

from random import Random

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.imagination import imagined
from castaway.envs.marooned.practice import practice


def test_a_traitor_practises_sabotage_where_the_prompt_says_that_it_may_and_never_builds() -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(4)
    struck, spared = 0, 0
    for number in range(100):
        environment.reset(number, "traitor")
        (prompt,) = environment.prompts()
        seen = imagined(prompt.observation, random)
        shown = environment.prompt_of(seen).messages[-1]["content"].rpartition("ready ")[2]
        actions = {reply.action for reply in practice(seen, random, 100) if reply.action.startswith(("SABOT", "BUILD"))}
        legal = [action for action in environment.rules.legal_actions(seen) if action.startswith("SABOTAGE")]
        assert (shown not in ("nothing", "far")) == bool(legal)
        assert actions == ({f"SABOTAGE {shown}"} if legal else set()) and actions <= set(legal)
        struck, spared = struck + bool(legal), spared + (not legal)
    assert struck > 10 and spared > 10


def test_a_colonist_practises_building_what_the_prompt_calls_ready() -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(4)
    environment.reset(0, "crew")
    built = set()
    for _ in range(100):
        seen = imagined(environment.prompts()[0].observation, random)
        shown = environment.prompt_of(seen).messages[-1]["content"].rpartition("ready ")[2]
        actions = {reply.action for reply in practice(seen, random, 100) if reply.action.startswith("BUILD")}
        assert actions == (set() if shown == "nothing" else {f"BUILD {shown}"})
        built |= actions
    assert built
