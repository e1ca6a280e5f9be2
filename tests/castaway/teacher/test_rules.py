"""The embedded teacher: what it says of the failures that models were seen to make."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.effects import GameTurn
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.scripted import role_script
from castaway.envs.marooned.teaching import MaroonedRules
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import WORST_PENALTY, Attempt, Verdict
from castaway.teacher.rules import Corrector, RulesTeacher
from tests.castaway.envs.marooned.tables import Table

RULES = MaroonedRules()
TEACHER = RulesTeacher(RULES)
FORM, IMPOSSIBLE = (-1.0, -0.5), (-2.0, -1.0)

UNKNOWN = ("MOVING", "CHECK_STATUS", "FOLLOW", "LOOK", "MOVESOUTH", "ACCUSE_EVE", "**MOVE EAST**", "`WAIT`")
PUBLISHED = dict.fromkeys(("MOVE NORTHEAST", "MOVE CENTER", "GATHER wood"), FORM) | dict.fromkeys(UNKNOWN, IMPOSSIBLE)


def prompt_at(phase: str = "exploration", place: tuple[str, int, int] = ("ground", 3, 4)) -> Prompt:
    """A colonist somewhere on the big island with a pile of wood in sight."""
    table = Table().phase(phase)
    sailor = table.put(table.colonists[0], place)
    table.lay("WOOD_99", "wood", ("ground", place[1] + 2, place[2]))
    return Prompt(sailor.name, sailor.role, (), table.observation(sailor.name))


def judge(prompt: Prompt, text: str) -> Verdict:
    verdict = TEACHER.judge([Attempt.of(prompt, text)])[0]
    assert RULES.refusal(prompt.observation, verdict.action) is None
    assert WORST_PENALTY <= verdict.penalty <= 0
    assert "\n" not in verdict.critique and verdict.source == "rules"
    return verdict


@pytest.mark.parametrize("phase", ["morning", "exploration", "discussion"])
def test_every_published_failure_is_refused_and_mended(phase: str) -> None:
    for action, (worst, best) in PUBLISHED.items():
        verdict = judge(prompt_at(phase), f"REASONING: I think.\nACTION: {action}")
        assert not verdict.valid and verdict.critique
        assert worst <= verdict.penalty <= best
        assert phase != "discussion" or action != "ACCUSE_EVE" or verdict.action == "ACCUSE Eve"


@pytest.mark.parametrize(
    ("action", "meant"),
    [
        ("MOVE NORTHEAST", ("MOVE NORTH", "MOVE EAST")),
        ("MOVE CENTER", ("MOVE EAST", "MOVE SOUTH")),  # the camp is at (15,15)
        ("MOVESOUTH", ("MOVE SOUTH",)),
        ("GATHER wood", ("MOVE EAST",)),  # toward it
        ("CHECK_STATUS", ("WAIT",)),
        ("**MOVE EAST**", ("MOVE EAST",)),
        ("`WAIT`", ("WAIT",)),
        ("BUILD hull", ("MOVE EAST", "MOVE SOUTH")),
    ],
)
def test_the_nearest_legal_action_is_what_was_meant(action: str, meant: tuple[str, ...]) -> None:
    prompt = prompt_at(place=("ground", 3, 4) if action != "GATHER wood" else ("ground", 20, 20))
    assert judge(prompt, f"REASONING: so\nACTION: {action}").action in meant


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("I will go and MOVE EAST", "MOVE EAST"),
        ("REASONING: wood is near\nMOVE WEST", "MOVE WEST"),
        ("ACTION:MOVE EAST", "MOVE EAST"),
        ("REASONING: let me think", "WAIT"),
        *((gibberish, "WAIT") for gibberish in ("", "@@@###$$$", "12345 67890 ...", "\u6d77\u6d77\u6d77")),
    ],
)
def test_without_an_action_line_the_text_is_searched_and_gibberish_costs_most(text: str, action: str) -> None:
    verdict = judge(prompt_at(), text)
    words = any(letter.isascii() and letter.isalpha() for letter in text)
    assert (verdict.valid, verdict.action, verdict.penalty) == (False, action, -1.0 if words else -4.0)
    assert verdict.critique == "The answer has no line that begins with ACTION: and an action."


def test_good_minor_and_foolish_moves_are_executed_as_they_are() -> None:
    good = judge(prompt_at(), "REASONING: to the camp\nACTION: MOVE EAST")
    assert (good.valid, good.action, good.penalty, good.critique) == (True, "MOVE EAST", 0.0, "")
    bare = judge(prompt_at(), "ACTION: MOVE EAST")
    assert (bare.valid, bare.penalty, bare.critique) == (True, -0.3, "The REASONING line is missing.")
    rash = judge(prompt_at("discussion"), "REASONING: so\nACTION: CALL_VOTE Eve")
    assert rash.valid and -3 <= rash.penalty <= -2 and rash.critique == "No evidence names Eve."


def test_an_expert_corrects_a_mistake_and_nothing_else() -> None:
    teacher = RulesTeacher(RULES, Corrector(lambda prompt: Reply("rest", "WAIT")))
    asked = prompt_at("discussion")
    texts = [f"REASONING: so\nACTION: {action}" for action in ("CALL_VOTE Eve", "SAY hello", "MOVING")]
    rash, good, broken = teacher.judge([Attempt.of(asked, text) for text in texts])
    assert (rash.valid, rash.action, rash.better, rash.reasoning) == (True, "CALL_VOTE Eve", "WAIT", "rest")
    assert (good.better, good.reasoning) == ("", "") and not broken.better
    same = RulesTeacher(RULES, Corrector(lambda prompt: Reply("so", "CALL_VOTE Eve")))
    assert not same.judge([Attempt.of(asked, texts[0])])[0].better
    wordless = RulesTeacher(RULES, Corrector(lambda prompt: Reply("", "WAIT")))
    assert wordless.judge([Attempt.of(asked, texts[0])])[0].reasoning == "rest"


def test_a_move_costs_as_much_as_it_falls_short_of_the_experts() -> None:
    worse = {"CALL_VOTE Eve": 0.25, "SAY hello": 0.5, "SAY no": 0.0}
    corrector = Corrector(lambda prompt: Reply("rest", "WAIT"), True, lambda prompt, action: worse[action])
    texts = [f"REASONING: so\nACTION: {action}" for action in (*worse, "WAIT")]
    asked = [Attempt.of(prompt_at("discussion"), text) for text in texts]
    rash, slow, good, best = RulesTeacher(RULES, corrector).judge(asked)
    assert (rash.penalty, rash.better, rash.critique) == (-2.0, "WAIT", "No evidence names Eve.")
    assert (slow.penalty, slow.better, slow.critique) == (-1.0, "WAIT", "WAIT is better.")
    # As good as the expert's own move: both are confirmed.
    assert (good.penalty, good.better, good.critique) == (0.0, "SAY no", "")
    assert (best.penalty, best.better, best.critique, best.reasoning) == (0.0, "WAIT", "", "rest")


def test_who_waits_is_told_what_it_passes_by() -> None:
    table = Table("skiff").phase("discussion")
    sailor, idle = table.put(table.colonists[0], table.world.camp), "REASONING: rest\nACTION: WAIT"

    def critique(of: str = sailor.name, role: str = "colonist") -> str:
        return judge(Prompt(of, role, (), table.observation(of)), idle).critique

    assert critique() == ""
    table.world.store["wood"] = 2
    table.put(table.colonists[1], table.world.camp)
    table.put(sailor)
    assert critique() == "The hull can be built now."
    table.put(table.traitor, table.world.camp)
    assert critique(table.traitor.name, "traitor") == ""
    GameTurn(table.world).log("sabotage", "seen", table.traitor.name, 95)
    table.put(sailor)
    assert critique() == f"Strong evidence names {table.traitor.name}, and there is a vote to be had."


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_a_worker_passes_nothing_by(seed: int) -> None:
    game = Game(load_scenario("skiff"), seed)
    while not game.over:
        seen = {sailor.name: game.observation(sailor.name) for sailor in game.world.living}
        chosen = {n: role_script(o.role)(o).action for n, o in seen.items()}
        assert not any(RULES.blunder(o, str(chosen[n])) for n, o in seen.items() if o.role == "colonist")
        game.step(chosen)


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        ("REASONING: to the east\nACTION: MOVING EAST", ""),  # mistyped: the reason stands
        ("REASONING: ready\nACTION: BUILD hull", "camp EAST"),  # not possible: the reason was wrong
        ("ACTION: MOVING EAST", "camp EAST"),  # no reason was given
        ("I will MOVE WEST", "wander"),
        ("@@@", "rest"),
    ],
)
def test_reasoning_is_offered_where_the_students_does_not_stand(text: str, reasoning: str) -> None:
    assert judge(prompt_at(), text).reasoning == reasoning


@given(st.text(max_size=80), st.booleans())
@example("MOVE", True)
@example("ACTION: ACTION: WAIT", False)
@example("A" * 5000, True)
@settings(max_examples=100)
def test_any_text_is_judged_with_a_legal_action(text: str, labelled: bool) -> None:
    judge(prompt_at("evening"), f"REASONING: so\nACTION: {text}" if labelled else text)


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_a_verdict_depends_on_the_observation_only(seed: int) -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(seed)
    environment.reset(seed, "all")
    for _ in range(3):
        environment.step({p.agent: random.choice(RULES.legal_actions(p.observation)) for p in environment.prompts()})
    prompts = environment.prompts()
    texts = [f"REASONING: so\nACTION: {action}" for action in (*PUBLISHED, "POISON Eve", "SABOTAGE hull", "WAIT")]
    attempts = [Attempt.of(prompt, text) for prompt in prompts for text in texts]
    before = TEACHER.judge(attempts)
    bare = [Attempt.of(replace(a.prompt, messages=(), agent="", role="unknown"), a.text) for a in attempts]
    environment.reset(seed + 1, "all")  # another world behind the same observations
    assert TEACHER.judge(bare) == before == [TEACHER.judge([attempt])[0] for attempt in attempts]
