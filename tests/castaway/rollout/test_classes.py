"""Models of many classes: training and sampling read them as transformers does, also beyond a window."""

from random import Random
from typing import Any

import pytest
import torch

from castaway.config.sections import LoraParams
from castaway.models.policy import new_adapter
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import WORTHWHILE, SamplingRules, sample_replies
from tests.castaway.models.classes import CLASSES, WINDOW, model_of
from tests.castaway.rl.small import stirred

TOKENS = range(3, 80)
RULES = SamplingRules(1.0, max_new_tokens=6, stops=frozenset(range(2, 80, 6)), pad=0)  # some replies end early


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_drawn_and_scored_has_the_probability_of_each_row_by_itself(name: str) -> None:
    assert max(differences(model_of(name))) < 5e-5


def differences(model: Any) -> tuple[float, float]:
    """The largest differences of log-probabilities, drawn and scored, to plain passes of each row, in nats."""
    actor = stirred(ActorCritic(new_adapter(model, LoraParams(rank=2, alpha=2))).eval())
    random = Random(1)
    same = random.choices(TOKENS, k=max(WORTHWHILE, WINDOW) + 6)
    prompts = [same + random.choices(TOKENS, k=count) for count in (3, 12, 1, 30)]
    prompts.append(prompts[1])  # read once
    replies = sample_replies(actor, prompts, RULES, torch.Generator().manual_seed(1))
    with torch.no_grad():
        turns = actor.batch([(prompt, reply.tokens) for prompt, reply in zip(prompts, replies, strict=True)])
        scores = actor.score(turns, 1.0).logprobs
        drawn, read = list[torch.Tensor](), list[torch.Tensor]()
        for prompt, reply, scored in zip(prompts, replies, scores, strict=True):
            logits = actor.policy(input_ids=torch.tensor([prompt + reply.tokens]), use_cache=False).logits[0]
            alone = logits.log_softmax(-1)[len(prompt) - 1 : -1].gather(1, torch.tensor(reply.tokens)[:, None])[:, 0]
            drawn.append(torch.tensor(reply.logprobs) - alone)
            read.append(scored[: len(alone)] - alone)
    return torch.cat(drawn).abs().max().item(), torch.cat(read).abs().max().item()
