"""The checker passes what keeps the contract, and names the clause that something else breaks."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.environment import Outcome, Prompt, Refusal, TextEnvironment
from castaway.tools.checker import AT_THE_END, FREE_TEXT, check_environment
from tests.castaway.command import refused


def test_the_small_island_in_full_keeps_the_contract() -> None:
    check_environment(lambda: MaroonedEnvironment("skiff", "full"), range(2))


@pytest.mark.slow
def test_the_published_island_keeps_the_contract() -> None:
    check_environment(lambda: MaroonedEnvironment("classic", "compact"), ())


class CountRules:
    """A player may add 1 or 2, or pass."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        return None if action in ("ADD 1", "ADD 2", "PASS") else Refusal("unknown", "That is not an action.")

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        return ("ADD 1", "ADD 2", "PASS")

    def repair(self, observation: Any, text: str) -> str:
        return text if self.refusal(observation, text) is None else "PASS"

    def reason(self, observation: Any, action: str) -> str:
        return "why not"

    def blunder(self, observation: Any, action: str) -> str:
        return ""


class Count(TextEnvironment):
    """Two players count to a number that the id draws; the rounds are limited."""

    name = "count"
    agents = ("north", "south")
    seats = ("north", "both")
    idle = "PASS"

    def __init__(self) -> None:
        self.rules = CountRules()

    def reset(self, task_id: int, seat: str) -> None:
        if task_id < 0 or seat not in self.seats:
            raise ValueError("no such episode")
        self.seat, self.rounds, self.history = seat, 0, [0]
        self.goal = Random(task_id).randrange(5, 9)

    @property
    def total(self) -> int:
        return self.history[-1]

    def speakers(self) -> tuple[str, ...]:
        return self.agents if self.seat == "both" else self.agents[:1]

    def prompts(self) -> tuple[Prompt, ...]:
        if self.done:
            return ()
        text = f"The count is {self.total} of {self.goal}."
        return tuple(Prompt(agent, "counter", self.messages(text), text) for agent in self.speakers())

    def messages(self, text: str) -> tuple[dict[str, str], ...]:
        return ({"role": "system", "content": "Count."}, {"role": "user", "content": text})

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        if self.done:
            raise ValueError("the episode is over")
        typed = [actions.get(agent, self.idle) for agent in self.speakers()]
        self.rounds += 1
        self.history.append(self.total + sum(int(text[4:]) for text in typed if text in ("ADD 1", "ADD 2")))
        return dict.fromkeys(self.agents, float(self.history[-1] - self.history[-2]))

    @property
    def done(self) -> bool:
        return self.total >= self.goal or self.rounds >= 10

    def outcome(self) -> Outcome:
        return Outcome(self.total >= self.goal, "counted")

    def snapshot(self) -> dict[str, Any]:
        return {"history": list(self.history), "rounds": self.rounds}


def test_a_small_game_keeps_the_contract() -> None:
    assert check_environment(Count) == ()


