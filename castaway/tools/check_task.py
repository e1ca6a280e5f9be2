"""Checks a task and its runs in params.yaml: contract, players, and whether it has enough ids.

If a task has few ids, stages that should be apart draw the same ones; the driver asks for that too, before anything is
trained.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from random import Random
from typing import Any

from castaway.config.bases import BaseTextParams
from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.tasks.draws import evaluation_episodes, held_out_pair_episodes, place_of
from castaway.tasks.environment import HELD_OUT_START, enough, held_out_block, index_at, place_of_block
from castaway.tasks.registry import load_task, read_params, task_class, task_of
from castaway.tasks.task import Task
from castaway.tools.checker import check_environment
from castaway.tools.plugins import link

TURNS = 40  # number of turns of each player that are checked


def check_task(name: str, root: Path, on_note: Callable[[str], None] = lambda note: None) -> Iterator[str]:
    """Yield one line for each thing that the task lacks, the most important first; notes are no faults."""
    try:
        task = task_class(name)
        if lacking := [one for one in ("name", "game_model", "evaluation_seats") if not hasattr(task, one)]:
            raise CastawayError(f"{task.__name__} does not set {', '.join(lacking)}")
        if task.name != name:
            yield f"{task.__name__}.name is {task.name!r}, expected the name of its entry point, {name!r}"
        params = read_params(root / "params.yaml")
    except CastawayError as error:
        yield str(error)
        return
    runs = [run for run, block in params.tasks.items() if block.task == name]
    if not runs:
        yield f"params.yaml has no run of the task {name}: add a block under `tasks`, with a base model under `bases`"
        return
    for run in runs:
        try:
            yield from _check_run(task_of(params, run), run, on_note)
            yield from shortages(params, run)
        except CastawayError as error:
            yield f"{run}: {error}"
    try:
        link(root, params)
    except CastawayError as error:
        yield str(error)


def _check_run(task: Task[Any], run: str, on_note: Callable[[str], None]) -> Iterator[str]:
    ids = list(islice(task.training_ids(), 3))
    for note in check_environment(task.make, ids):
        on_note(f"{run}: {note}")
    environment = task.make()
    if missing := [one for one in (*task.evaluation_seats, task.scripted_seat) if one not in environment.seats]:
        yield f"{run}: the environment has no seat {missing[0]!r}; it has {', '.join(environment.seats)}"
        return
    for who, play in (("expert", task.expert), ("demonstrator", task.demonstrator(Random(0), 0.4))):
        if fault := _fault_of_player(task, play):
            yield f"{run}: the {who}{fault}"
            break
    if not task.curriculum(10):
        yield f"{run}: curriculum gives no stage, expected at least one"
    if any(task_id >= HELD_OUT_START for task_id in ids):
        yield f"{run}: training_ids holds held-out ids, expected ids below {HELD_OUT_START}"


def _fault_of_player(task: Task[Any], play: Callable[..., Any]) -> str:
    """The first reply that is not legal, or does not parse to the same reasoning and action; empty if there is none."""
    environment, turns = task.make(), 0
    for task_id in islice(task.training_ids(), TURNS):
        environment.reset(task_id, task.scripted_seat)
        while not environment.done and turns < TURNS:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                if refusal := environment.rules.refusal(prompt.observation, reply.action):
                    return f" answers {reply.action!r}, which is not legal: {refusal.sentence}"
                if reply.read(str(reply)) != reply:
                    return f"'s {str(reply)!r} does not parse to the same reasoning and action"
                actions[prompt.agent] = reply.action
            environment.step(actions)
            turns += len(actions)
    return ""


# Enough ids for all stages -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """A range of ids that a stage draws."""

    key: str  # the key of params.yaml that says how many ids it has
    owner: str  # whose ids these are, in words. Draws of one owner should have none in common
    task_ids: Sequence[int]  # all ids of the owner, in order
    place: int  # the place at which the range begins, see `castaway.tasks.draws`
    count: int
    shift: int = 0  # what is added to each id: 0 for a training id

    @property
    def first(self) -> int:
        return index_at(self.place, len(self.task_ids))

    @property
    def left(self) -> int:
        return len(self.task_ids) - self.first

    def ids(self) -> set[int]:
        return {self.shift + self.task_ids[self.first + number] for number in range(min(self.count, self.left))}


def draws_of(params: Params, run: str) -> list[Draw]:
    """The ranges of ids that a run's stages draw, held-out ids last; PPO draws from all ids of its curriculum."""
    task, own, seed = task_of(params, run), params.for_run(run), params.seed
    owner, ids, unseen = f"the task {params.tasks[run].task}", task.training_ids(), task.unseen_ids()
    played = max(evaluation_episodes(own.evaluate, task.evaluation_seats).values())
    held_out_pairs, block = held_out_pair_episodes(own.dataset), held_out_block(own.evaluate.block, seed)
    shift, place = place_of_block(block)
    further = f"evaluate.further_episodes (block {block})"
    played_key = f"evaluate.episodes (block {block})" if played == own.evaluate.episodes else further
    base, ranges = params.bases[params.tasks[run].base], []
    for name, text in base.text.items() if isinstance(base, BaseTextParams) else ():
        key, of_text = f"bases.{params.tasks[run].base}.text.{name}.episodes", load_task(name, text.game).training_ids()
        ranges.append(Draw(key, f"the task {name}", of_text, place_of("base text", seed), text.episodes))
    ranges += [
        Draw("dataset.episodes", owner, ids, place_of("demonstrations", seed), own.dataset.episodes),
        Draw("dataset.held_out_pairs", owner, ids, place_of("held-out pairs", seed), held_out_pairs),
        Draw("ppo.validation.episodes", owner, ids, place_of("validation", seed), own.ppo.validation.episodes),
        Draw(played_key, owner, ids, place, played, shift),
    ]
    if unseen:
        ranges.append(Draw(further, f"the unseen part of {owner}", unseen, place, own.evaluate.further_episodes, shift))
    return ranges


def shortages(params: Params, run: str) -> Iterator[str]:
    """Yield one sentence for each task that has too few ids for a run: its own, or another of its base model's text."""
    by_owner: dict[str, list[Draw]] = {}
    for draw in draws_of(params, run):
        by_owner.setdefault(draw.owner, []).append(draw)
    for owner, draws in by_owner.items():
        faults = [f"{one.key} asks for {one.count:,} and has {one.left:,}" for one in draws if one.count > one.left]
        for (one, mine), (other, theirs) in combinations([(draw, draw.ids()) for draw in draws], 2):
            if one.shift == other.shift and (both := len(mine & theirs)):
                faults.append(f"{one.key} and {other.key} share {both:,}")
        if faults:
            number = min(len(draw.task_ids) for draw in draws)
            yield (
                f"{run}: {owner} has {number:,} ids, too few for seed {params.seed}: {', '.join(faults)}; "
                f"give it at least {_enough(draws):,}, each of them once, or lower these keys"
            )


def _enough(draws: Sequence[Draw]) -> int:
    """How many ids are enough for each range to end before the next one begins, and before the end."""
    most = 0
    for draw in draws:
        later = [other.place for other in draws if other.shift == draw.shift and other.place > draw.place]
        most = max(most, enough(draw.count, min([*later, HELD_OUT_START]) - draw.place))
    return most


def require_ids(params: Params, run: str) -> None:
    """Raise CastawayError if a task of the run has too few ids, before anything is made of them."""
    if sentence := next(shortages(params, run), None):
        raise CastawayError(sentence)
