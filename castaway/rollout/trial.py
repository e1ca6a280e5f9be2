"""A trial of the sampler, before it plays: that what is drawn has the probability that training finds for it."""

import torch

from castaway.config.errors import CastawayError, first_line
from castaway.models.tokens import ChatTokenizer
from castaway.models.trial import REMEDY, require_equal, tried_length
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import SamplingRules, sample_replies

ASKED = ("Name a tree.", "What is seven times six, and why?", "Hello! Who are you, and what can you do?")

TOKENS = 8  # of each reply


def check_sampler(actor: ActorCritic, tokenizer: ChatTokenizer, name: str) -> float:
    """Draw a few tokens; returns how far their log-probabilities are from those of training, in nats, in the mean.

    No random number of anybody else is used. CastawayError where that is more than rounding, or sampling fails.
    """
    device = next(actor.parameters()).device
    prompts = [tokenizer.prompt([{"role": "user", "content": text}]) for text in ASKED]
    often = max(1, (tried_length(actor.causal) - TOKENS) // max(map(len, prompts)))  # one more that is long
    prompts.append(tokenizer.prompt([{"role": "user", "content": " ".join(often * [max(ASKED, key=len)])}]))
    generator = torch.Generator(device).manual_seed(0)
    rules = SamplingRules(1.0, TOKENS, tokenizer.stops, tokenizer.pad)
    try:
        replies = sample_replies(actor, prompts, rules, generator)
        with torch.no_grad():
            pairs = [(prompt, reply.tokens) for prompt, reply in zip(prompts, replies, strict=True)]
            scores = actor.score(actor.batch(pairs), rules.temperature).logprobs
    except Exception as error:  # of whatever class, deep in its code
        raise CastawayError(f"{name} cannot be sampled from: {first_line(error)}; {REMEDY}") from error
    drawn = torch.tensor([value for reply in replies for value in reply.logprobs])
    read = torch.cat([row[: len(reply.tokens)] for row, reply in zip(scores.float().cpu(), replies, strict=True)])
    difference = (drawn - read).abs().mean().item()
    require_equal(difference, actor.causal, f"{name} is sampled from otherwise than trained")
    return difference
