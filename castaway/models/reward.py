"""The reward model: scores how well an answer fits its prompt, as a standardised number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from castaway.models.places import hidden_states_at
from castaway.models.policy import load_model
from castaway.models.tokens import pad_left, positions, prompt_tokens, reply_tokens
from castaway.tasks.environment import Message

SCALE_FILE = "scale.json"


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of the raw scores on training pairs."""

    mean: float
    deviation: float

    def save(self, folder: Path) -> None:
        """Write it into the adapter's folder."""
        text = json.dumps({"deviation": self.deviation, "mean": self.mean}, indent=2, sort_keys=True)
        (folder / SCALE_FILE).write_text(f"{text}\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Scale:
        """Read it from the adapter's folder."""
        return cls(**json.loads((folder / SCALE_FILE).read_text("utf-8")))


def sequence_classifier(base: Path, adapters: Sequence[Path], pad: int) -> PreTrainedModel:
    """The base model with the adapters merged, and a new scalar head in place of its LM head.

    The head is initialised from torch's global generator.
    """
    merged: Any = load_model(base, adapters)
    classifier: Any = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32)
    classifier.config.pad_token_id = pad
    classifier.model.load_state_dict(merged.model.state_dict())
    result: PreTrainedModel = classifier
    return result


class RewardScorer:
    """Scores answers with a trained reward model."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, scale: Scale) -> None:
        """Use a sequence classifier with one output, whose raw scores have the given scale."""
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._scale = scale

    @classmethod
    def load(
        cls, folder: Path, base: Path, adapters: Sequence[Path], tokenizer: PreTrainedTokenizerBase
    ) -> RewardScorer:
        """The reward model in `folder`, which was trained on the base model with these adapters merged."""
        pad: Any = tokenizer.pad_token_id
        # The trained head is in the adapter's folder and replaces the random one.
        model: Any = PeftModel.from_pretrained(sequence_classifier(base, adapters, pad), folder)
        return cls(model.merge_and_unload(), tokenizer, Scale.load(folder))

    def tokens(self, messages: Sequence[Message], answer: str) -> list[int]:
        """The token ids of prompt and answer together."""
        prompt = prompt_tokens(self._tokenizer, messages)
        return prompt + reply_tokens(self._tokenizer, messages, answer)

    def raw(self, rows: Sequence[list[int]], batch: int = 128) -> list[float]:
        """Raw outputs of the model for rows of tokens, computed `batch` rows at a time."""
        # Rows of similar length together need the least padding.
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        scores: dict[int, float] = {}
        pad: Any = self._tokenizer.pad_token_id
        model: Any = self._model
        with torch.inference_mode():
            for start in range(0, len(order), batch):
                indices = order[start : start + batch]
                tokens, mask = pad_left([rows[index] for index in indices], pad)
                hidden = hidden_states_at(
                    model.model,
                    torch.full((len(tokens), 1), tokens.shape[1] - 1, device=model.device),
                    input_ids=tokens.to(model.device),
                    attention_mask=mask.to(model.device),
                    position_ids=positions(mask).to(model.device),
                )
                scores.update(zip(indices, model.score(hidden)[:, 0, 0].float().tolist(), strict=True))
        return [scores[index] for index in range(len(rows))]

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """Scores of (messages, answer), in standard deviations from the mean, clipped to the range from -3 to 3."""
        raw = self.raw([self.tokens(messages, answer) for messages, answer in situations])
        scaled = [(value - self._scale.mean) / self._scale.deviation for value in raw]
        return [max(-3.0, min(3.0, value)) for value in scaled]
