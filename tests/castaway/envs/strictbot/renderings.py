"""The task in both renderings, as shipped otherwise."""

from castaway.envs.strictbot.language import language_of
from castaway.envs.strictbot.task import Strictbot
from castaway.tasks.environment import Prompt
from castaway.tasks.registry import task_of
from tests import shipped

PARAMS = task_of(shipped.PARAMS, "strictbot").game
TASKS = {name: Strictbot(PARAMS.model_copy(update={"rendering": name})) for name in ("compact", "full")}
LANGUAGES = {name: language_of(name) for name in ("compact", "full")}


def prompts(task: Strictbot, first: int, count: int) -> list[Prompt]:
    """Those of all tutors in `count` episodes."""
    environment, shown = task.make(), []
    for task_id in range(first, first + count):
        environment.reset(task_id, "all")
        shown += environment.prompts()
    return shown
