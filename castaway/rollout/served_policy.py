"""Replies drawn by a vLLM server that has the policy's base model: in PPO and in evaluation, with `sampler: vllm`.

The server runs on, only the adapter is exchanged: in PPO before each rollout, in evaluation for each policy. Its
kernels are not the trainer's, so the log-probabilities of the same tokens differ, in bfloat16 by more than a little;
the trainer reads every reply once itself and weighs its tokens by truncated importance (`importance_cap`; Yao et al.
2025, "Your efficient RL framework secretly brings you off-policy RL training"). The values come from the same reading.
"""

import asyncio
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError
from castaway.config.ppo import RolloutParams
from castaway.config.sections import LoraParams
from castaway.models.policy import load_model, save_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation
from castaway.rollout.sampling import SamplingRules
from castaway.rollout.server import running
from castaway.rollout.vllm import Serving
from castaway.tasks.environment import Prompt

MODEL = "base"
"""The name under which the server has the model; adapters have names of their own."""
OPEN_REQUESTS = 512
"""Requests at one time; the server makes its own batches of them."""
TIMEOUT_SECONDS = 600.0
"""How long a request may take, the wait for others included."""
BAD_REQUEST = 400
"""The status of an answer to a prompt that the server does not take; other prompts it may."""

Drawn = tuple[list[int], list[float]]
"""A reply's tokens, and their log-probabilities in nats."""


@contextmanager
def serving_policy(
    base: Path,
    adapters: Sequence[Path],
    dtype: Dtype,
    folder: Path,
    longest: int,
    rollout: RolloutParams,
    lora: LoraParams,
    gibibytes: int,
    environment: Path,
    size: tuple[int, int] = (1, 1),
) -> Iterator[str]:
    """Context with a server that has a model, and that can be handed adapters for it one after another; yields its URL.

    Args:
        base: folder of the base model.
        adapters: folders of adapters, which are merged into it in their order.
        folder: takes the merged model and the server's log.
        longest: the most tokens of a demonstrated prompt, which decides the context of the server.
        rollout: says how long replies may be.
        lora: the kind of adapters that the server will be handed.
        gibibytes: memory of the KV cache, in GiB, on each GPU.
        environment: the virtual environment with vLLM.
        size: GPUs that hold a copy of the model together, and copies.
    """
    tokenizer = ChatTokenizer.load(base)
    model: Any = load_model(base, adapters, dtype)
    most: int = model.config.get_text_config().max_position_embeddings
    model.save_pretrained(folder / MODEL)
    tokenizer.save(folder / MODEL)
    del model  # the server has its own
    serving = Serving(
        str(folder / MODEL),
        model=MODEL,
        port=0,
        # The policy's own prompts may be longer than those of the demonstrations; the model's own maximum would take
        # 16 GiB for the keys and values of one prompt of Llama 3.1.
        context=min(2 * longest + rollout.max_new_tokens, most),
        passing_rank=lora.rank,
        cache_gibibytes=gibibytes,
        tensor_parallel=size[0],
        data_parallel=size[1],
        environment=environment,
        log=folder / "log",
    )
    with running(serving) as server:
        yield server.url


class ServedPolicy:
    """Draws from the model of a server, or from the adapter that was last handed to it."""

    def __init__(self, url: str, tokenizer: ChatTokenizer, rules: SamplingRules) -> None:
        """Draw from the model itself, until `use` is called; the server, whose `url` ends in /v1, makes the batches."""
        self._url, self._tokenizer, self._name = url, tokenizer, MODEL
        self._stop = sorted(rules.stops)[:1]
        self._answered = False
        """Whether the server has taken any prompt; if not, it is the server's settings that are wrong."""
        self._settings = {
            "temperature": rules.temperature,
            "max_tokens": rules.max_new_tokens,
            # The rules alone say what ends a reply, not the model's own settings.
            "stop_token_ids": sorted(rules.stops),
            "ignore_eos": True,
        }

    def use(self, adapter: Path) -> None:
        """Draw from the adapter in a folder from now on; the server forgets the one before.

        The folder's name must be new to the server, which caches prompts by it.
        """
        before, self._name = self._name, adapter.name
        with httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            path = str(adapter.absolute())
            self._post(client, "load_lora_adapter", {"lora_name": self._name, "lora_path": path})
            if before != MODEL:
                self._post(client, "unload_lora_adapter", {"lora_name": before})

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt, without values; empty where the server refuses a prompt, as one that is too long.

        CastawayError if the server fails, or has refused all prompts so far.
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

    def draw(self, rows: Sequence[list[int]]) -> list[Drawn]:
        """The tokens of one reply to each prompt, given by its tokens, and their log-probabilities in nats.

        In the place of a reply that was refused there is a stop token alone. It was not drawn but put there, with
        certainty: its log-probability is 0, so that its importance weight is next to nothing.
        """
        drawn = asyncio.run(self._draw_all(rows))
        refusals = [one for one in drawn if isinstance(one, str)]
        self._answered |= len(refusals) < len(drawn)
        if refusals and not self._answered:
            raise self._fault(refusals[0])
        if refusals:
            warnings.warn(f"{len(refusals)} of {len(drawn)} prompts were refused: {refusals[0][:300]}", stacklevel=2)
        return [(self._stop, [0.0] * len(self._stop)) if isinstance(one, str) else one for one in drawn]

    async def _draw_all(self, rows: Sequence[list[int]]) -> list[Drawn | str]:
        limits = httpx.Limits(max_connections=OPEN_REQUESTS)
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=limits, trust_env=False) as client:
            return await asyncio.gather(*(self._draw(client, row) for row in rows))

    async def _draw(self, client: httpx.AsyncClient, row: list[int]) -> Drawn | str:
        """What was drawn, or why this prompt was refused."""
        # No seed: vLLM's engine for CPUs dies of one, and its batches are never the same twice anyway.
        body = {"model": self._name, "prompt": row, "logprobs": 0, "return_token_ids": True, **self._settings}
        try:
            reply = await client.post(f"{self._url}/completions", json=body)
        except httpx.HTTPError as error:
            raise self._fault(repr(error)) from None
        if reply.status_code == BAD_REQUEST:
            return reply.text
        if reply.status_code != 200:
            raise self._fault(reply.text)
        return self._read(reply.json())

    def _read(self, body: Any) -> Drawn:
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
        first: Callable[[Callable[[], str]], str] = lambda work: work(),
    ) -> None:
        """Draw by the adapter of `actor`, which the `first` of all processes leaves in `folder` to the server."""
        super().__init__(url, tokenizer, rules)
        self._folder, self._actor, self._first, self._count = folder, actor, first, 0

    def refresh(self) -> None:
        """Hand the adapter of this moment to the server, once no process draws from the one before."""
        self._name = self._first(self._hand_over)

    def _hand_over(self) -> str:
        self._count += 1
        before, adapter = (self._folder / f"{self._folder.name}-{self._count - back}" for back in (1, 0))
        shutil.rmtree(adapter, ignore_errors=True)
        save_adapter(self._actor.policy, adapter)
        self.use(adapter)
        shutil.rmtree(before, ignore_errors=True)
        return adapter.name
