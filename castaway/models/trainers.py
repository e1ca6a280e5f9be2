"""TRL's trainers of adapters: the same losses in less time, since the adapter is folded into the weights for each pass.

The loss of SFT is worked out from the hidden states before the labels alone: TRL makes the logits of prompts as well,
a third of the time for a vocabulary of 49,152 and two fifths for the tiny model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from trl import DPOConfig, DPOTrainer, RewardTrainer, SFTConfig, SFTTrainer

from castaway.config.sections import CorrectionSftParams, SftParams
from castaway.models.folded import folded
from castaway.models.four_bit import is_four_bit
from castaway.models.logprobs import label_losses
from castaway.models.products import use_for_head
from castaway.models.rows import SMALL
from castaway.models.tokens import ChatTokenizer, require_positions
from castaway.models.training import (
    CurveCallback,
    LabelledRow,
    Log,
    ReplyCollator,
    longest,
    section_settings,
)


class FoldedSFTTrainer(SFTTrainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean of -log p over the labels, in nats; of a mixture of experts plus its class's loss of balance."""
        with folded(model):
            losses, right, balance = label_losses(model.get_base_model(), inputs)
        self._metrics["train"]["mean_token_accuracy"].append(right.float().mean().item())
        # The mean over the passes of a step, by their labels.
        total = losses.sum() + len(losses) * self.router_aux_loss_coef * balance
        return total / (len(losses) if num_items_in_batch is None else num_items_in_batch)


class FoldedRewardTrainer(RewardTrainer):
    def compute_loss(self, model: Any, *arguments: Any, **named: Any) -> Any:
        with folded(model):
            return super().compute_loss(model, *arguments, **named)


class TokenPreferenceTrainer(DPOTrainer):
    """DPO (Rafailov et al. 2023) on rows of tokens.

    TRL would make its own from chat messages; a template that writes a prompt otherwise before a reply than alone would
    give other tokens than those that the policy samples.
    """

    def _prepare_dataset(self, dataset: Any, *arguments: Any, **named: Any) -> Any:
        return dataset


def reply_trainer(
    model: Any,
    tokenizer: ChatTokenizer,
    rows: Sequence[LabelledRow],
    params: SftParams | CorrectionSftParams,
    *,
    log: Log,
    adapter: LoraConfig | None = None,
    **settings: Any,
) -> FoldedSFTTrainer:
    """The trainer of an adapter on rows of prompts and replies, with its curves; for `settings` see `section_settings`.

    The model has the adapter that is trained, unless `adapter` describes a new one. `log` adds points to the curves.
    """
    require_positions(model.config, most := longest(rows))
    settings = section_settings(params, len(rows), most, **settings)
    before = trained_weights(model)
    trainer = FoldedSFTTrainer(
        model=model,
        args=SFTConfig(**settings, max_length=None, packing=False),
        train_dataset=Dataset.from_list(list(rows)),
        data_collator=ReplyCollator(model, tokenizer.pad),
        processing_class=tokenizer.tokenizer,
        peft_config=adapter,
        callbacks=[CurveCallback(log, {"loss": "loss", "mean_token_accuracy": "token_accuracy"})],
    )
    keep_precision(trainer.model, before)
    if model.config.get_text_config().hidden_size >= SMALL:
        use_for_head(trainer.model.get_base_model())
    return trainer


PreferenceRow = dict[str, list[int]]
"""`prompt_ids`, and the better and the worse reply, `chosen_ids` and `rejected_ids`, each with its stop token."""


def preference_trainer(
    model: Any,
    tokenizer: ChatTokenizer,
    rows: Sequence[PreferenceRow],
    params: CorrectionSftParams,
    *,
    log: Log,
    **settings: Any,
) -> TokenPreferenceTrainer:
    """The trainer of an adapter on pairs of replies; the reference is the adapter as it is now."""
    most = max(len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"])) for row in rows)
    settings = section_settings(params, len(rows), 2 * most, **settings)  # a row of the trainer is a pair of replies
    before = trained_weights(model)
    trainer = TokenPreferenceTrainer(
        model=model,
        args=DPOConfig(**settings, max_length=None, beta=params.beta),
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=tokenizer.tokenizer,
        callbacks=[CurveCallback(log, {"loss": "loss", "rewards/accuracies": "accuracy", "rewards/margins": "margin"})],
    )
    keep_precision(trainer.model, before)
    return trainer


def trained_weights(model: Any) -> dict[torch.nn.Parameter, torch.Tensor]:
    """Copies of the weights of a model in 4 bits that are trained; nothing of other models."""
    if not is_four_bit(model):
        return {}
    return {weight: weight.detach().clone() for weight in model.parameters() if weight.requires_grad}


def keep_precision(model: Any, before: Mapping[torch.nn.Parameter, torch.Tensor]) -> None:
    """Keep in float32 what is trained on weights of 4 bits, `before` the trainer rounded it to bfloat16."""
    if is_four_bit(model):
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data = before.get(weight, weight.data).float()
