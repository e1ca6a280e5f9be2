"""A trial of a model, before anything is trained on it: that it is read and trained as its class computes it.

Whatever transformers loads gets here. Prefix trees, adapters and the float32 head were made for usual decoders; a model
that they read wrongly would train without an error.
"""

from pathlib import Path
from typing import Any

import torch
from peft import PeftModel

from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError, first_line
from castaway.config.sections import LoraParams
from castaway.models.folded import folded
from castaway.models.logprobs import hidden_states_at, next_token_logits
from castaway.models.merging import merged_weights
from castaway.models.policy import new_adapter
from castaway.models.rows import Rows, window_of

OPERATIONS = 4e12
"""Of the whole trial, about: some seconds of one core. It decides how long the rows of a large model are."""
LONGEST = 2048
"""Tokens of a row, at most: the mask of a tree has their square."""
SHARED, ENDS = 48, (3, 17, 9)
"""Tokens that the rows begin with, at least, and how many follow in each."""
STIR = 0.02
"""Standard deviation of the new adapter's outer weights."""
ROUNDING, COARSE_ROUNDING = 1e-3, 0.3
"""Mean differences of log-probabilities that are no fault, in nats, in float32 and in shorter types.

SmolLM2 reads random tokens 8e-6 and 0.08 nats apart; without the mask of a tree it is 0.9."""
REMEDY = "name another model as base, such as a Llama, Qwen3 or Gemma"


def check_model(model: Any, name: str) -> float:
    """Read some rows, with a new adapter that is removed again; the model stays as it was, and so do random numbers.

    PEFT computes each row by itself, beside the adapter; training reads the rows together, with the adapter folded in.
    The rows use all positions, or are longer than every window, where that takes no longer than seconds. Returns the
    mean difference of the log-probabilities of both, in nats.

    Raises:
        CastawayError: a class of models that this cannot be done with, or that comes out differently.
    """
    kind = f"{name} ({type(model).__name__})"
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            difference, moved = _differences(model)
    except Exception as error:  # of whatever class, deep in its code
        raise CastawayError(f"{kind} cannot be trained: {first_line(error)}; {REMEDY}") from error
    require_equal(difference, model, f"{kind} reads rows that are trained together otherwise than one by one")
    if not moved:
        raise CastawayError(f"no adapter of {kind} gets a finite gradient; {REMEDY}")
    return difference


def check_merge(model: Any, folder: Path, held: Dtype, name: str) -> float:
    """Merge a new adapter into a model, loaded from `folder` in the precision `held`, as the stage `merge` does.

    The model is of no use afterwards. Returns the mean difference of log-probabilities before and after, in nats.
    CastawayError if it is more than rounding, or merging fails.
    """
    kind, rows = f"{name} ({type(model).__name__})", _rows(model)
    try:
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            policy = _adapted(model)
            before = _read_alone(policy, rows)
            after = _read_alone(merged_weights(policy, folder, held), rows)
    except Exception as error:  # of whatever class, deep in its code
        raise CastawayError(f"no adapter can be merged into {kind}: {first_line(error)}; {REMEDY}") from error
    difference = _apart(before, after)
    require_equal(difference, model, f"{kind} computes something else with an adapter merged into it")
    return difference


def require_equal(difference: float, model: Any, fault: str) -> None:
    """Refuse a mean difference of log-probabilities, in nats, that rounding in the model's type does not explain."""
    if not difference <= (ROUNDING if model.dtype is torch.float32 else COARSE_ROUNDING):
        raise CastawayError(f"{fault}: log-probabilities differ by {difference:.2g} nats in the mean; {REMEDY}")


def _differences(model: Any) -> tuple[float, bool]:
    """The mean difference of log-probabilities, and whether a new adapter gets gradients, all of them finite."""
    rows = _rows(model)
    policy = _adapted(model)
    with torch.no_grad():
        plain = _read_alone(policy, rows)
    causal, width = policy.get_base_model(), model.config.get_text_config().hidden_size
    laid = Rows.of(rows, _places(rows), width, model.device, window_of(causal))
    with folded(policy):
        states = hidden_states_at(causal.get_decoder(), laid.lines, laid.columns, **laid.inputs(causal))
        read = next_token_logits(causal, states).log_softmax(-1)
        read.max(-1).values.sum().backward()
    gradients = [weight.grad for weight in policy.parameters() if weight.grad is not None]
    policy.unload()
    finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
    together = [one[: len(own)].detach() for one, own in zip(read, plain, strict=True)]
    return _apart(together, plain), finite and any(bool(gradient.any()) for gradient in gradients)


def _adapted(model: Any) -> PeftModel:
    """The model with a new adapter that changes it a little: with zeros, one that is left out would not be noticed."""
    policy = new_adapter(model, LoraParams(rank=1, alpha=1))
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=STIR)
    return policy


def _read_alone(model: Any, rows: list[list[int]]) -> list[torch.Tensor]:
    """Log-probabilities of the last tokens of each row, (tokens, vocabulary), read by itself by transformers."""
    places = zip(rows, _places(rows), strict=True)
    read = [(model(input_ids=torch.tensor([row], device=model.device)).logits[0], spots) for row, spots in places]
    return [logits.float().log_softmax(-1)[list(spots)] for logits, spots in read]


def _apart(ones: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """The mean difference, in nats."""
    return torch.cat([one - other for one, other in zip(ones, others, strict=True)]).abs().mean().item()


def _places(rows: list[list[int]]) -> list[range]:
    return [range(len(row) - count, len(row) - 1) for row, count in zip(rows, ENDS, strict=True)]


def tried_length(model: Any) -> int:
    """How many tokens are read, within seconds: all positions of the model, else beyond its windows, else a few."""
    config = model.config.get_text_config()
    parameters = sum(weight.numel() for weight in model.parameters())
    affordable = min(LONGEST, OPERATIONS / (10 * len(ENDS) * parameters))
    positions = getattr(config, "max_position_embeddings", None) or LONGEST
    beyond = (positions, window_of(model) + max(ENDS))
    within = [int(length) for length in beyond if length <= affordable]
    return min(max([SHARED + max(ENDS), *within]), positions)


def _rows(model: Any) -> list[list[int]]:
    """Rows of different lengths that begin alike, beyond every window if that does not take too long."""
    generator = torch.Generator().manual_seed(0)
    lengths = [tried_length(model) - max(ENDS), *ENDS]
    vocabulary = model.config.get_text_config().vocab_size
    same, *ends = torch.randint(vocabulary, (sum(lengths),), generator=generator).split(lengths)
    return [torch.cat([same, end]).tolist() for end in ends]
