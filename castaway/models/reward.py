"""The reward model: scores how well an answer fits its prompt, as a standardised number.

It is the SFT policy with an adapter of its own and a linear head instead of the LM head. The head reads the hidden
state of the last token, the stop token of the answer, in training and in scoring.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutputWithPast

from castaway.config.bases import Dtype
from castaway.models.folded import folded
from castaway.models.four_bit import is_four_bit
from castaway.models.hidden_states import hidden_states_at
from castaway.models.policy import load_model, using
from castaway.models.rows import Rows, in_passes
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Message

SCALE_FILE = "scale.json"
ADAPTER = "reward_model"
"""The name of the reward model's adapter beside the policy's."""


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


def sequence_classifier(causal: PreTrainedModel) -> PreTrainedModel:
    """A classifier with one output on the decoder of a causal language model, which it shares.

    The head is initialised from torch's global generator. Which token is pooled follows from the attention mask: the
    models of transformers look for the last token that is no padding, and miss a stop token that is used for padding.
    """
    config: Any = copy.deepcopy(causal.config)
    config.num_labels = 1
    with torch.device("meta"):
        classifier: Any = AutoModelForSequenceClassification.from_config(config)
    setattr(classifier, classifier.base_model_prefix, causal.get_decoder())
    head = nn.Linear(config.hidden_size, 1, bias=False)
    nn.init.normal_(head.weight, std=config.initializer_range)
    classifier.score = head
    # PEFT looks here for the kind of the layers that it adapts.
    classifier.is_loaded_in_4bit = is_four_bit(causal)
    classifier.forward = partial(_classify, classifier)
    result: PreTrainedModel = classifier
    return result


def _classify(
    classifier: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any
) -> SequenceClassifierOutputWithPast:
    """The scores of rows that are padded on the right, as (rows, 1) logits."""
    rows = [row[: int(seen.sum())].tolist() for row, seen in zip(input_ids, attention_mask, strict=True)]
    decoder = getattr(classifier, classifier.base_model_prefix)
    return SequenceClassifierOutputWithPast(logits=classifier.score(last_hidden_states(decoder, rows).float()))


def last_hidden_states(decoder: Any, rows: Sequence[list[int]]) -> torch.Tensor:
    """(rows, width) the final hidden state of the last token of each row."""
    laid = Rows.of(rows, [[len(row) - 1] for row in rows], decoder.config.hidden_size, decoder.device)
    return hidden_states_at(decoder, laid.lines, laid.columns, **laid.inputs(decoder))[:, 0]


class RewardScorer:
    """Scores answers with a trained reward model."""

    def __init__(
        self,
        decoder: Any,
        head: torch.Tensor,
        tokenizer: ChatTokenizer,
        scale: Scale,
        active: Callable[[], AbstractContextManager[None]] = nullcontext,
        tokens_per_pass: int = 65_536,
    ) -> None:
        """Use a decoder with the reward model's adapter.

        Args:
            decoder: a model without its head.
            head: (1, width) weights of the linear head.
            tokenizer: of the model.
            scale: of the raw scores.
            active: makes a context in which the reward model's adapter is the active one.
            tokens_per_pass: largest number of tokens, with padding, in one forward pass.
        """
        self._decoder, self._head, self._tokenizer, self._scale = decoder, head, tokenizer, scale
        self._active, self._tokens_per_pass = active, tokens_per_pass

    @classmethod
    def beside(
        cls, policy: PeftModel, folder: Path, tokenizer: ChatTokenizer, tokens_per_pass: int = 65_536
    ) -> RewardScorer:
        """The reward model in `folder`, as one more frozen adapter of a policy that began as the same SFT policy."""
        active = policy.active_adapters
        # Its random initial weights, which are replaced, must not advance the global generator.
        with torch.random.fork_rng():
            policy.add_adapter(ADAPTER, _config(folder))
        head = _load_weights(policy, folder)
        for name, weight in policy.named_parameters():
            if f".{ADAPTER}." in name:
                weight.requires_grad_(False)
        assert policy.active_adapters == active
        return cls._of(policy, head, tokenizer, folder, tokens_per_pass)

    @classmethod
    def load(
        cls,
        folder: Path,
        base: Path,
        adapters: Sequence[Path],
        tokenizer: ChatTokenizer,
        dtype: Dtype = "float32",
        device: str = "cpu",
    ) -> RewardScorer:
        """The reward model in `folder` on its own trunk, the base model with these adapters merged."""
        model: Any = PeftModel(load_model(base, adapters, dtype), _config(folder), adapter_name=ADAPTER)
        head = _load_weights(model, folder)
        return cls._of(model.to(device), head, tokenizer, folder)

    @classmethod
    def _of(
        cls, model: Any, head: torch.Tensor, tokenizer: ChatTokenizer, folder: Path, tokens_per_pass: int = 65_536
    ) -> RewardScorer:
        decoder = model.get_base_model().get_decoder()
        return cls(decoder, head, tokenizer, Scale.load(folder), partial(using, model, ADAPTER), tokens_per_pass)

    def tokens(self, messages: Sequence[Message], answer: str) -> list[int]:
        """The token ids of prompt and answer together."""
        return self._tokenizer.prompt(messages) + self._tokenizer.reply(answer)

    def raw(self, rows: Sequence[list[int]]) -> list[float]:
        """Raw outputs of the model for rows of tokens."""
        scores: dict[int, float] = {}
        head = self._head.to(self._decoder.device, torch.float32)
        with torch.inference_mode(), self._active(), folded(self._decoder):
            for group in in_passes(rows, self._tokens_per_pass):
                hidden = last_hidden_states(self._decoder, [rows[index] for index in group])
                scores.update(zip(group, (hidden.float() @ head.T)[:, 0].tolist(), strict=True))
        return [scores[index] for index in range(len(rows))]

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """Scores of (messages, answer), in standard deviations from the mean, clipped to the range from -3 to 3."""
        raw = self.raw([self.tokens(messages, answer) for messages, answer in situations])
        scaled = [(value - self._scale.mean) / self._scale.deviation for value in raw]
        return [max(-3.0, min(3.0, value)) for value in scaled]


def _config(folder: Path) -> LoraConfig:
    """The configuration of the reward model's adapter, for a causal language model: without the head."""
    config: Any = LoraConfig.from_pretrained(str(folder))
    config.modules_to_save, config.task_type, config.inference_mode = None, "CAUSAL_LM", True
    result: LoraConfig = config
    return result


def _load_weights(model: PeftModel, folder: Path) -> torch.Tensor:
    """Load the weights of the reward model's adapter; returns those of its head."""
    weights = load_file(folder / "adapter_model.safetensors")
    (head,) = (weights.pop(name) for name in list(weights) if name.endswith("score.weight"))
    set_peft_model_state_dict(model, weights, adapter_name=ADAPTER)
    return head
