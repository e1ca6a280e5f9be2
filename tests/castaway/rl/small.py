"""A student of a few thousand parameters, and games of a few words."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.ppo import PpoParams, ReplayParams
from castaway.config.sections import BaseParams, LoraParams
from castaway.models.policy import new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rl.episode_source import EpisodeSource
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.trajectory import Turn
from castaway.tasks.environment import (
    HELD_OUT_START,
    CurriculumStage,
    Message,
    Outcome,
    Prompt,
    Refusal,
    TextEnvironment,
)
from castaway.tasks.reply import parse_reply
from tests.shipped import PARAMS
from tests.shipped import ROOT as ROOT


def ppo_params(**changes: Any) -> PpoParams:
    """The shipped settings with changes: parts of a block as a mapping, or its keys by themselves."""
    ppo = PARAMS.ppo
    for key, value in changes.items():
        blocks = [] if key in PpoParams.model_fields else ["rollout", "advantage", "loss", "kl", "corrections"]
        block = next((name for name in blocks if key in type(getattr(ppo, name)).model_fields), "")
        if block:
            key, value = block, {key: value}
        changed = getattr(ppo, key).model_copy(update=value) if isinstance(value, dict) else value
        ppo = ppo.model_copy(update={key: changed})
    return ppo


def small_base() -> BaseParams:
    return PARAMS.base.model_copy(update={"hidden_size": 32, "layers": 2, "heads": 2, "vocabulary": 300})


def student(seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[ActorCritic, ChatTokenizer]:
    """An untrained student of width 32 with an adapter, in float32, and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = train_tokenizer(["REASONING: a\nACTION: LEFT", "ACTION: RIGHT", "which way"] * 9, 300)
    adapted = new_adapter(new_model(small_base(), tokenizer).to(dtype), LoraParams(rank=4, alpha=8))
    return ActorCritic(adapted), ChatTokenizer(tokenizer)


def stirred(actor: ActorCritic, scale: float = 0.1) -> ActorCritic:
    """The actor with its adapter and value head moved off zero."""
    with torch.no_grad():
        for weight in actor.parameters():
            if weight.requires_grad:
                weight.add_(scale * torch.randn_like(weight))
    return actor


def turn_of(text: str = "", **known: Any) -> Turn:
    """A turn of which only this is known."""
    empty: dict[str, Any] = {"prompt_tokens": [], "reply_tokens": [], "logprobs": [], "values": [], "action": ""}
    return Turn(**{"messages": (), "valid": True, **empty, **known}, text=text, reply=parse_reply(text))


class AnyText:
    """Every one-word text is legal, and `LEFT` is listed; nothing is a blunder."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        return None if action.isalpha() else Refusal("form", "One word.")

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        return ("LEFT", "RIGHT")

    def repair(self, observation: Any, text: str) -> str:
        return "LEFT"

    def reason(self, observation: Any, action: str) -> str:
        return "b"

    def blunder(self, observation: Any, action: str) -> str:
        return ""


class Crossroads(TextEnvironment):
    """One agent walks `length` steps: LEFT is paid a step later, RIGHT at once; a guide earns next to it."""

    name = "crossroads"
    agents = ("walker", "guide")
    seats = ("crew", "traitor")
    idle = "WAIT"

    def __init__(self, length: int = 3) -> None:
        self.rules = AnyText()
        self.length = length

    def reset(self, task_id: int, seat: str) -> None:
        self.walked: list[str] = []
        self.task_id = task_id

    def prompts(self) -> tuple[Prompt, ...]:
        """The guide speaks in the first step only."""
        if self.done:
            return ()
        messages: tuple[Message, ...] = ({"role": "user", "content": f"which way after {len(self.walked)}"},)
        speakers = self.agents if not self.walked else self.agents[:1]
        return tuple(Prompt(agent, agent, messages, len(self.walked)) for agent in speakers)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        before = self.walked[-1] if self.walked else ""
        self.walked.append(actions.get("walker", self.idle))
        return {"walker": 10.0 * (before == "LEFT") + (self.walked[-1] == "RIGHT"), "guide": 1.0}

    @property
    def done(self) -> bool:
        return len(self.walked) >= self.length

    def outcome(self) -> Outcome:
        return Outcome("LEFT" in self.walked, "walked")

    def snapshot(self) -> dict[str, Any]:
        return {"walked": list(self.walked)}


def source_of(seed: int = 0, seats: tuple[str, ...] = ("crew",)) -> EpisodeSource:
    """Any training id, and no replays."""
    stage = CurriculumStage("all", range(HELD_OUT_START), seats)
    return EpisodeSource([stage], ReplayParams(share=0.0, capacity=1, mastery=1), seed, seats[-1])


class NoScorer:
    """A reward model without an opinion."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        return [0.0] * len(situations)
