"""Whatever is typed: nothing raises, only legal actions change the world, pay is paid once, and a game can be repeated.

    MAROONED_STRINGS=100000 pytest tests/castaway/envs/marooned/test_sealed.py

types so many random strings; without the variable it is a few thousand.
"""

import json
import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.actions import legal_actions, parse_action
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scenario import Scenario, load_scenario
from tests.castaway.envs.marooned.test_conservation import draw_action

STRINGS = int(os.environ.get("MAROONED_STRINGS", "3000"))
ODD = [*"\x00\u202e\u2028\U0001f3dd\ufeff\u0130\u0663\x85\t\né", "\x1b[2J", "\ud800"]


def any_string(random: Random, legal: tuple[str, ...]) -> str:
    """Anything from nothing to a legal action: characters of all planes, or an action with some of them changed."""
    kind = random.randrange(5)
    if kind == 0:
        return "".join(chr(random.randrange(0x110000)) for _ in range(random.randrange(12)))
    if kind == 1:
        return "".join(random.choice([*ODD, *"AEIMSTW_019 <>|*`"]) for _ in range(random.randrange(20)))
    if kind == 2:
        return f"{random.choice(['SAY', 'TELL Eve', 'TELL Bob'])} {''.join(random.choice(ODD) for _ in range(6))}"
    letters = list(random.choice(legal))
    for _ in range(random.randrange(3)):
        letters[random.randrange(len(letters))] = random.choice([*ODD, "", " ", "0", "X"])
    return "".join(letters) * (1 if random.random() < 0.98 else 5000)


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
def test_any_string_is_an_action_or_waiting(scenario: str) -> None:
    random = Random(7)
    typed = games = illegal = 0
    while typed < STRINGS // 2:
        games += 1
        raw, strict = (MaroonedEnvironment(scenario, "compact") for _ in range(2))
        for environment in (raw, strict):
            environment.reset(games, "all")
        for turn in range(120):
            if raw.done:
                break
            wild, tame = {}, {}
            for agent in (sailor for sailor in raw.agents if raw._game.world.sailors[sailor].alive):
                seen = raw.observation(agent)
                wild[agent] = any_string(random, legal_actions(seen))
                refusal = raw.rules.refusal(seen, wild[agent])
                tame[agent] = "WAIT" if refusal else wild[agent]
                illegal += refusal is not None
                if typed % 50 == 0:
                    assert raw.rules.refusal(seen, raw.rules.repair(seen, wild[agent])) is None
                typed += 1
            paid = raw.step(wild)
            assert paid == strict.step(tame)
            if turn % 10 == 0 or raw.done:
                assert raw.snapshot() == strict.snapshot()
                json.dumps(raw.snapshot()).encode()
    assert illegal > typed // 2


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6), seat=st.sampled_from(["crew", "traitor", "all"]))
@settings(max_examples=8)
def test_an_episode_played_again_from_its_json_lines_is_the_same_byte_for_byte(
    scenario: str, seed: int, seat: str
) -> None:
    environment, random = MaroonedEnvironment(scenario, "full"), Random(seed)

    def moment() -> str:
        prompts = [(prompt.agent, prompt.messages) for prompt in environment.prompts()]
        return json.dumps([environment.snapshot(), prompts])

    environment.reset(seed, seat)
    lines = [moment()]
    while not environment.done and len(lines) < 60:
        actions = {p.agent: any_string(random, legal_actions(p.observation)) for p in environment.prompts()}
        lines[-1] = json.dumps([lines[-1], actions])
        paid = environment.step(actions)
        lines += [json.dumps([moment(), paid])]
    environment.reset(seed, seat)
    before = moment()
    for line in lines[:-1]:
        saved, actions = json.loads(line)
        assert saved == before
        paid = environment.step(actions)
        before = json.dumps([moment(), paid])
    assert before == lines[-1]


def only(scenario: str, **rates: float) -> Scenario:
    """The scenario with nothing paid but these."""
    data = load_scenario(scenario).model_dump()
    for role in ("colonist", "traitor"):
        data[role] = {name: {} if name == "milestones" else rates.get(name, 0.0) for name in data[role]}
    return Scenario.model_validate(data)


def played(scenario: Scenario, seed: int) -> tuple[Game, dict[str, float]]:
    """A whole game of busy sailors that vote, and what each was paid."""
    game, random, total = Game(scenario, seed), Random(seed), dict.fromkeys(scenario.crew, 0.0)
    for _ in range(400):
        if game.over:
            break
        actions = {}
        for sailor in game.world.living:
            votes = [text for text in legal_actions(game.observation(sailor.name)) if "VOTE" in text]
            action = parse_action(votes[0]) if votes and random.random() < 0.7 else None
            actions[sailor.name] = action or draw_action(game, sailor.name, random)
        for name, amount in game.step(actions).items():
            total[name] += amount
    return game, total


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=12)
def test_each_kind_of_pay_is_paid_once_to_whom_it_belongs(scenario: str, seed: int) -> None:
    game, total = played(only(scenario, success=100.0), seed)
    world = game.world
    for sailor in world.sailors.values():
        side = "traitor" if sailor.role == "traitor" else "crew"
        assert total[sailor.name] == (100.0 if world.winner == side and sailor.alive else 0.0)
    game, total = played(only(scenario, death=-50.0), seed)
    for sailor in game.world.sailors.values():
        died = not sailor.alive and not sailor.ejected
        assert total[sailor.name] == (-50.0 if died else 0.0)
    game, total = played(only(scenario, progress_point=1.0), seed)
    for sailor in game.world.living:
        assert total[sailor.name] == pytest.approx(game.world.progress)
    game, total = played(only(scenario, innocent_ejected=-5.0, traitor_ejected=7.0), seed)
    mistakes = sum(sailor.ejected and sailor.role == "colonist" for sailor in game.world.sailors.values())
    caught = any(sailor.ejected and sailor.role == "traitor" for sailor in game.world.sailors.values())
    for sailor in game.world.living:
        assert total[sailor.name] == -5.0 * mistakes + 7.0 * caught
    game, total = played(only(scenario, deposit=1.0), seed)
    handed_in = {kind: game.world.credited[kind] for kind in game.world.credited}
    assert sum(total.values()) <= sum(handed_in.values())
