"""Best of n: who is asked several times says what scores best."""

from collections.abc import Sequence

import pytest

from castaway.rl.policies import BestOf
from castaway.rl.rollout import Generation
from castaway.tasks.environment import Message, Prompt


class Lengths:
    """A reward model that likes long answers."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        return [float(len(answer)) for _, answer in situations]


@pytest.mark.parametrize(("count", "said"), [(1, ["a", "bbb"]), (2, ["aa", "bbb"]), (3, ["aa", "bbbb"])])
def test_the_best_of_several_is_said(count: int, said: list[str]) -> None:
    answers = {"one": iter(["a", "aa", "a"]), "other": iter(["bbb", "b", "bbbb"])}
    prompts = [Prompt(name, "", ({"role": "user", "content": name},), None) for name in answers]

    def draw(asked: Sequence[Prompt]) -> list[Generation]:
        return [Generation(next(answers[prompt.messages[0]["content"]])) for prompt in asked]

    policy = BestOf(draw, Lengths(), count)
    assert [answer.text for answer in policy(prompts)] == said
