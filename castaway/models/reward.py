"""The reward model: scores how well an answer fits its prompt, as a standardised number.

It is the SFT policy with an adapter of its own and a linear head instead of the LM head. The head reads the hidden
state of the last token, the stop token of the answer, in training and in scoring.
"""

import copy
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from peft import LoraConfig, PeftModel, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_layers import GenericForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutputWithPast

from castaway.config.bases import Dtype
from castaway.models.folded import folded
from castaway.models.four_bit import is_four_bit
from castaway.models.logprobs import hidden_states_at
from castaway.models.policy import load_model, using
from castaway.models.rows import Rows, in_passes, window_of
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Message

SCALE_FILE = "scale.json"
ADAPTER = "reward_model"  # the name of its adapter, next to the policy's


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of the raw scores on training pairs."""

    mean: float
    deviation: float

    def save(self, folder: Path) -> None:
        (folder / SCALE_FILE).write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(**json.loads((folder / SCALE_FILE).read_text("utf-8")))


def sequence_classifier(causal: PreTrainedModel) -> PreTrainedModel:
    """A classifier with one output on the decoder of a causal language model, which it shares.

    The head comes from torch's global generator. It reads the last token that the attention mask shows: the models of
    transformers look for the last that is no padding, and miss a stop token that is used for padding.
    """
    config: Any = copy.deepcopy(causal.config)
    config.num_labels = 1
    with torch.device("meta"):
        try:
            classifier: Any = AutoModelForSequenceClassification.from_config(config)
        except ValueError:  # transformers has no such class for Granite and others
            parent = next(kind for kind in type(causal).__mro__ if kind.__name__.endswith("PreTrainedModel"))
            # What its attention and experts can do, transformers finds out by reading the source of its module.
            own = {"__module__": parent.__module__}
            classifier = type("SequenceClassifier", (GenericForSequenceClassification, parent), own)(config)
    # The whole base model, so that an adapter's layers have the names that they have in the language model.
    setattr(classifier, classifier.base_model_prefix, causal.base_model)
    classifier.score = nn.Linear(config.get_text_config().hidden_size, 1, bias=False)
    causal._init_weights(classifier.score)  # families call its deviation by different names, and some have none
    # PEFT looks here for the kind of the layers that it adapts.
    classifier.is_loaded_in_4bit = is_four_bit(causal)
    classifier.forward = partial(_classify, classifier)
    return classifier


def _classify(
    classifier: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any
) -> SequenceClassifierOutputWithPast:
    rows = [row[: int(seen.sum())].tolist() for row, seen in zip(input_ids, attention_mask, strict=True)]
    decoder = getattr(classifier, classifier.base_model_prefix).get_decoder()
    return SequenceClassifierOutputWithPast(logits=classifier.score(last_hidden_states(decoder, rows).float()))


def last_hidden_states(decoder: Any, rows: Sequence[list[int]]) -> torch.Tensor:
    width, window = decoder.config.get_text_config().hidden_size, window_of(decoder)
    laid = Rows.of(rows, [[len(row) - 1] for row in rows], width, decoder.device, window)
    return hidden_states_at(decoder, laid.lines, laid.columns, **laid.inputs(decoder))[:, 0]


class RewardScorer:
    def __init__(
        self,
        decoder: Any,
        head: torch.Tensor,
        tokenizer: ChatTokenizer,
        scale: Scale,
        active: Callable[[], AbstractContextManager[None]] = nullcontext,
        tokens_per_pass: int = 65_536,
    ) -> None:
        """Use a decoder with the reward model's adapter, which `active` makes the active one; `head` is (1, width)."""
        self._decoder, self._head, self._tokenizer, self._scale = decoder, head, tokenizer, scale
        self._active, self._tokens_per_pass = active, tokens_per_pass

    @classmethod
    def sharing(cls, policy: PeftModel, folder: Path, tokenizer: ChatTokenizer, tokens_per_pass: int = 65_536) -> Self:
        """The reward model in `folder`, as one more frozen adapter of a policy that began as the same SFT policy."""
        # Its random initial weights, which are replaced, must not advance the global generator.
        with torch.random.fork_rng():
            policy.add_adapter(ADAPTER, _config(folder))
        return cls._of(policy, tokenizer, folder, tokens_per_pass)

    @classmethod
    def load(
        cls,
        folder: Path,
        base: Path,
        adapters: Sequence[Path],
        tokenizer: ChatTokenizer,
        dtype: Dtype = "float32",
        device: str = "cpu",
    ) -> Self:
        """The reward model in `folder` on its own trunk, the base model with these adapters merged."""
        model: Any = PeftModel(load_model(base, adapters, dtype), _config(folder), adapter_name=ADAPTER)
        return cls._of(model.to(device), tokenizer, folder)

    @classmethod
    def _of(cls, model: PeftModel, tokenizer: ChatTokenizer, folder: Path, tokens_per_pass: int = 65_536) -> Self:
        weights = load_file(folder / "adapter_model.safetensors")
        (head,) = (weights.pop(name) for name in list(weights) if name.endswith("score.weight"))
        set_peft_model_state_dict(model, weights, adapter_name=ADAPTER)
        for name, weight in model.named_parameters():
            if f".{ADAPTER}." in name:
                weight.requires_grad_(False)
        decoder = model.get_base_model().get_decoder()
        return cls(decoder, head, tokenizer, Scale.load(folder), partial(using, model, ADAPTER), tokens_per_pass)

    def tokens(self, messages: Sequence[Message], answer: str) -> list[int]:
        return self._tokenizer.prompt(messages) + self._tokenizer.reply(answer)

    def raw(self, rows: Sequence[list[int]]) -> list[float]:
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
        return [max(-3.0, min(3.0, (value - self._scale.mean) / self._scale.deviation)) for value in raw]


def _config(folder: Path) -> LoraConfig:
    config = LoraConfig.from_pretrained(str(folder))
    config.modules_to_save, config.task_type, config.inference_mode = None, "CAUSAL_LM", True
    return config
