"""The trial of a model in a folder, as the stages `sft` and `ppo` make it."""

from pathlib import Path

import torch

from castaway.bases.sources import require_rows, whole_model
from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError, first_line
from castaway.models.policy import load_model
from castaway.models.rows import window_of
from castaway.models.tokens import ChatTokenizer
from castaway.models.trial import check_model
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.trial import check_sampler


def check_folder(folder: Path, dtype: Dtype) -> list[str]:
    """What is true of the model in a folder, one line each; CastawayError at the first thing that cannot be."""
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model (config.json is missing); name a folder of transformers")
    try:
        model = load_model(folder, dtype=dtype) if dtype == "nf4" else whole_model(folder, getattr(torch, dtype)).eval()
    except CastawayError as error:
        raise CastawayError(f"{folder} {error}") from None
    except Exception as error:  # from a cut file to an unknown class: transformers documents no list
        raise CastawayError(f"{folder} cannot be loaded: {first_line(error)}") from error
    tokenizer, window = ChatTokenizer.load(folder), window_of(model)
    require_rows(model, tokenizer.tokenizer, str(folder))
    stops = tokenizer.tokenizer.convert_ids_to_tokens(sorted(tokenizer.stops))
    read = check_model(model, str(folder))
    drawn = check_sampler(ActorCritic(model), tokenizer, f"{folder} ({type(model).__name__})")
    reach = {0: "each row is read by itself", float("inf"): "attention over the whole row"}
    return [
        f"{type(model).__name__}, {sum(weight.numel() for weight in model.parameters()):,} parameters, {dtype}",
        f"the template writes what system and user say, once each; a reply ends with {' or '.join(stops)}",
        reach.get(window, f"windows of {window} tokens; longer rows are read by themselves"),
        f"rows read together are those read one by one: {read:.1g} nats apart in the mean",
        f"what is drawn has the probability that training finds: {drawn:.1g} nats apart in the mean",
        "an adapter gets gradients",
    ]
