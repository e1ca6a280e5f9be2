"""A demonstrator that is a language model on an OpenAI-compatible server; its answers are what the teacher's would be.

What a server answers is not the same everywhere, so with it the bytes of the data set are not promised.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.key import secret
from castaway.tasks.environment import Prompt
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault
from castaway_textarena.rules import TextArenaRules


def served_player(address: str | None) -> Callable[[Prompt], str]:
    """The model's move for a prompt; one that is not legal is replaced by the most similar legal one.

    Args:
        address: URL and model, with a space between them.

    Raises:
        CastawayError: the address is none; or, when it is asked, the server does not answer.
    """
    url, _, model = (address or "").partition(" ")
    if not url.startswith("http") or not model:
        raise CastawayError(
            f"game.served is {address!r}, expected a URL and a model, such as 'http://HOST:8000/v1 NAME'"
        )
    endpoint, rules = Endpoint(url, model, secret()), TextArenaRules()

    def choose(prompt: Prompt) -> str:
        try:
            text = asyncio.run(_asked(endpoint, prompt))
        except ServerFault as fault:
            raise CastawayError(f"the demonstrator does not answer: {fault}") from None
        try:
            move = str(json.loads(text)["move"])
        except (ValueError, KeyError, TypeError):
            move = text
        refused = rules.refusal(prompt.observation, move)
        return rules.repair(prompt.observation, move) if refused else move

    return choose


async def _asked(endpoint: Endpoint, prompt: Prompt) -> str:
    legal = prompt.observation.legal
    move: dict[str, Any] = {"type": "string", **({"enum": list(legal)} if legal else {})}
    schema = {"type": "object", "properties": {"move": move}, "required": ["move"], "additionalProperties": False}
    client = ChatClient(endpoint)
    try:
        return await client.complete(list(prompt.messages), schema)
    finally:
        await client.close()
