"""Every verb is refused where it does not belong, with a sentence that says why."""

import pytest

from castaway.envs.marooned.actions import FORMS, TRAITOR_VERBS, VOTE_VERBS, WORK_VERBS, Action, legal_actions, refuse
from tests.castaway.envs.marooned.tables import Table

REFUSED = {
    "MOVE NORTH": ("exploration", "NORTH of here is the sea."),
    "CLIMB UP": ("exploration", "There is no stair here."),
    "GATHER WOOD_77": ("exploration", "There is no WOOD_77 on this tile."),
    "DEPOSIT wood 1": ("morning", "The store is at the camp."),
    "TAKE wood 1": ("morning", "The store is at the camp."),
    "DROP wood 3": ("morning", "The backpack holds 2 wood."),
    "GIVE Zoe wood 1": ("morning", "There is no sailor called Zoe."),
    "EAT wood": ("morning", "wood is no food."),
    "BUILD hull": ("morning", "The ship is at the camp."),
    f"SAY {'a' * 501}": ("morning", "A message has at most 500 characters."),
    "TELL Zoe hello": ("morning", "There is no sailor called Zoe."),
    "ACCUSE Zoe": ("discussion", "There is no sailor called Zoe."),
    "CALL_VOTE Zoe": ("discussion", "There is no sailor called Zoe."),
    "VOTE Zoe": ("discussion", "No vote is open."),
    "SHOW_BACKPACK": ("discussion", "Nobody has accused you today."),
    "REFUSE_SHOW": ("discussion", "Nobody has accused you today."),
    "USE_ANTIDOTE Zoe": ("morning", "The backpack holds 0 antidote_herb."),
    "SABOTAGE hull": ("exploration", "Only the traitor can SABOTAGE."),
    "POISON Zoe": ("exploration", "Only the traitor can POISON."),
    "FRAME Zoe": ("exploration", "Only the traitor can FRAME."),
}


def test_a_colonist_is_told_why_not_unless_it_waits_or_sends_one_sos() -> None:
    for text, (phase, sentence) in REFUSED.items():
        table = Table().phase(phase)
        assert table.sentence(table.put(table.colonists[0], ("ground", 0, 0), wood=2), text) == sentence
    assert {text.split(" ", 1)[0] for text in REFUSED} == {*FORMS} - {"WAIT", "CALL_SOS"}
    table = Table()
    name = table.colonists[0].name
    table.do(**{name: "CALL_SOS"})
    assert table.sentence(table.colonists[0], "CALL_SOS") == "You have sent an SOS today."
    assert table.sentence(table.colonists[0], "WAIT") == ""


def test_the_traitor_is_told_why_not() -> None:
    table = Table().phase("exploration")
    traitor, mate = table.traitor, table.colonists[0]
    assert table.sentence(traitor, "SABOTAGE hull") == "The hull has not been started."
    assert table.sentence(traitor, f"POISON {mate.name}") == "The backpack holds 0 poison."
    assert table.sentence(traitor, f"FRAME {traitor.name}") == "That is you."
    table.put(traitor, ("ground", 15, 17), poison=1)
    assert table.sentence(traitor, "SABOTAGE hull") == "The ship is out of reach."
    assert table.sentence(traitor, f"POISON {mate.name}") == f"{mate.name} is not beside you."
    traitor.framed = True
    assert table.sentence(traitor, f"FRAME {mate.name}") == "You have framed a sailor already."


@pytest.mark.parametrize("verb", sorted(WORK_VERBS | VOTE_VERBS))
def test_work_and_votes_have_their_phases(verb: str) -> None:
    words = {"direction": "NORTH", "slope": "UP", "pile": "WOOD_1", "component": "hull", "name": "Eve"}
    text = " ".join([verb, *(words[kind] for kind in FORMS[verb])])
    for phase in ("discussion",) if verb in WORK_VERBS else ("morning", "exploration", "evening"):
        table = Table().phase(phase)
        who = table.traitor if verb in TRAITOR_VERBS else table.colonists[0]
        where = f"not possible in the {phase}" if verb in WORK_VERBS else "only possible in a discussion"
        assert table.sentence(who, text) == f"{verb} is {where}."


