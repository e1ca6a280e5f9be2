"""What a sailor is shown and allowed depends on nothing that it cannot know."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.marooned import compact, full
from castaway.envs.marooned.actions import legal_actions, parse_action
from castaway.envs.marooned.observation import observe, symptoms_of
from castaway.envs.marooned.state import Message, Sailor, Vote, World, distance
from castaway.envs.marooned.teaching import MaroonedRules
from tests.castaway.envs.marooned.tables import Table


def play_a_while(table: Table, random: Random, turns: int) -> None:
    for _ in range(turns):
        if table.over:
            break
        actions = {}
        for sailor in table.world.living:
            words = f"SAY {sailor.name} was at {random.randrange(9)}"
            legal = legal_actions(table.observation(sailor.name))
            action = parse_action(words if random.random() < 0.2 else random.choice(legal))
            assert action is not None
            actions[sailor.name] = action
        table.step(actions)


def seen_by(world: World, sailor: Sailor) -> list[str]:
    """All that a sailor is told, and all that the rules answer to it."""
    observation = observe(world, sailor)
    rules = MaroonedRules()
    asked = ["MOVE NORTH", "GATHER wood", "POISON Eve", "USE_ANTIDOTE Bob", "GIVE Alice wood 1", "CALL_VOTE Diana"]
    return [
        full.system_text(observation),
        full.user_text(observation),
        compact.system_text(observation),
        compact.user_text(observation),
        *legal_actions(observation),
        *(f"{rules.refusal(observation, text)} {rules.repair(observation, text)}" for text in asked),
        *(rules.blunder(observation, text) for text in asked),
        *(rules.reason(observation, text) for text in rules.legal_actions(observation)),
    ]


def perturb(world: World, watcher: Sailor, random: Random) -> None:
    """Change everything that the watcher cannot know."""
    vision = world.scenario.levels[watcher.place[0]].vision
    others = [sailor for sailor in world.sailors.values() if sailor is not watcher]
    for other in others:
        in_sight = distance(other.place, watcher.place) <= vision
        if other.alive:
            other.energy = random.randrange(1, world.scenario.energy.most)
            other.ate = not other.ate
            other.named += 1
            other.sos_on += 1
            other.framed = not other.framed
            other.note = "hidden"
            other.gathered, other.handed_in, other.messages = 7, 3, other.messages + 1
            other.backpack = {random.choice(world.scenario.resources): random.randrange(1, 5)}
            other.seen.clear()
            other.known = ()
            other.inbox.append(Message(world.day, world.turn, other.name, others[0].name, "a secret"))
            if not symptoms_of(other, world):  # poisoned today, or far away: nothing shows
                other.poisoned_on = world.day if other.poisoned_on is None else None
            if not in_sight:
                other.poisoned_on = 0
                if watcher.role != "traitor":
                    free = [p.place for p in world.piles.values() if distance(p.place, watcher.place) > vision]
                    other.place = random.choice([other.place, *free])
    if watcher.role != "traitor":
        roles = [other.role for other in others]
        random.shuffle(roles)
        for other, role in zip(others, roles, strict=True):
            other.role = role
    elif others:
        others[0].poisoner = None
    if watcher.poisoned_on is None or not symptoms_of(watcher, world):
        watcher.poisoned_on, watcher.poisoner = world.day, others[-1].name
    for pile in [pile for pile in world.piles.values() if distance(pile.place, watcher.place) > vision]:
        if random.random() < 0.5:
            del world.piles[pile.id]
        else:
            pile.amount += 1
    for pile in world.piles.values():
        pile.fresh = not pile.fresh
    if world.vote is not None:
        mine = {name: choice for name, choice in world.vote.ballots.items() if name == watcher.name}
        ballots = mine | {other.name: watcher.name for other in others if other.alive}
        world.vote = Vote(others[0].name, world.vote.closes + 1, ballots)
    world.spent = {"wood": 1}
    world.credited = {"wood": 99}
    world.accused ^= {others[0].name}
    world.random.seed(random.random())


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6), turns=st.integers(0, 30))
@settings(max_examples=25)
def test_no_text_and_no_rule_changes_with_what_is_hidden(scenario: str, seed: int, turns: int) -> None:
    table, random = Table(scenario, seed, "whole"), Random(seed)
    if scenario == "classic":
        table.world.turn = 10 if seed % 2 else 80  # into the exploration, or the discussion
    play_a_while(table, random, turns)
    world = table.world
    for watcher in world.living:
        before = seen_by(world, watcher)
        perturb(world, watcher, random)
        assert seen_by(world, watcher) == before


def test_what_is_told_to_one_is_read_by_two() -> None:
    table = Table()
    speaker, hearer = table.colonists[:2]
    table.do(**{speaker.name: f"TELL {hearer.name} meet at noon"})
    for sailor in table.world.living:
        text = full.user_text(table.observation(sailor.name))
        assert ("meet at noon" in text) == (sailor in (speaker, hearer))


def test_planted_evidence_reads_like_the_truth() -> None:
    table = Table().phase("exploration")
    table.world.ship["hull"] = 100
    victim = table.colonists[0]
    table.do(**{table.traitor.name: f"FRAME {victim.name}"})
    planted = table.world.clues[-1]
    while planted.text.split()[-1] != "hull.":
        table.traitor.framed = False
        table.do(**{table.traitor.name: f"FRAME {victim.name}"})
        planted = table.world.clues[-1]
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    true = table.world.clues[-1]
    assert true.text == planted.text.replace(victim.name, table.traitor.name)
    assert replace(true, turn=0, about="", strength=0, text="") == replace(
        planted, turn=0, about="", strength=0, text=""
    )
