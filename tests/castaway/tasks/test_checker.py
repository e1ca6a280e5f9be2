"""The checker passes what keeps the contract, and names the clause that something else breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.errors import CastawayError
from castaway.tasks.checker import AT_THE_END, FREE_TEXT, check_environment
from castaway.tasks.environment import Outcome, Prompt, Refusal, TextEnvironment


@pytest.mark.parametrize("rendering", ["compact", "full"])
def test_the_small_island_keeps_the_contract(rendering: str) -> None:
    check_environment(lambda: MaroonedEnvironment("skiff", rendering), range(2))


@pytest.mark.slow
def test_the_published_island_keeps_the_contract() -> None:
    check_environment(lambda: MaroonedEnvironment("classic", "compact"), ())


class CountRules:
    """A player may add 1 or 2, or pass."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        known = action in ("ADD 1", "ADD 2", "PASS")
        return None if known else Refusal("unknown", "That is not an action.")

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


class SeveralLines(AnyText):
    """What nobody can type after ACTION: stays as it is."""

    def repair(self, observation: Any, text: str) -> str:
        return text


class Talk(Count):
    """Ten rounds of talk, which are paid for at the end."""

    def __init__(self, rules: AnyText | None = None) -> None:
        self.rules = rules or AnyText()

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


class SilentStart(Count):
    def prompts(self) -> tuple[Prompt, ...]:
        return () if self.rounds == 0 else super().prompts()


class TalksOn(Count):
    def prompts(self) -> tuple[Prompt, ...]:
        return (Prompt("north", "counter", self.messages("over"), "over"),) if self.done else super().prompts()


class Stranger(Count):
    def speakers(self) -> tuple[str, ...]:
        return ("west",)


class WrongRole(Count):
    def messages(self, text: str) -> tuple[dict[str, str], ...]:
        return ({"role": "narrator", "content": text},)


class EmptyMessage(Count):
    def messages(self, text: str) -> tuple[dict[str, str], ...]:
        return ({"role": "user", "content": ""},)


class PaysOne(Count):
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        return {"north": super().step(actions)["north"]}


class PaysTooMuch(Count):
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        return {agent: paid / 0.0 if paid < 0 else float("inf") for agent, paid in super().step(actions).items()}


class Moody(Count):
    draws = Random(0)

    def messages(self, text: str) -> tuple[dict[str, str], ...]:
        return (
            super().messages(f"{text} {self.rounds and self.draws.random()}") if self.rounds else super().messages(text)
        )

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


class KeepsSnapshot(Count):
    def snapshot(self) -> dict[str, Any]:
        return {"history": self.history}


class SnapshotOfSets(Count):
    def snapshot(self) -> dict[str, Any]:
        return {"history": set(self.history)}


class PlaysOn(Count):
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        return dict.fromkeys(self.agents, 0.0) if self.done else super().step(actions)


class AnyId(Count):
    def reset(self, task_id: int, seat: str) -> None:
        super().reset(abs(task_id), seat)


class AnySeat(Count):
    def reset(self, task_id: int, seat: str) -> None:
        super().reset(task_id, seat if seat in self.seats else "both")


class Lenient(Count):
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        return super().step({agent: text.strip().upper() for agent, text in actions.items()})


class Impatient(Count):
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        return super().step({agent: actions.get(agent, "ADD 1") for agent in self.agents})


def with_rules(rules: CountRules) -> type[Count]:
    class Changed(Count):
        def __init__(self) -> None:
            self.rules = rules

    return Changed


class NoneLegal(CountRules):
    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        return ()


class LegalButRefused(CountRules):
    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        return ("ADD 3",)


class NoIdleness(CountRules):
    def refusal(self, observation: Any, action: str) -> Refusal | None:
        return None if action in ("ADD 1", "ADD 2") else Refusal("unknown", "That is not an action.")


class Echo(CountRules):
    def repair(self, observation: Any, text: str) -> str:
        return text


class Overrated(Count):
    def outcome(self) -> Outcome:
        return replace(super().outcome(), details={"score": 100.0})


class StoresReplies(Count):
    def snapshot(self) -> dict[str, Any]:
        return {"said": "ADD 1"}


class OverAtOnce(Count):
    def reset(self, task_id: int, seat: str) -> None:
        super().reset(task_id, seat)
        self.goal = 0


class Unlabelled(Count):
    def outcome(self) -> Outcome:
        return replace(super().outcome(), labels={"winner": None})  # type: ignore[dict-item]


class Priceless(CountRules):
    def refusal(self, observation: Any, action: str) -> Refusal | None:
        found = super().refusal(observation, action)
        return found and Refusal("terrible", found.sentence)  # type: ignore[arg-type]


class NoReason(CountRules):
    def reason(self, observation: Any, action: str) -> str:
        return " "


BROKEN = [
    (Endless, "an idle episode 0 of seat 'north' does not end within 20000 steps"),
    (SilentStart, "there is no prompt though episode 0 of seat 'north' is not done"),
    (TalksOn, "there is a prompt though episode 0 of seat 'north' is done"),
    (Stranger, "prompts an agent that is not in `agents`"),
    (WrongRole, "has the role 'narrator'"),
    (EmptyMessage, "a message of episode 0 of seat 'north' is empty"),
    (PaysOne, "step does not return a reward for every agent"),
    (PaysTooMuch, "is not a finite number"),
    (Moody, "played again after reset with the same actions differs"),
    (Remembers, "with the same actions differs"),
    (KeepsSnapshot, "step changes an earlier snapshot or prompt"),
    (SnapshotOfSets, "the snapshot in episode 0 of seat 'north' is not JSON"),
    (PlaysOn, "step does not raise ValueError though episode 0 of seat 'north' is done"),
    (AnyId, "reset does not raise ValueError for a negative id"),
    (AnySeat, "reset does not raise ValueError for an unknown seat"),
    (Lenient, "an illegal action does not count as idle"),
    (Impatient, "a missing action does not count as idle"),
    (with_rules(NoneLegal()), "legal_actions is empty"),
    (with_rules(LegalButRefused()), "the legal action 'ADD 3' is refused"),
    (with_rules(NoIdleness()), "the idle action is refused"),
    (with_rules(NoReason()), "reason returns no line of text for 'ADD 1'"),
    (Overrated, "the detail `score` of episode 0 of seat 'north' is 100.0, expected a number from 0 to 1"),
    (StoresReplies, "has the key `said`"),
    (OverAtOnce, "episode 0 of seat 'north' is over before anybody has replied"),
    (lambda: Talk(SeveralLines()), "repair turns '\\n' into '\\n', which no ACTION line can hold"),
    (Unlabelled, "a label of the outcome of episode 0 of seat 'north' is not a text"),
    (with_rules(Priceless()), "has the severity 'terrible', which does not exist"),
    (with_rules(Echo()), "repair turns '' into the illegal ''"),
]


@pytest.mark.parametrize(("make", "clause"), BROKEN, ids=[clause[:40] for _, clause in BROKEN])
def test_a_broken_clause_is_named_in_one_sentence(make: Callable[[], Count], clause: str) -> None:
    with pytest.raises(CastawayError) as caught:
        check_environment(make)
    sentence = str(caught.value)
    assert clause in sentence
    assert sentence.startswith("the environment breaks its contract: ") and "\n" not in sentence
