"""Votes: their deadline, their majority, and what they cost."""

import pytest

from tests.castaway.envs.marooned.tables import Table


def test_enough_of_the_living_eject_the_traitor_and_win() -> None:
    table = Table().phase("discussion")
    traitor, (one, two, three, four) = table.traitor, table.colonists
    table.do(**{one.name: f"CALL_VOTE {traitor.name}"})
    assert table.sentence(two, f"CALL_VOTE {traitor.name}") == "A vote is open already: use VOTE."
    assert table.sentence(one, f"VOTE {traitor.name}") == "You have voted."
    table.do(**{two.name: f"VOTE {traitor.name}"})
    table.do(**{three.name: f"VOTE {traitor.name}", four.name: f"VOTE {traitor.name}"})
    assert not table.over
    table.wait()
    paid = table.step({})  # the fifth turn of the vote is its last
    assert (table.world.winner, table.world.ending) == ("crew", "the traitor was ejected")
    assert paid[one.name] == pytest.approx(50 + 5 + 100 - 0.01 + 0.05)
    assert paid[traitor.name] == pytest.approx(-100)


@pytest.mark.parametrize(("scenario", "enough"), [("skiff", 3), ("classic", 4)])
def test_the_share_that_it_takes_is_the_scenarios(scenario: str, enough: int) -> None:
    for ballots in range(1, 5):
        table = Table(scenario)
        table.world.turn = table.scenario.turns_per_day
        table.do(**{sailor.name: f"CALL_VOTE {table.traitor.name}" for sailor in table.colonists[:ballots]})
        assert table.over == (ballots >= enough)


def test_ejecting_an_innocent_costs_the_crew_and_names_the_caller() -> None:
    table = Table().phase("discussion")
    innocent, caller, *others = table.colonists
    calls = {sailor.name: f"CALL_VOTE {innocent.name}" for sailor in (caller, *others)}
    table.do(**{caller.name: calls[caller.name]})
    for sailor in others:
        table.do(**{sailor.name: f"VOTE {innocent.name}"})
    table.do(**{table.traitor.name: f"VOTE {innocent.name}"})
    paid = table.step({})
    assert paid[caller.name] == pytest.approx(-50 - 5 + 0.04)
    assert paid[innocent.name] == pytest.approx(-5)
    assert paid[table.traitor.name] == pytest.approx(5 - 0.01)
    assert innocent.ejected and not innocent.alive and not table.over
    clue = table.world.clues[-1]
    assert (clue.kind, clue.about, clue.strength) == ("false", caller.name, 30)
    assert table.step({})[innocent.name] == 0.0  # no pay after the end


def test_after_a_mistake_nobody_can_call_a_vote() -> None:
    table = Table("skiff").phase("discussion")
    innocent, caller, *others = table.colonists
    table.do(**{sailor.name: f"CALL_VOTE {innocent.name}" for sailor in (caller, *others)})
    assert innocent.ejected and table.world.day == 2
    table.phase("discussion")
    refusal = "Since an innocent was ejected nobody follows a vote."
    assert table.sentence(caller, f"CALL_VOTE {table.traitor.name}") == refusal
    assert table.sentence(table.traitor, f"CALL_VOTE {caller.name}") == refusal
    table = Table().phase("discussion")
    for sailor in table.colonists[:2]:
        sailor.alive = False
    assert table.sentence(table.colonists[2], f"CALL_VOTE {table.traitor.name}") == "A vote takes 4 sailors."


def test_fewer_than_three_alive_is_the_traitors_victory() -> None:
    table = Table("skiff").phase("discussion")
    first, second, one, two = table.colonists
    first.alive = second.alive = False
    calls = {name: f"CALL_VOTE {one.name}" for name in (two.name, table.traitor.name)}
    paid = table.do(**calls, **{one.name: f"CALL_VOTE {two.name}"})
    assert (table.world.winner, table.world.ending) == ("traitor", "fewer than 3 sailors were left")
    assert paid[table.traitor.name] == pytest.approx(5 + 100 - 0.01)
    assert paid[first.name] == 0.0


def test_a_ballot_is_paid_to_its_colonist_even_if_nobody_is_ejected() -> None:
    table = Table("skiff").phase("discussion")
    right, wrong, *others = table.colonists
    votes = {right.name: f"CALL_VOTE {table.traitor.name}", wrong.name: f"CALL_VOTE {others[0].name}"}
    paid = table.do(**votes, **{table.traitor.name: f"CALL_VOTE {others[1].name}"})
    assert not table.over and table.world.mistakes == 0
    assert paid[right.name] == pytest.approx(50 - 0.01 + 0.05)
    assert paid[wrong.name] == pytest.approx(-50 - 0.01 + 0.05)
    assert paid[others[0].name] == pytest.approx(-0.01 + 0.05)
    assert paid[table.traitor.name] == pytest.approx(-0.01)


def test_ballots_for_or_from_the_dead_do_not_count() -> None:
    table = Table().phase("discussion")
    one, two, three, dead = table.colonists
    table.do(**{one.name: f"CALL_VOTE {dead.name}", dead.name: f"CALL_VOTE {table.traitor.name}"})
    dead.alive = False
    table.do(**{two.name: f"VOTE {table.traitor.name}"})
    table.do(**{three.name: f"VOTE {table.traitor.name}"})
    table.wait(2)
    assert not table.over and not table.world.sailors[dead.name].ejected
