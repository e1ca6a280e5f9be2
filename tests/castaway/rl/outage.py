"""Trains in two processes of which the second one loses its teacher: a program for tests, started by torchrun.

python -m tests.castaway.rl.outage [ahead]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from castaway.rl.ppo import PpoTrainer
from castaway.rl.ranks import Ranks, process_group
from castaway.teacher.base import Attempt, TeacherOutage, Verdict
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads, ppo_params, source_of, student
from tests.castaway.rl.training import LengthScorer


class Lost(RulesTeacher):
    """Judges a few rounds."""

    rounds = 12

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """The verdicts of the rules, until the connection is gone."""
        self.rounds -= 1
        if self.rounds < 0:
            raise TeacherOutage("nobody answers")
        return super().judge(attempts)


def main(ahead: bool) -> None:
    """Train until all processes stop, and say in which step they did."""
    with process_group():
        actor, tokenizer = student()
        params = ppo_params(episodes_per_step=4, steps=10, minibatch_turns=4, ahead=ahead)
        teacher = Lost(AnyText()) if Ranks().rank == 1 else RulesTeacher(AnyText())
        trainer = PpoTrainer(actor, tokenizer, Crossroads, teacher, LengthScorer(), params, 3, source_of(3))
        try:
            while trainer.step_number < params.steps:
                trainer.step()
        except TeacherOutage as outage:
            print(f"{trainer.ranks.rank} stopped in step {trainer.step_number}: {outage}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] == ["ahead"])
