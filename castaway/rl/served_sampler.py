"""Replies drawn by a vLLM server that has the policy's base model (`castaway/rl/policy_server.py`).

The server runs on, only the adapter is exchanged: in PPO before each rollout, in evaluation for each policy. Its
kernels are not the trainer's, so the log-probabilities of the same tokens differ, in bfloat16 by more than a little;
the trainer reads every reply once itself and weighs its tokens by truncated importance (`importance_cap`; Yao et al.
2025, "Your efficient RL framework secretly brings you off-policy RL training"). The values come from the same reading.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from castaway.errors import CastawayError
from castaway.models.policy import save_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policy_server import MODEL
from castaway.rl.rollout import Generation
from castaway.rl.sampling import SamplingRules
from castaway.tasks.environment import Prompt

OPEN_REQUESTS = 512
"""Requests at one time; the server makes its own batches of them."""
TIMEOUT_SECONDS = 600.0
"""How long a request may take, the wait for others included."""


class ServedPolicy:
    """Draws from the model of a server, or from the adapter that was last handed to it."""

    def __init__(self, url: str, tokenizer: ChatTokenizer, rules: SamplingRules) -> None:
        """Draw from the model itself, until `use` is called.

        Args:
            url: the server's, which ends in /v1.
            tokenizer: the policy's.
            rules: how replies are drawn; the server makes its own batches.
        """
        self._url, self._tokenizer, self._name = url, tokenizer, MODEL
        self._settings = {
            "temperature": rules.temperature,
            "max_tokens": rules.max_new_tokens,
            # The rules alone say what ends a reply, not the model's own settings.
            "stop_token_ids": sorted(rules.stops),
            "ignore_eos": True,
        }

    def use(self, adapter: Path) -> None:
        """Draw from an adapter from now on; the server forgets the one before.

        Args:
            adapter: its folder. The folder's name must be new to the server, which caches prompts by it.

        Raises:
            CastawayError: the server does not take it.
        """
        before, self._name = self._name, adapter.name
        with httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            path = str(adapter.absolute())
            self._post(client, "load_lora_adapter", {"lora_name": self._name, "lora_path": path})
            if before != MODEL:
                self._post(client, "unload_lora_adapter", {"lora_name": before})

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt, without values.

        Raises:
            CastawayError: the server fails.
        """
        rows = [self._tokenizer.prompt(prompt.messages) for prompt in prompts]
        return [
            Generation(
                text=self._tokenizer.text(tokens),
                prompt_tokens=row,
                tokens=tokens,
                logprobs=logprobs,
                cut_off=not self._tokenizer.ends(tokens),
            )
            for row, (tokens, logprobs) in zip(rows, self.draw(rows), strict=True)
        ]

    def draw(self, rows: Sequence[list[int]]) -> list[tuple[list[int], list[float]]]:
        """The tokens of one reply to each prompt, given by its tokens, and their log-probabilities in nats.

        Raises:
            CastawayError: the server fails.
        """
        return asyncio.run(self._draw_all(rows))

    async def _draw_all(self, rows: Sequence[list[int]]) -> list[tuple[list[int], list[float]]]:
        limits = httpx.Limits(max_connections=OPEN_REQUESTS)
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=limits, trust_env=False) as client:
            return await asyncio.gather(*(self._draw(client, row) for row in rows))

    async def _draw(self, client: httpx.AsyncClient, row: list[int]) -> tuple[list[int], list[float]]:
        # No seed: vLLM's engine for CPUs dies of one, and its batches are never the same twice anyway.
        body = {"model": self._name, "prompt": row, "logprobs": 0, "return_token_ids": True, **self._settings}
        try:
            reply = await client.post(f"{self._url}/completions", json=body)
        except httpx.HTTPError as error:
            raise self._fault(repr(error)) from None
        if reply.status_code != 200:
            raise self._fault(reply.text)
        return self._read(reply.json())

    def _read(self, body: Any) -> tuple[list[int], list[float]]:
        """Tokens and their log-probabilities."""
        try:
            (choice,) = body["choices"]
            tokens = [int(token) for token in choice["token_ids"]]
            logprobs = [float(value) for value in choice["logprobs"]["token_logprobs"]]
        except (KeyError, TypeError, ValueError):
            raise self._fault("what came back has no tokens with log-probabilities") from None
        if not tokens or len(tokens) != len(logprobs):
            raise self._fault(f"{len(tokens)} tokens came with {len(logprobs)} log-probabilities")
        return tokens, logprobs

    def _post(self, client: httpx.Client, name: str, body: dict[str, str]) -> None:
        try:
            reply = client.post(f"{self._url}/{name}", json=body)
        except httpx.HTTPError as error:
            raise self._fault(repr(error)) from None
        if reply.status_code != 200:
            raise self._fault(reply.text)

    def _fault(self, what: str) -> CastawayError:
        return CastawayError(
            f"the sampler at {self._url} failed ({what[:300]}); look into its log and run the stage again"
        )


class ServedSampler(ServedPolicy):
    """Draws from a policy in training, whose adapter the server is handed anew at each `refresh`."""

    def __init__(
        self,
        url: str,
        folder: Path,
        tokenizer: ChatTokenizer,
        rules: SamplingRules,
        actor: ActorCritic,
    ) -> None:
        """Draw by the adapter of `actor`, which is handed over in `folder`.

        Args:
            url: the server's, which ends in /v1.
            folder: where the server can read adapters.
            tokenizer: the policy's.
            rules: how replies are drawn; the server makes its own batches.
            actor: the policy that is trained.
        """
        super().__init__(url, tokenizer, rules)
        self._folder, self._actor, self._count = folder, actor, 0

    def refresh(self) -> None:
        """Hand the adapter of this moment to the server.

        Raises:
            CastawayError: the server does not take it.
        """
        before, self._count = self._adapter, self._count + 1
        shutil.rmtree(self._adapter, ignore_errors=True)
        save_adapter(self._actor.policy, self._adapter)
        self.use(self._adapter)
        shutil.rmtree(before, ignore_errors=True)

    @property
    def _adapter(self) -> Path:
        return self._folder / f"{self._folder.name}-{self._count}"
