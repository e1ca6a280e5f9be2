"""Any task with one agent for TRL's `GRPOTrainer`, whose model plays by calling a tool.

    task = load_task("openspiel", game)
    trainer = GRPOTrainer(
        model,
        environment_factory=lambda: GameEnvironment(task, "random"),
        train_dataset=Dataset.from_list(training_rows(task, 1_000)),
        args=GRPOConfig(max_tool_calling_iterations=20, ...),
    )

TRL resets an environment for each completion, hands it the columns of the row, and adds what `reset` returns to the
last message of the user; `act` is the tool, and `get_reward` the reward. So all completions of a row play one episode.
"""

from typing import Any

from castaway.config.errors import CastawayError
from castaway.tasks.environment import HELD_OUT_START, Prompt, ids_in_a_row
from castaway.tasks.task import Task

OVER = "The episode is over. Do not call the tool again."


def training_rows(task: Task[Any], count: int, start: int = 0) -> list[dict[str, Any]]:
    """`count` rows of a data set, each with an empty prompt and the training id of an episode."""
    asked = [{"role": "user", "content": ""}]
    return [{"prompt": asked, "task_id": task_id} for task_id in ids_in_a_row(task.training_ids(), start, count)]


class GameEnvironment:
    """One episode at a time, played by the tool `act`; an action that is not legal counts as the idle one."""

    def __init__(self, task: Task[Any], seat: str | None = None) -> None:
        self._environment = task.make()
        self._seat = seat or task.evaluation_seats[0]
        self._reward = 0.0
        self._system = ""

    def reset(self, task_id: int, **row: Any) -> str:
        """Start an episode, and return the prompt of its first turn; ValueError if the id is negative or held out."""
        if not 0 <= task_id < HELD_OUT_START:
            raise ValueError(f"the task_id must be a whole number below {HELD_OUT_START}, where held-out games begin")
        self._environment.reset(task_id, self._seat)
        self._reward, self._system = 0.0, ""
        return f"{self._shown()}\n\nAnswer with the tool `act` alone; its argument is what would stand after ACTION."

    def act(self, action: str) -> str:
        """Take one action of the game.

        Args:
            action: The action, exactly as the game defines it.

        Returns:
            What there is to see in the next turn.
        """
        if self._environment.done:
            return OVER
        prompt = self._prompt()
        refusal = self._environment.rules.refusal(prompt.observation, action)
        self._reward += self._environment.step({prompt.agent: action})[prompt.agent]
        return f"{refusal.sentence}\n\n{self._shown()}" if refusal else self._shown()

    def get_reward(self) -> float:
        return self._reward

    def _prompt(self) -> Prompt:
        prompts = self._environment.prompts()
        if len(prompts) != 1:
            raise CastawayError(
                f"{self._environment.name} asks {len(prompts)} agents at the same time in the seat {self._seat}; "
                f"TRL plays one: choose another of {', '.join(self._environment.seats)}"
            )
        return prompts[0]

    def _shown(self) -> str:
        """The messages of this turn as one text; what the system says only where it has changed."""
        if self._environment.done:
            return OVER
        messages = self._prompt().messages
        system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        said = [message["content"] for message in messages if message["role"] != "system"]
        changed, self._system = system != self._system, system
        return "\n\n".join([system, *said] if changed else said)
