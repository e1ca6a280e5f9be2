"""A student of a few thousand parameters, and games of a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from castaway.config.params import Params
from castaway.config.ppo import PpoParams, ReplayParams
from castaway.config.sections import BaseParams, LoraParams
from castaway.models.policy import new_adapter
from castaway.models.tiny import new_model, train_tokenizer
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.tasks import TaskSource
from castaway.tasks.environment import (
    HELD_OUT_START,
    CurriculumStage,
    Message,
    Outcome,
    Prompt,
    Refusal,
    TextEnvironment,
)
from castaway.tasks.registry import read_params

ROOT = Path(__file__).parents[3]


def shipped() -> Params:
    """The parameters as shipped."""
    return read_params(ROOT / "params.yaml")


def ppo_params(**changes: Any) -> PpoParams:
    return shipped().ppo.model_copy(update=changes)


def small_base() -> BaseParams:
    return shipped().base.model_copy(update={"hidden_size": 32, "layers": 2, "heads": 2, "vocabulary": 300})


def student(seed: int = 0) -> tuple[ActorCritic, ChatTokenizer]:
    """An untrained student of width 32 with an adapter, and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = train_tokenizer(["REASONING: a\nACTION: LEFT", "ACTION: RIGHT", "which way"] * 9, 300)
    adapted = new_adapter(new_model(small_base(), tokenizer), LoraParams(rank=4, alpha=8))
    return ActorCritic(adapted), ChatTokenizer(tokenizer)


def stirred(actor: ActorCritic, scale: float = 0.1) -> ActorCritic:
    """The actor with its adapter and value head moved off zero."""
    with torch.no_grad():
        for weight in actor.parameters():
            if weight.requires_grad:
                weight.add_(scale * torch.randn_like(weight))
    return actor


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
    """One agent walks `length` steps: LEFT is paid a step later, RIGHT at once; a guide earns beside it."""

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


def source_of(seed: int = 0, seats: tuple[str, ...] = ("crew",)) -> TaskSource:
    """Any training id, and no replays."""
    return TaskSource(
        [CurriculumStage("all", range(HELD_OUT_START), seats)],
        ReplayParams(share=0.0, capacity=1, mastery=1),
        seed,
        seats[-1],
    )


class NoScorer:
    """A reward model without an opinion."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        return [0.0] * len(situations)
