"""What a misspelt verb is taken for, and votes on a hunch: players cast them now and then, the expert never does."""

from difflib import SequenceMatcher
from random import Random
from string import ascii_uppercase

from castaway.envs.marooned.actions import FORMS
from castaway.envs.marooned.compact import lurker
from castaway.envs.marooned.scripted import careless, worker
from castaway.envs.marooned.teaching import MaroonedRules, _nearest
from tests.castaway.envs.marooned.tables import Table


def by_comparing_all(word: str) -> str:
    """The first of the verbs with the largest ratio, if that is at least 0.75."""
    ratios = {verb: SequenceMatcher(None, verb, word, autojunk=False).ratio() for verb in FORMS}
    best = max(ratios, key=lambda verb: ratios[verb])
    return best if ratios[best] >= 0.75 else ""


def misspelt(verb: str, random: Random) -> str:
    """A verb with up to three letters left out, changed or put in."""
    letters = list(verb)
    for _ in range(random.randint(0, 3)):
        start = random.randrange(len(letters) + 1)
        letters[start : start + random.randint(0, 1)] = random.choice(["", *ascii_uppercase])
    return "".join(letters) or "A"


def test_a_word_is_taken_for_the_verb_that_is_most_like_it() -> None:
    random = Random(0)
    words = [misspelt(verb, random) for verb in FORMS for _ in range(40)]
    words += ["".join(random.choices("ACDEIORSTVW", k=random.randint(1, 12))) for _ in range(400)]
    expected = [by_comparing_all(word) for word in words]
    assert [_nearest(word) for word in words] == expected
    assert set(FORMS) < set(expected) and expected.count("") > 200


def test_an_ordinary_player_votes_now_and_then_for_who_lurks_and_the_expert_never_does() -> None:
    """In a discussion after an unseen sabotage; the traitor stands beside the ship, the crew at it."""
    table = Table("skiff")
    level, x, y = table.observation(table.traitor.name).camp
    for mate in table.colonists:
        table.put(mate, (level, x, y))
    table.put(table.traitor, (level, x - 1, y))
    table.world.ship["hull"] = 40
    table.do(**{table.traitor.name: "SABOTAGE hull"})
    seen = table.phase("discussion").observation(table.colonists[0].name)
    assert lurker(seen) == table.traitor.name
    ballot = f"CALL_VOTE {table.traitor.name}"
    cast = [str(careless(Random(number), 0.0)(seen).action) == ballot for number in range(100)]
    assert 30 < sum(cast) < 70
    assert not str(worker(seen).action).startswith("CALL_VOTE")
    # The teacher holds such a vote for no mistake.
    rules, other = MaroonedRules(), table.colonists[1].name
    assert rules.blunder(seen, ballot) == ""
    assert rules.blunder(seen, f"CALL_VOTE {other}") == f"No evidence names {other}."
