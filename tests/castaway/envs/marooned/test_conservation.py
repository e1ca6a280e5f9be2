"""No sequence of typed actions makes matter, energy or reward out of nothing."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.actions import Action, legal_actions, parse_action
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.state import World
from tests.castaway.envs.marooned.tables import Table

BUSY = ("GATHER", "DEPOSIT", "TAKE", "DROP", "GIVE", "EAT", "BUILD", "SABOTAGE", "POISON", "USE_ANTIDOTE")


def draw_action(table: Game, name: str, random: Random) -> Action:
    """A legal action, one that handles things if there is any; sometimes a stale or silly one."""
    if random.random() < 0.1:
        silly = ["TAKE wood 999", "DROP apple 1", "GATHER WOOD_1", "GIVE Eve wood 2", "BUILD sail", "EAT wood"]
        action = parse_action(random.choice(silly))
    else:
        legal = legal_actions(table.observation(name))
        busy = [text for text in legal if text.split(" ", 1)[0] in BUSY]
        action = parse_action(random.choice(busy if busy and random.random() < 0.8 else legal))
    assert action is not None
    return action


def most_pay(world: World) -> float:
    """More than one sailor can be paid in one turn by anything but ship progress."""
    rates = [world.scenario.colonist, world.scenario.traitor]
    return max(
        rate.gather + rate.deposit + rate.build + rate.sabotage + sum(rate.milestones.values()) + rate.success
        + rate.energy_high + 4 * rate.poison_kill + max(rate.traitor_ejected, rate.innocent_ejected)
        + max(rate.ballot_right, rate.ballot_wrong)
        for rate in rates
    )  # fmt: skip


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25)
def test_matter_never_grows_and_nothing_is_negative(scenario: str, seed: int) -> None:
    table, random = Table(scenario, seed), Random(seed)
    world = table.world
    if scenario == "classic":
        table.phase("exploration")
        for sailor in world.sailors.values():  # where there is something to handle
            table.put(sailor, random.choice([world.camp, random.choice(list(world.piles.values())).place]))
    before = table.matter()
    for _ in range(80):
        if table.over:
            break
        lows = {sailor.name: sailor.energy for sailor in world.living}
        start = world.progress
        paid = table.step({sailor.name: draw_action(table, sailor.name, random) for sailor in world.living})
        after = table.matter()
        assert all(amount <= before.get(kind, 0) for kind, amount in after.items())
        before = after
        bound = most_pay(world) + 2 * abs(world.progress - start)
        for sailor in world.sailors.values():
            assert 0 <= sailor.energy <= world.scenario.energy.most
            assert sailor.load <= world.scenario.backpack
            assert paid[sailor.name] <= bound
            if sailor.name in lows and sailor.energy > lows[sailor.name]:
                assert sailor.ate or world.turn == 1
        assert all(0 <= points <= 100 for points in world.ship.values())


def test_a_store_emptied_and_filled_pays_once() -> None:
    table = Table()
    sailor = table.put(table.colonists[0], wood=2)
    name, idle = sailor.name, -0.01 + 0.05
    assert table.do(**{name: "DEPOSIT wood 2"})[name] == pytest.approx(0.2 + idle)
    for _ in range(3):
        assert table.do(**{name: "TAKE wood 2"})[name] == pytest.approx(idle)
        assert table.do(**{name: "DEPOSIT wood 2"})[name] == pytest.approx(idle)


def test_what_was_dropped_is_gathered_without_pay() -> None:
    table = Table().phase("exploration")
    sailor = table.put(table.colonists[0], wood=2)
    name, idle = sailor.name, -0.01 + 0.05
    for turn in range(1, 4):
        assert table.do(**{name: "DROP wood 2"})[name] == pytest.approx(idle)
        assert table.do(**{name: f"GATHER WOOD_{9000 + turn}"})[name] == pytest.approx(idle)
    assert sailor.backpack == {"wood": 2}


def test_a_gift_of_the_same_turn_cannot_overfill_a_backpack() -> None:
    for text in ("TAKE metal 1", "GATHER APPLE_9001"):
        table = Table().phase("exploration")
        one, other = [sailor for sailor in table._order() if sailor.role == "colonist"][:2]
        table.put(one, wood=1)
        table.put(other, wood=20)
        other.backpack["wood"] = 19
        table.world.store["metal"] = 5
        if text.startswith("GATHER"):
            table.put(table.colonists[2], apple=3)
            table.do(**{table.colonists[2].name: "DROP apple 3"})
            one, other = sorted((one, other), key=table._order().index)
            one.backpack, other.backpack = {"wood": 1}, {"wood": 19}
        paid = table.do(**{one.name: f"GIVE {other.name} wood 1", other.name: text})
        assert other.backpack == {"wood": 20}
        assert other.note == "The backpack was full."
        assert paid[other.name] == pytest.approx(0.04)


def test_repairing_what_was_broken_is_paid_as_progress_that_was_taken_before() -> None:
    table = Table().phase("exploration")
    table.world.ship["hull"] = 100
    table.world.milestones = {"25"}
    table.world.store["wood"] = 50
    builder, onlooker = table.colonists[:2]
    total = table.do(**{table.traitor.name: "SABOTAGE hull"})[onlooker.name] - 0.04
    assert -40 * 0.3 <= total <= -20 * 0.3
    while table.world.ship["hull"] < 100:
        total += table.do(**{builder.name: "BUILD hull"})[onlooker.name] - 0.04
    assert total == pytest.approx(0.0)
