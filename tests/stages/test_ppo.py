"""Whatever ends a step of PPO, a checkpoint from before it is there."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from castaway.config.errors import CastawayError
from castaway.rl.checkpoint import load_newest
from castaway.rl.ranks import Ranks
from stages.ppo import _train
from tests.castaway.rl.small import ppo_params


@pytest.mark.parametrize("fault", [CastawayError("the sampler failed"), MemoryError("no room")])
@pytest.mark.parametrize("validating", [False, True])
def test_what_ends_a_step_costs_no_other_step(fault: Exception, validating: bool, tmp_path: Path) -> None:
    class Failing:
        """Fails in its third step, maybe after it has counted it."""

        ranks, step_number = Ranks(), 0

        def __init__(self) -> None:
            self.history: list[dict[str, float]] = []

        def state(self) -> dict[str, Any]:
            return {"step_number": self.step_number, "history": list(self.history)}

        def step(self) -> dict[str, float]:
            self.step_number += validating or self.step_number < 2
            if self.step_number == 2 + validating:
                raise fault
            self.history.append({"invalid_rate": 0.0})
            return self.history[-1]

    params = SimpleNamespace(ppo=ppo_params(steps=9, checkpoint_interval=50))
    context: Any = SimpleNamespace(params=params, scratch=tmp_path, log=lambda *_: None, observe=lambda *_: None)
    trainer: Any = Failing()
    with pytest.raises(type(fault)):
        _train(context, trainer, SimpleNamespace(counts={}))  # type: ignore[arg-type]
    saved = load_newest(tmp_path) or {}
    assert saved["step_number"] == len(saved["history"]) == len(trainer.history)
