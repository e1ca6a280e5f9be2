"""One question to a served teacher: asked once more with the reason, and given up after that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from castaway.tasks.environment import Message
from castaway.teacher.ask import Answered, ask, question_key
from castaway.teacher.cache import key_of
from castaway.teacher.chat_client import ServerFault

QUESTION: list[Message] = [{"role": "user", "content": "How many?"}]


class Server:
    """Gives these answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = iter(answers)
        self.asked: list[list[Message]] = []

    async def __call__(self, messages: Sequence[Message]) -> str:
        self.asked.append(list(messages))
        answer = next(self._answers, None)
        if answer is None:
            raise ServerFault("refused", "it takes no connections", passing=False)
        return answer


def number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("that is no number")
    return int(text)


@pytest.mark.parametrize(
    ("answers", "found", "refused"),
    [
        (["0"], Answered("0", 0), []),
        (["many", "7"], Answered("7", 7), ["asked again"]),
        (["many", "more"], Answered("more", None), ["asked again", "unusable"]),
    ],
)
def test_a_question_is_asked_twice_at_most(answers: list[str], found: Answered[int], refused: list[str]) -> None:
    server, seen = Server(*answers), list[str]()
    assert asyncio.run(ask(server, QUESTION, number, seen.append)) == found
    assert seen == refused and len(server.asked) == len(answers)
    assert server.asked[0] == QUESTION
    if refused:
        first, answer, reason = server.asked[1]
        assert [first] == QUESTION and answer == {"role": "assistant", "content": "many"}
        assert reason["content"].startswith("That cannot be used: that is no number.")


@pytest.mark.parametrize("answers", [[], ["many"]])
def test_a_fault_is_not_an_answer(answers: list[str]) -> None:
    with pytest.raises(ServerFault):
        asyncio.run(ask(Server(*answers), QUESTION, number))


def test_the_key_names_the_model_and_all_messages() -> None:
    assert question_key("model", QUESTION) == key_of(["model", "How many?"])
    assert question_key("model", QUESTION) != question_key("other", QUESTION)
