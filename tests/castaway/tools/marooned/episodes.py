"""Episodes as the stage `evaluate` saves them, played by scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scripted import expert
from castaway.rollout.play import Generation, play_episodes
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.teacher.rules import RulesTeacher

Script = Mapping[tuple[int, int, str], str]
"""(day, turn, sailor) to what it writes; everybody else plays well."""


def answers(script: Script) -> Callable[[Sequence[Prompt]], list[Generation]]:
    def speak(prompts: Sequence[Prompt]) -> list[Generation]:
        spoken = []
        for prompt in prompts:
            seen = prompt.observation
            reply: Reply | str = script.get((seen.day, seen.turn, prompt.agent)) or expert(prompt)
            spoken.append(Generation(str(reply)))
        return spoken

    return speak


def played(task_id: int, seat: str, script: Script, scenario: str = "skiff", **game: Any) -> list[dict[str, Any]]:
    """The rows of an episode, read back from JSON; `game` is what a run sets beside the scenario."""
    environment = MaroonedEnvironment(scenario, "compact", **game)
    teacher = RulesTeacher(environment.rules)
    [episode] = play_episodes(lambda: environment, [(task_id, seat)], answers(script), teacher, keep_snapshots=1)
    head = {"task_id": task_id, "seat": seat, "success": episode.outcome.success, "ending": episode.outcome.ending}
    return [json.loads(json.dumps(row, sort_keys=True)) for row in [head, *episode.snapshots]]
