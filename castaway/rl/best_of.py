"""Best of n: what a policy could say if a reward model chose (Stiennon et al. 2020, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from castaway.envs.base import Prompt
from castaway.models.scorer import Scorer
from castaway.rl.rollout import Answer, Speaker


@dataclass(frozen=True, slots=True)
class BestOf:
    """A speaker that draws `count` replies to each prompt and says the one with the highest score."""

    speaker: Speaker
    scorer: Scorer
    count: int

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One reply for each prompt; of equal scores the first counts."""
        drawn = [self.speaker(prompts) for _ in range(self.count)]
        asked = [prompt.messages for prompt in prompts] * self.count
        texts = [answer.text for answers in drawn for answer in answers]
        scores = self.scorer.score(list(zip(asked, texts, strict=True)))
        by_draw = [scores[start : start + len(prompts)] for start in range(0, len(scores), len(prompts))]
        best = [max(range(self.count), key=lambda draw: by_draw[draw][place]) for place in range(len(prompts))]
        return [drawn[draw][place] for place, draw in enumerate(best)]
