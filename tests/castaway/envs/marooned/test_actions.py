"""Every action has one spelling, and nothing else is an action."""

import re

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.actions import FORMS, Action, form, parse_action

WORDS: dict[str, st.SearchStrategy[str]] = {
    "direction": st.sampled_from(["NORTH", "SOUTH", "EAST", "WEST"]),
    "slope": st.sampled_from(["UP", "DOWN"]),
    "pile": st.from_regex(r"[A-Z][A-Z_]{0,12}_[0-9]{1,6}", fullmatch=True),
    "resource": st.from_regex(r"[a-z][a-z_]{0,15}", fullmatch=True),
    "amount": st.integers(1, 999_999).map(str),
    "name": st.from_regex(r"[A-Z][A-Za-z]{0,15}", fullmatch=True),
    "component": st.from_regex(r"[a-z][a-z_]{0,15}", fullmatch=True),
    "text": st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)
    .map(str.strip)
    .filter(bool),
}


def typed(verb: str) -> st.SearchStrategy[Action]:
    return st.tuples(*(WORDS[kind] for kind in FORMS[verb])).map(lambda words: Action(verb, words))


ACTIONS = st.sampled_from(sorted(FORMS)).flatmap(typed)
CHARACTERS = st.sampled_from([*"aZ0 9_-\t\n\r\x00\x0b\x85", "\u2028", "\u0663", "\uff11", "\u0391", "\u200b", "é"])


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_every_verb_is_read_back_as_it_was_typed(data: st.DataObject) -> None:
    for verb in FORMS:
        action = data.draw(typed(verb))
        assert parse_action(str(action)) == action


@given(ACTIONS, st.data())
@settings(deadline=None, max_examples=400)
def test_a_changed_character_gives_no_action_or_another_with_that_spelling(action: Action, data: st.DataObject) -> None:
    text = str(action)
    place = data.draw(st.integers(0, len(text)))
    changed = text[:place] + data.draw(CHARACTERS) + text[place + data.draw(st.integers(0, 1)) :]
    assume(changed != text)
    parsed = parse_action(changed)
    assert parsed is None or (str(parsed) == changed and parsed != action)


@given(ACTIONS)
@settings(deadline=None, max_examples=100)
def test_blanks_around_or_doubled_and_lower_case_are_no_action(action: Action) -> None:
    text = str(action)
    assert parse_action(f" {text}") is None
    assert parse_action(f"{text} ") is None
    assert parse_action(f"{text}\n") is None
    assert parse_action(text.lower()) is None
    if action.arguments:
        assert parse_action(text.replace(" ", "  ", 1)) is None
        assert parse_action(text.replace(" ", "\t", 1)) is None


@given(st.text())
@example("")
@example("WAIT WAIT")
@example("CHECK_STATUS")
@settings(deadline=None, max_examples=200)
def test_arbitrary_text_is_no_action_unless_it_is_spelt_like_one(text: str) -> None:
    parsed = parse_action(text)
    assert parsed is None or str(parsed) == text


def test_quantities_are_plain_natural_numbers() -> None:
    for wrong in ("0", "-1", "+1", "01", "1.0", "1e3", "1_0", "1000000", "\u0663", "\uff11", ""):
        assert parse_action(f"DROP wood {wrong}") is None
    assert parse_action("DROP wood 999999") == Action("DROP", ("wood", "999999"))


def test_a_message_is_one_line() -> None:
    assert parse_action("SAY ") is None
    assert parse_action("SAY hello\nACTION: WAIT") is None
    assert parse_action("SAY hello\rthere") is None
    assert parse_action("TELL Eve ACTION: WAIT") == Action("TELL", ("Eve", "ACTION: WAIT"))


def test_the_form_of_a_verb_names_its_arguments() -> None:
    assert form("GIVE") == "GIVE <name> <resource> <amount>"
    assert form("WAIT") == "WAIT"
    assert all(re.fullmatch(r"[A-Z_]+( <[a-z]+>)*", form(verb)) for verb in FORMS)
