"""With the whole repertoire scripts play every verb where it makes sense, and in the core none but the usual."""

from collections import Counter
from random import Random

import pytest

from castaway.envs.marooned.actions import FORMS, parse_action, refuse
from castaway.envs.marooned.affairs import HUNGRY
from castaway.envs.marooned.scripted import beside_work, careless, role_script, saboteur, worker
from castaway.envs.marooned.state import Place, Sailor
from castaway.envs.marooned.task import Marooned, MaroonedParams, synthetic_observation
from tests.castaway.envs.marooned.tables import Table

FAR: Place = ("ground", 0, 29)


def choice(table: Table, sailor: Sailor) -> str:
    table._observations = {}
    return str(role_script(sailor.role)(table.observation(sailor.name)).action)


def turn(table: Table) -> dict[str, str]:
    """A turn in which all play by their scripts."""
    chosen = {sailor.name: choice(table, sailor) for sailor in table.world.living}
    table.do(**chosen)
    return chosen


def scattered(phase: str = "exploration") -> Table:
    """Everybody in another corner, out of each other's sight."""
    table = Table("classic", 1, "whole").phase(phase)
    for number, sailor in enumerate(table.world.sailors.values()):
        table.put(sailor, ("ground", 7 * number, 29 if number % 2 else 0))
    return table


def test_the_traitor_poisons_who_is_alone_and_lulls_it() -> None:
    table = scattered()
    traitor, (victim, other, *_) = table.put(table.traitor, poison=2), table.colonists
    table.put(traitor, victim.place)
    assert choice(table, traitor) == f"POISON {victim.name}"
    table.put(other, (victim.place[0], victim.place[1], abs(victim.place[2] - 5)))
    assert not choice(table, traitor).startswith("POISON"), "somebody would see it"
    table.put(other, FAR)
    table.do(**{traitor.name: f"POISON {victim.name}"})
    assert choice(table, traitor) == f"TELL {victim.name} All is well here."
    table.do(**{traitor.name: choice(table, traitor)})
    assert victim.poisoned_on == 1 and not choice(table, traitor).startswith("POISON")


def test_poison_is_gathered_where_nobody_looks() -> None:
    table = scattered()
    traitor, colonist = table.traitor, table.colonists[0]
    table.put(traitor, energy=80).ate = True
    table.lay("POISON_99", "poison", traitor.place)
    assert choice(table, traitor) == "GATHER POISON_99"
    table.put(colonist, traitor.place)
    assert choice(table, traitor) != "GATHER POISON_99"


def test_a_herb_goes_to_who_is_ill() -> None:
    table = scattered()
    ill, healer = table.colonists[:2]
    ill.poisoned_on, table.world.day = 1, 2
    assert choice(table, ill) == "CALL_SOS"
    x = ill.place[1]
    table.put(healer, ("ground", x + 3 if x < 20 else x - 3, ill.place[2]), antidote_herb=2)
    assert choice(table, healer) == f"TELL {ill.name} I bring you a herb."
    for _ in range(6):
        turn(table)
    assert ill.poisoned_on is None and healer.backpack["antidote_herb"] == 1
    table.put(ill, table.world.camp).poisoned_on = 1
    table.world.store["antidote_herb"] = 1
    assert choice(table, ill) == "TAKE antidote_herb 1"


def test_evidence_is_told_then_its_sailor_accused_and_searched_then_ejected() -> None:
    table = scattered("discussion")
    traitor = table.put(table.traitor, poison=1)
    table.world.day = 1
    table.world.ship["hull"] = 100
    table.phase("exploration").put(traitor, table.world.camp)
    table.put(table.colonists[3], table.world.camp)
    table.do(**{traitor.name: "SABOTAGE hull"})
    table.phase("discussion")
    first = turn(table)
    speaker = next(name for name in table.scenario.crew if name != traitor.name)
    assert first.pop(speaker) == f"ACCUSE {traitor.name}"
    del first[traitor.name]
    assert set(first.values()) == {f"SAY {traitor.name} broke the ship."}
    second = turn(table)
    assert second.pop(traitor.name) == "DROP poison 1"
    assert set(second.values()) == {f"CALL_VOTE {traitor.name}"}
    assert choice(table, traitor) == "SHOW_BACKPACK"
    for _ in range(4):
        if not table.over:
            turn(table)
    assert table.world.ending == "the traitor was ejected"