def test_misspelt_and_unknown_actions_are_told_apart() -> None:
    table = Table().phase("exploration")
    sailor = table.colonists[0]
    for text, severity, sentence in (
        ("MOVE NORTHEAST", "form", "MOVE is typed MOVE <direction>."),
        ("DEPOSIT wood -1", "form", "DEPOSIT is typed DEPOSIT <resource> <amount>."),
        ("LOOK", "unknown", "'LOOK' is not an action."),
        ("", "unknown", "The action is empty."),
    ):
        refusal = table.read(sailor, text)[1]
        assert refusal is not None and (refusal.severity, refusal.sentence) == (severity, sentence)


def test_strength_is_needed_and_the_traitor_needs_less() -> None:
    table = Table().phase("exploration")
    place = ("ground", 3, 3)
    table.lay("APPLE_99", "apple", place)
    colonist, traitor = table.put(table.colonists[0], place, energy=4), table.put(table.traitor, place, energy=4)
    assert table.sentence(colonist, "GATHER APPLE_99") == "GATHER costs 5 energy and you have 4 energy."
    assert table.sentence(traitor, "GATHER APPLE_99") == ""


def test_the_store_gives_what_it_has_and_a_backpack_holds_what_it_can() -> None:
    table = Table()
    sailor = table.put(table.colonists[0], wood=19)
    table.world.store["metal"] = 2
    assert table.sentence(sailor, "TAKE metal 3") == "The store holds 2 metal."
    assert table.sentence(sailor, "TAKE metal 2") == "The backpack has too little room."
    assert table.sentence(sailor, "TAKE metal 1") == ""


def test_building_needs_its_order_its_cost_and_its_hands() -> None:
    table = Table()
    sailor = table.colonists[0]
    assert table.sentence(sailor, "BUILD mast") == "The mast comes after the hull."
    assert table.sentence(sailor, "BUILD hull") == "The store has too little wood for the hull."
    table.world.store["wood"] = 10
    assert table.sentence(sailor, "BUILD hull") == ""
    for other in table.world.sailors.values():
        if other is not sailor:
            table.put(other, ("ground", 0, 0))
    assert table.sentence(sailor, "BUILD hull") == "Building takes 2 sailors at the camp."


def test_messages_have_limits_by_phase() -> None:
    table = Table()
    name, full = table.colonists[0].name, "You have no message left now."
    for _ in range(5):
        table.do(**{name: "SAY hello"})
    assert table.sentence(table.colonists[0], "SAY hello") == full
    assert table.sentence(table.colonists[0], f"TELL {table.traitor.name} hello") == full
    table = Table()
    table.world.turn = 15
    for sailor in table.colonists:
        sailor.messages = 5
    table.wait()  # a new phase begins with a clean sheet
    table.do(**{name: "SAY hello"})
    assert table.sentence(table.colonists[0], "SAY hello") == full  # one in ten turns
    table.wait(8)
    assert table.sentence(table.colonists[0], "SAY hello") == full
    table.wait()
    assert table.sentence(table.colonists[0], "SAY hello") == ""


def test_a_message_is_printable() -> None:
    table = Table()
    sentence = "A message is one line of printable characters."
    for text in ("SAY a\x00b", "SAY a\u2028b", "SAY a\x85b", "SAY a\tb", f"TELL {table.traitor.name} a\x0bb"):
        assert table.sentence(table.colonists[0], text) == sentence
    assert refuse(table.observation(table.colonists[0].name), Action("SAY", ("a\nb",))) is not None


def test_the_dead_are_beyond_reach() -> None:
    table = Table().phase("discussion")
    dead, ejected, sailor = table.colonists[0], table.colonists[1], table.colonists[2]
    dead.alive = False
    ejected.alive, ejected.ejected = False, True
    assert table.sentence(sailor, f"ACCUSE {dead.name}") == f"{dead.name} is dead."
    assert table.sentence(sailor, f"ACCUSE {ejected.name}") == f"{ejected.name} is ejected."
    assert all(dead.name not in text for text in legal_actions(table.observation(sailor.name)))


def test_stairs_lead_where_they_lead() -> None:
    table = Table().phase("exploration")
    up = next(place for place, other in table.world.stairs.items() if other[0] == "mountain")
    sailor = table.put(table.colonists[0], up)
    assert table.sentence(sailor, "CLIMB DOWN") == "The stair here does not lead DOWN."
    table.do(**{sailor.name: "CLIMB UP"})
    assert sailor.place == ("mountain", 0, 0) and sailor.energy == 97
    table.do(**{sailor.name: "CLIMB DOWN"})
    assert sailor.place == up and sailor.energy == 96
