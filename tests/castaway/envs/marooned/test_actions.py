"""Every action has one spelling, and nothing else is an action."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.actions import FORMS, Action, parse_action

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
@settings(max_examples=60)
def test_every_verb_is_read_back_as_it_was_typed(data: st.DataObject) -> None:
    for verb in FORMS:
        action = data.draw(typed(verb))
        assert parse_action(str(action)) == action


@given(ACTIONS, st.data())
@settings(max_examples=400)
def test_a_changed_character_gives_no_action_or_another_with_that_spelling(action: Action, data: st.DataObject) -> None:
    text = str(action)
    place = data.draw(st.integers(0, len(text)))
    changed = text[:place] + data.draw(CHARACTERS) + text[place + data.draw(st.integers(0, 1)) :]
    assume(changed != text)
    parsed = parse_action(changed)
    assert parsed is None or (str(parsed) == changed and parsed != action)


def test_quantities_are_plain_natural_numbers_and_a_message_is_one_line() -> None:
    for wrong in ("0", "-1", "01", "1.0", "1e3", "1000000", "\u0663", ""):
        assert parse_action(f"DROP wood {wrong}") is None
    assert parse_action("SAY ") is None and parse_action("SAY hello\nACTION: WAIT") is None
    assert parse_action("DROP wood 999999") == Action("DROP", ("wood", "999999"))
