"""Whatever ends a step of PPO, a checkpoint from before it is there; and checkpoints stay if they are to."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft.utils import load_peft_weights

from castaway.config.errors import CastawayError
from castaway.rl.checkpoint import load_newest
from castaway.rl.ppo import PpoTrainer
from castaway.rl.ranks import Ranks
from castaway.teacher.rules import RulesTeacher
from stages.ppo import _train
from tests.castaway.rl.small import AnyText, Crossroads, NoScorer, ppo_params, source_of, student


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


def test_the_log_and_a_tag_say_where_the_curriculum_has_moved(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    stages = [SimpleNamespace(name=name) for name in ("easy", "medium", "hard")]

    class Moving:
        """Enters the second stage in its first step, goes back in the third, and stops after `last` steps."""

        ranks, rollouts = Ranks(), SimpleNamespace(source=SimpleNamespace(curriculum=SimpleNamespace(stages=stages)))
        history: tuple[dict[str, float], ...] = ()
        step_number = property(lambda self: len(self.history))

        def state(self) -> dict[str, Any]:
            return {"step_number": self.step_number, "history": self.history}

        def load_state(self, state: dict[str, Any]) -> None:
            self.history = state["history"]

        def step(self) -> dict[str, float]:
            self.history += ({"invalid_rate": 0.0, "stage": (2.0, 2.0, 1.0, 1.0, 1.0)[self.step_number]},)
            return self.history[-1]

        def finish(self) -> None: ...

    tags = list[str]()
    for steps in (4, 5):  # the second time from the checkpoint, with another run in MLflow
        context: Any = SimpleNamespace(
            params=SimpleNamespace(ppo=ppo_params(steps=steps, checkpoint_interval=2)),
            scratch=tmp_path,
            log=lambda *_: None,
            observe=lambda *_: None,
            tag=lambda name, value: tags.append(f"{name}: {value}"),
        )
        _train(context, Moving(), SimpleNamespace(counts={}))  # type: ignore[arg-type]
    said = [line for line in capsys.readouterr().out.split("\n") if line.startswith("ppo: step")]
    assert said == [
        "ppo: step 1 enters stage 2 of 3 of the curriculum: medium",
        "ppo: step 3 enters stage 1 of 3 of the curriculum: easy",
    ]
    back = "curriculum: easy, medium in step 1, easy in step 3"
    assert tags == ["curriculum: easy, medium in step 1", back, back]


@pytest.mark.parametrize("keep", [False, True])
def test_checkpoints_stay_as_adapters_if_they_are_to(keep: bool, tmp_path: Path) -> None:
    actor, tokenizer = student()
    few = {"episodes_per_step": 4, "max_new_tokens": 8, "learning_rate": 1e-2}
    ppo = ppo_params(steps=2, checkpoint_interval=1, keep_checkpoints=keep, **few)
    teacher: Any = RulesTeacher(AnyText())
    trainer = PpoTrainer(actor, tokenizer, Crossroads, teacher, NoScorer(), ppo, 1, source_of())  # type: ignore[arg-type]
    kept, nothing = tmp_path / "checkpoints", lambda *_: None
    (kept / "step-000009").mkdir(parents=True)  # of another build
    params = SimpleNamespace(ppo=ppo)
    context: Any = SimpleNamespace(
        params=params, scratch=tmp_path / "scratch", checkpoints=kept, log=nothing, observe=nothing
    )
    _train(context, trainer, teacher)
    if not keep:
        assert [path.name for path in kept.iterdir()] == ["step-000009"]
        return
    first, last = sorted(kept.iterdir())
    assert (first.name, last.name) == ("step-000001", "step-000002")
    actor.save(tmp_path / "out")
    before, after, out = (load_peft_weights(str(folder), device="cpu") for folder in (first, last, tmp_path / "out"))
    assert all(torch.equal(after[name], out[name]) for name in out)
    assert not all(torch.equal(before[name], out[name]) for name in out)
