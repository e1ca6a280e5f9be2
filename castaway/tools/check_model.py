"""The trial of a model in a folder, as the stage `base` makes it, and of the sampler on it."""

from pathlib import Path
from typing import Any

import torch

from castaway.bases.sources import require_rows, whole_model
from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError, first_line
from castaway.models.policy import load_model
from castaway.models.rows import window_of
from castaway.models.tokens import ChatTokenizer
from castaway.models.trial import check_model, require_equal
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import SamplingRules, sample_replies

ASKED = ("Name a tree.", "What is seven times six, and why?", "Hello! Who are you, and what can you do?")


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
    drawn = _sampled(model, tokenizer, folder)
    read = check_model(model, str(folder))
    reach = {0: "each row is read by itself", float("inf"): "attention over the whole row"}
    return [
        f"{type(model).__name__}, {sum(weight.numel() for weight in model.parameters()):,} parameters, {dtype}",
        f"the template writes what system and user say, once each; a reply ends with {' or '.join(stops)}",
        reach.get(window, f"windows of {window} tokens; longer rows are read by themselves"),
        f"rows read together are those read one by one: {read:.1g} nats apart in the mean",
        f"what is drawn has the probability that training finds: {drawn:.1g} nats apart in the mean",
        "an adapter gets gradients",
    ]


def _sampled(model: Any, tokenizer: ChatTokenizer, folder: Path) -> float:
    """The mean difference between log-probabilities of drawn tokens and those that training computes for them."""
    actor, generator = ActorCritic(model), torch.Generator().manual_seed(0)
    prompts = [tokenizer.prompt([{"role": "user", "content": text}]) for text in ASKED]
    rules = SamplingRules(1.0, 8, tokenizer.stops, tokenizer.pad)
    try:
        replies = sample_replies(actor, prompts, rules, generator)
        with torch.no_grad():
            pairs = [(prompt, reply.tokens) for prompt, reply in zip(prompts, replies, strict=True)]
            scores = actor.score(actor.batch(pairs), rules.temperature).logprobs
    except Exception as error:  # of whatever class, deep in its code
        raise CastawayError(f"{folder} ({type(model).__name__}) cannot be sampled from: {first_line(error)}") from error
    drawn = torch.tensor([value for reply in replies for value in reply.logprobs])
    read = torch.cat([row[: len(reply.tokens)] for row, reply in zip(scores.float(), replies, strict=True)])
    difference = (drawn - read).abs().mean().item()
    require_equal(difference, model, f"{folder} ({type(model).__name__}) is sampled from otherwise than trained")
    return difference
