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
    rounds = iter([["a", "bbb"], ["aa", "b"], ["a", "bbbb"]])
    prompts = [Prompt(name, "", ({"role": "user", "content": name},), None) for name in ("one", "other")]
    policy = BestOf(lambda _: [Generation(text) for text in next(rounds)], Lengths(), count)
    assert [answer.text for answer in policy(prompts)] == said
