"""What the public log holds, and what it does not know."""

import pytest

from castaway.envs.marooned.state import Place
from tests.castaway.envs.marooned.tables import Table

AWAY: Place = ("ground", 0, 0)


def alone(table: Table, name: str) -> None:
    """Send everybody else far away."""
    for sailor in table.world.sailors.values():
        if sailor.name != name:
            table.put(sailor, AWAY)


def test_sabotage_in_sight_names_the_traitor_and_unseen_nobody() -> None:
    table = Table().phase("exploration")
    table.world.ship["hull"] = 100
    paid = table.do(**{table.traitor.name: "SABOTAGE hull"})
    clue = table.world.clues[-1]
    assert (clue.about, clue.strength) == (table.traitor.name, 95)
    lost = 100 - table.world.ship["hull"]
    assert 20 <= lost <= 40
    assert paid[table.traitor.name] == pytest.approx(-0.01 + 2 + 0.5 * 0.3 * lost)
    table.world.ship["hull"] = 10
    alone(table, table.traitor.name)
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    clue = table.world.clues[-1]
    assert (clue.about, clue.strength, table.world.ship["hull"]) == ("", 0, 0)
    assert table.traitor.name not in clue.text


@pytest.mark.parametrize("watched", [True, False])
def test_gathering_poison_is_noted_when_seen(watched: bool) -> None:
    table = Table().phase("exploration")
    sailor = table.colonists[0]
    table.lay("POISON_99", "poison", sailor.place)
    if not watched:
        alone(table, sailor.name)
    table.do(**{sailor.name: "GATHER POISON_99"})
    assert [(clue.kind, clue.about, clue.strength) for clue in table.world.clues] == (
        [("poison", sailor.name, 90)] if watched else []
    )


def test_being_named_too_often_costs_the_traitor_once() -> None:
    table = Table().phase("exploration")
    table.world.ship["hull"] = 100
    paid = []
    for _ in range(6):
        table.world.ship["hull"] = 100
        before = table.world.progress
        reward = table.do(**{table.traitor.name: "SABOTAGE hull"})[table.traitor.name]
        paid.append(reward - 2 + 0.01 - 0.5 * (before - table.world.progress))
    assert paid == pytest.approx([0, 0, 0, -1, 0, 0])


@pytest.mark.parametrize(("handed_in", "named"), [(3, False), (2, True), (0, True)])
def test_theft_is_noted_at_the_end_of_the_day(handed_in: int, named: bool) -> None:
    table = Table().phase("exploration")
    sailor = table.colonists[0]
    table.lay("WOOD_99", "wood", sailor.place)
    table.do(**{sailor.name: "GATHER WOOD_99"})
    if handed_in:
        table.do(**{sailor.name: f"DEPOSIT wood {handed_in}"})
    table.world.turn = table.scenario.turns_per_day
    table.wait()
    thefts = [(clue.about, clue.strength) for clue in table.world.clues if clue.kind == "theft"]
    assert thefts == ([(sailor.name, 45)] if named else [])
    table.world.turn = table.scenario.turns_per_day
    table.wait()
    assert len([clue for clue in table.world.clues if clue.kind == "theft"]) == len(thefts)  # each day by itself


@pytest.mark.parametrize(
    ("text", "caught"),
    [("I am at (15,15)", False), ("I am at (3,4)", True), ("I am at cave (15,15)", True), ("I was at (3,4)", False)],
)
def test_a_false_claim_of_place_is_caught_by_who_sees_it(text: str, caught: bool) -> None:
    table = Table()
    liar = table.colonists[0]
    table.do(**{liar.name: f"SAY {text}"})
    assert [clue.about for clue in table.world.clues] == ([liar.name] if caught else [])
    unseen = Table()
    alone(unseen, unseen.colonists[0].name)
    unseen.do(**{unseen.colonists[0].name: f"SAY {text}"})
    assert unseen.world.clues == []


def test_an_accused_sailor_may_show_its_backpack_or_refuse() -> None:
    table = Table().phase("discussion")
    accuser, accused = table.colonists[:2]
    table.put(accused, wood=2, poison=1)
    table.do(**{accuser.name: f"ACCUSE {accused.name}"})
    table.do(**{accused.name: "SHOW_BACKPACK"})
    assert table.world.clues[-1].text == f"{accused.name} showed a backpack with poison 1 wood 2."
    table.do(**{accused.name: "REFUSE_SHOW"})
    assert table.world.clues[-1].text == f"{accused.name} refused to show the backpack."
    table.world.turn = table.scenario.turns_per_day
    table.wait()
    table.phase("discussion")
    assert table.sentence(accused, "SHOW_BACKPACK") == "Nobody has accused you today."
