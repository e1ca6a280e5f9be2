"""The trial of a model in a folder: the stage `base` ends with it, and `castaway model check FOLDER` is it.

It only refuses: nothing that a stage makes depends on it. `sft` and `ppo` repeat their parts of it, with the code that
they run.
"""

from pathlib import Path

import torch

from castaway.bases.sources import require_rows, whole_model
from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError, first_line
from castaway.models.policy import load_model
from castaway.models.rows import window_of
from castaway.models.tokens import ChatTokenizer
from castaway.models.trial import check_merge, check_model
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.trial import check_sampler


def check_folder(folder: Path, dtype: Dtype, name: str = "") -> list[str]:
    """What is true of the model in a folder, one line each; CastawayError at the first thing that cannot be.

    `name` is what errors call the model; by default, its folder.
    """
    name = name or str(folder)
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model (config.json is missing); name a folder of transformers")
    try:
        model = load_model(folder, dtype=dtype) if dtype == "nf4" else whole_model(folder, getattr(torch, dtype)).eval()
    except CastawayError as error:
        raise CastawayError(f"{name} {error}") from None
    except Exception as error:  # from a cut file to an unknown class: transformers documents no list
        raise CastawayError(f"{name} cannot be loaded: {first_line(error)}") from error
    tokenizer, window = ChatTokenizer.load(folder), window_of(model)
    require_rows(model, tokenizer.tokenizer, name)
    stops = tokenizer.tokenizer.convert_ids_to_tokens(sorted(tokenizer.stops))
    kind, parameters = type(model).__name__, sum(weight.numel() for weight in model.parameters())
    read = check_model(model, name)
    drawn = check_sampler(ActorCritic(model), tokenizer, f"{name} ({kind})")
    merged = check_merge(model, folder, dtype, name)
    reach = {0: "each row is read by itself", float("inf"): "attention over the whole row"}
    return [
        f"{kind}, {parameters:,} parameters, {dtype}",
        f"the template writes what system and user say, once each; a reply ends with {' or '.join(stops)}",
        reach.get(window, f"windows of {window} tokens; longer rows are read by themselves"),
        f"rows read together are those read one by one: {read:.1g} nats apart in the mean",
        f"what is drawn has the probability that training finds: {drawn:.1g} nats apart in the mean",
        f"an adapter gets gradients, and merged into the weights it is the same model: {merged:.1g} nats apart",
    ]