class AnyText(CountRules):
    """Whatever a player says is legal."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        return None

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        return ()

    def repair(self, observation: Any, text: str) -> str:
        return " ".join(text.split()) or "wait"


class Talk(Count):
    """Ten rounds of talk, which are paid for at the end."""

    def __init__(self) -> None:
        self.rules = AnyText()

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        super().step({agent: self.idle for agent in self.agents} | dict(actions))
        return dict.fromkeys(self.agents, float(self.done))


def test_free_text_and_late_rewards_are_noted_not_refused() -> None:
    assert check_environment(Talk) == (FREE_TEXT, AT_THE_END)


class Endless(Count):
    @property
    def done(self) -> bool:
        return self.total >= self.goal

    def snapshot(self) -> dict[str, Any]:
        return {"total": self.total}


class Moody(Count):
    draws = Random(0)

    def messages(self, text: str) -> tuple[dict[str, str], ...]:
        return super().messages(f"{text} {self.draws.random()}" if self.rounds else text)

    def prompts(self) -> tuple[Prompt, ...]:
        if self.rounds != getattr(self, "_asked", None):
            self._asked, self._kept = self.rounds, super().prompts()
        return () if self.done else self._kept


class Remembers(Count):
    games = 0

    def reset(self, task_id: int, seat: str) -> None:
        super().reset(task_id, seat)
        self.games += 1
        self.goal += self.games == 3


def count_with(**methods: Any) -> type[Count]:
    """The game with other methods."""
    return type("Changed", (Count,), methods)


def with_rules(**methods: Callable[..., Any]) -> Callable[[], Count]:
    """The game with other rules."""

    def make() -> Count:
        game = Count()
        game.rules = type("Rules", (CountRules,), methods)()
        return game

    return make


def refusal_of(*legal: str, severity: Any = "unknown") -> Callable[..., Refusal | None]:
    return lambda self, observation, action: None if action in legal else Refusal(severity, "That is not an action.")


def step(change: Callable[[Count, Mapping[str, str]], dict[str, float]]) -> type[Count]:
    return count_with(step=change)


BROKEN = [
    (Endless, "an idle episode 0 of seat 'north' does not end within 20000 steps"),
    (
        count_with(prompts=lambda self: (Prompt("north", "counter", self.messages("over"), "over"),)),
        "there is a prompt though episode 0 of seat 'north' is done",
    ),
    (count_with(done=property(lambda self: True)), "episode 0 of seat 'north' is over before anybody has replied"),
    (
        with_rules(refusal=lambda *_: None, legal_actions=lambda *_: (), repair=lambda self, observation, text: text),
        "repair turns '\\n' into '\\n', which no ACTION line can hold",
    ),
    (count_with(messages=lambda self, text: ({"role": "narrator", "content": text},)), "has the role 'narrator'"),
    (step(lambda self, actions: dict.fromkeys(Count.step(self, actions), float("inf"))), "is not a finite number"),
    (Moody, "played again after reset with the same actions differs"),
    (Remembers, "with the same actions differs"),
    (count_with(snapshot=lambda self: {"history": self.history}), "step changes an earlier snapshot or prompt"),
    (
        step(lambda self, actions: dict.fromkeys(self.agents, 0.0) if self.done else Count.step(self, actions)),
        "step does not raise ValueError though episode 0 of seat 'north' is done",
    ),
    (
        count_with(reset=lambda self, task_id, seat: Count.reset(self, abs(task_id), seat)),
        "reset does not raise ValueError for a negative id",
    ),
    (
        step(lambda self, actions: Count.step(self, {agent: text.strip().upper() for agent, text in actions.items()})),
        "an illegal action does not count as idle",
    ),
    (
        step(lambda self, actions: Count.step(self, {agent: actions.get(agent, "ADD 1") for agent in self.agents})),
        "a missing action does not count as idle",
    ),
    (with_rules(legal_actions=lambda self, observation: ()), "legal_actions is empty"),
    (with_rules(refusal=refusal_of("ADD 1", "ADD 2")), "the idle action is refused"),
    (
        count_with(outcome=lambda self: Outcome(True, "counted", {"score": 100.0})),
        "the detail `score` of episode 0 of seat 'north' is 100.0, expected a number from 0 to 1",
    ),
    (
        with_rules(refusal=refusal_of("ADD 1", "ADD 2", "PASS", severity="terrible")),
        "has the severity 'terrible', which does not exist",
    ),
    (with_rules(repair=lambda self, observation, text: text), "repair turns '' into the illegal ''"),
]


@pytest.mark.parametrize(("make", "clause"), BROKEN, ids=[clause[:40] for _, clause in BROKEN])
def test_a_broken_clause_is_named_in_one_sentence(make: Callable[[], Count], clause: str) -> None:
    sentence = refused(check_environment, make)
    assert clause in sentence and sentence.startswith("the environment breaks its contract: ")
