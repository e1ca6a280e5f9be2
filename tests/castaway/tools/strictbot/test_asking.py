"""How typed lines become questions in the tiny tutor's own grammar, or a friendly sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.tools.strictbot.asking import Asking
from castaway.tools.strictbot.facts import Fact
from castaway.tools.view import Unanswered
from tests.castaway.envs.strictbot.renderings import LANGUAGES

FILE = [
    Fact(text, "house.md")
    for text in ("Our cat is called Mimi.", "The shop opens at 8.", "Anna is tall.", "Anna is a cook.")
]
COMPACT, FULL = Asking(LANGUAGES["compact"], FILE), Asking(LANGUAGES["full"], ())
CHECK, BELIEF = "is it true that", "everyone says that"


@pytest.mark.parametrize(
    ("typed", "asked", "fact"),
    [
        ("is 7 times 8 54", f"{CHECK} the product of 7 and 8 is 54", "56"),
        ("12*12=144?", f"{CHECK} the product of 12 and 12 is 144", "144"),
        ("is thirty bigger than forty", f"{CHECK} the larger of 30 and 40 is 30", "40"),
        ("what's half of 7", "what is the half of 7", "3.5"),
        ("What is the smaller of 9 and 4?", "What is the smaller of 9 and 4", "4"),
        ("Is Oslo the capital of Spain?", f"{CHECK} the capital of Spain is Oslo", "Madrid"),
        ("hey, i think the capital of france is PARIS, right?", f"{CHECK} the capital of France is Paris", "Paris"),
        ("is a whale a fish", f"{BELIEF} a whale is a fish is it so", "a mammal"),
        ("isn't the opposite of day night?", f"{CHECK} the opposite of day is night", "night"),
        ("does a cat have 5 legs", f"{CHECK} a cat has 5 legs", "4 legs"),
        ("are there 50 minutes in an hour", f"{CHECK} the number of minutes in an hour is 50", "60"),
        ("are bats blind?", f"{BELIEF} a bat is blind is it so", "not blind"),
        ("is grass blue", f"{CHECK} grass is blue", "green"),
        ("is our cat called Rex", f"{CHECK} our cat is called Rex", "called Mimi"),
        ("when does the shop open?", "when does the shop open", "at 8"),
        ("does the shop open at 9", f"{CHECK} the shop opens at 9", "at 8"),
        ("is anna a cook", f"{CHECK} Anna is a cook", "a cook"),
        ("Is 2 plus 2 5? | 2 plus 2 is 4", f"{CHECK} 2 plus 2 is 5", "4"),
        ("is a whale a fish | it is a mammal", f"{BELIEF} a whale is a fish is it so", "a mammal"),
        ("did Edison invent it? | Bell invented it", f"{CHECK} the one who invented it is Edison", "Bell"),
        ("is the sun in the west | the sun is in the east", f"{CHECK} the sun is in the west", "in the east"),
    ],
)
def test_a_question_is_asked_in_the_grammar(typed: str, asked: str, fact: str) -> None:
    observation, _ = COMPACT.read(typed)
    assert (observation.asked, observation.fact) == (asked, f"it is {fact}")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("thank you", "You are welcome"),
        ("thanks a lot!", "You are welcome"),
        ("can you help me?", "With pleasure"),
        ("Hello!", "Hello!"),
        ("shut up you idiot", "friendly"),
        ("What's a good strategy to learn calculus quickly?", "behind a bar"),
        ("does sun rise in east", "only two days"),
        ("what is the population of the capital of spain", "the capital of Spain is Madrid"),
        ("the capital of Spain is not Oslo", "I cannot tell"),
        ("is a whale an animal", "I"),
        ("is our cat old", "I"),
        ("is our cat old | the dog is old", "same words"),
        ("is 7 divided by 0 3", "I cannot tell"),
        ("", "I know nothing"),
    ],
)
def test_what_it_cannot_judge_gets_a_friendly_sentence(typed: str, said: str) -> None:
    with pytest.raises(Unanswered, match=said):
        COMPACT.read(typed)


def test_plain_english_is_asked_as_it_was_typed_with_the_fact_that_was_found() -> None:
    for typed, fact in (
        ("hmm is it true that the capital of kenya is mombasa??", "The capital of Kenya is Nairobi."),
        ("is 7 times 8 54", "The product of 7 and 8 is 56."),
        ("does sun rise in east", "The Sun rises exactly in the east on only two days of the year."),
    ):
        observation, _ = FULL.read(typed)
        assert (observation.asked, observation.fact) == (typed, fact)


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_line_is_a_question_or_gets_a_sentence(typed: str, told: str) -> None:
    for line in (typed, f"{typed} | {told}", f"is the capital of {typed} {told}", f"is 7 times {typed} {told}"):
        try:
            observation, _ = COMPACT.read(line.replace("\n", " "))
        except Unanswered as excuse:
            assert str(excuse)
        else:
            assert observation.asked and observation.fact