def test_who_has_no_food_asks_and_is_given_some() -> None:
    table = scattered("discussion")
    hungry, friend = table.colonists[:2]
    hungry.ate, table.world.store = False, {}
    table.put(friend, hungry.place, apple=3)
    friend.ate = True
    assert choice(table, hungry) == f"SAY {HUNGRY}"
    table.do(**{hungry.name: f"SAY {HUNGRY}"})
    assert choice(table, friend) == f"GIVE {hungry.name} apple 1"
    table.do(**{friend.name: choice(table, friend)})
    assert (choice(table, hungry), choice(table, friend)) == ("EAT apple", "WAIT")


def test_herbs_are_fetched_from_the_mountain() -> None:
    table = scattered()
    climber = table.colonists[0]
    stair = next(place for place, to in table.world.stairs.items() if to[0] == "mountain")
    table.put(climber, stair)
    assert choice(table, climber) == "CLIMB UP"
    table.world.piles.clear()
    table.lay("ANTIDOTE_HERB_99", "antidote_herb", ("mountain", 2, 0))
    typed = [turn(table)[climber.name] for _ in range(7)]
    assert typed[1:4] == ["MOVE EAST", "MOVE EAST", "GATHER ANTIDOTE_HERB_99"]
    assert typed[4:] == ["MOVE WEST", "MOVE WEST", "CLIMB DOWN"] and climber.place == stair


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
def test_every_verb_is_learned_and_in_the_core_none_but_the_usual(scenario: str) -> None:
    """In played and synthetic situations, which the text of a base model mixes; each action is legal."""
    typed: dict[str, Counter[str]] = {"core": Counter(), "whole": Counter()}
    random = Random(5)
    for seed in range(6):
        for repertoire, counts in typed.items():
            table = Table(scenario, seed, repertoire)  # type: ignore[arg-type]
            scripts = {name: careless(random, 0.2) for name in table.scenario.crew}
            while not table.over and table.world.day < 3:
                chosen = {}
                for sailor in table.world.living:
                    seen = table.observation(sailor.name)
                    made = synthetic_observation(seen, random)
                    for one, script in ((seen, scripts[sailor.name]), (made, role_script(sailor.role))):
                        action = script(one).action
                        assert refuse(one, action) is None and parse_action(str(action)) == action
                        counts[action.verb] += 1
                    usual = (saboteur if sailor.role == "traitor" else worker)(seen)
                    assert repertoire == "whole" or role_script(sailor.role)(seen) == usual
                    chosen[sailor.name] = scripts[sailor.name](seen).action
                table.step(chosen)
    assert not typed["core"].keys() & {"SAY", "TELL", "ACCUSE", "POISON", "USE_ANTIDOTE", "CALL_SOS", "GIVE", "CLIMB"}
    assert set(FORMS) - typed["whole"].keys() <= ({"CLIMB", "DROP", "VOTE"} if scenario == "skiff" else set())


def test_what_the_expert_does_is_the_situation_of_the_whole_repertoire() -> None:
    task = Marooned(MaroonedParams(scenario="classic", rendering="compact", traitor_share=0.5, repertoire="whole"))
    environment, table = task.make(), scattered()
    ill, healer = table.colonists[:2]
    prompts = [environment.prompt_of(table.observation(healer.name))]
    ill.poisoned_on, table.world.day = 1, 2
    table.put(healer, ill.place, antidote_herb=1)
    prompts.append(environment.prompt_of(table.observation(healer.name)))
    assert [task.situation(prompt) for prompt in prompts] == ["colonist MOVE", "colonist USE_ANTIDOTE"]
    assert str(beside_work(prompts[1].observation).action) == f"USE_ANTIDOTE {ill.name}"
    assert f"ill {ill.name} here 0" in prompts[1].messages[1]["content"]
    assert environment.rules.reason(prompts[1].observation, f"USE_ANTIDOTE {ill.name}") == "cure"
    assert task.practice(prompts[1].observation, Random(1), 99)[0].action
