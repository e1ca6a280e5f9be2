"""Whether a task has enough ids for a run: if it has few, stages that should be apart draw the same ones.

No stage depends on this module; `flows` and `castaway task check` ask it before anything is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from castaway.config.bases import BaseTextParams
from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.draws import evaluation_episodes, held_out_pair_episodes, place_of
from castaway.tasks.environment import BLOCK_IDS, HELD_OUT_START, enough, held_out_block, index_at, place_of_block
from castaway.tasks.registry import load_task, task_of


@dataclass(frozen=True, slots=True)
class Draw:
    """A range of ids that a stage draws."""

    key: str
    """The key of params.yaml that says how many ids it has."""
    owner: str
    """Whose ids these are, in words. Draws of one owner should have none in common."""
    task_ids: Sequence[int]
    """All ids of the owner, in order."""
    place: int
    """The place at which the range begins, see `castaway.tasks.draws`."""
    count: int
    shift: int = 0
    """What is added to each id: 0 for a training id."""

    @property
    def left(self) -> int:
        """The number of ids from the place on."""
        return len(self.task_ids) - index_at(self.place, len(self.task_ids))

    def ids(self) -> set[int]:
        """The ids, as far as there are enough."""
        first = index_at(self.place, len(self.task_ids))
        return {self.shift + self.task_ids[first + number] for number in range(min(self.count, self.left))}


def draws_of(params: Params, run: str) -> list[Draw]:
    """The ranges of ids that the stages of a run draw with the seed of `params`, held-out ids last.

    PPO is not among them: it draws from all ids of its curriculum.

    Raises:
        CastawayError: there is no such run.
    """
    task, own, seed = task_of(params, run), params.for_run(run), params.seed
    mine, ids, unseen = _name(params.tasks[run].task), task.training_ids(), task.unseen_ids()
    episodes, pairs, validated = own.dataset.episodes, held_out_pair_episodes(own.dataset), own.ppo.validation.episodes
    played = max(evaluation_episodes(own.evaluate, task.evaluation_seats).values())
    block = held_out_block(own.evaluate.block, seed)
    played_key = "evaluate.episodes" if played == own.evaluate.episodes else "evaluate.further_episodes"
    shift, place = place_of_block(block)
    found = [
        *_base_text(params, params.tasks[run].base),
        Draw("dataset.episodes", mine, ids, place_of("demonstrations", seed), episodes),
        Draw("dataset.held_out_pairs", mine, ids, place_of("held-out pairs", seed), pairs),
        Draw("ppo.validation.episodes", mine, ids, place_of("validation", seed), validated),
        Draw(f"{played_key} (block {block})", mine, ids, place, played, shift),
    ]
    if unseen:
        key = f"evaluate.further_episodes (block {block})"
        found.append(Draw(key, f"the unseen part of {mine}", unseen, place, own.evaluate.further_episodes, shift))
    return found


def _base_text(params: Params, base: str) -> Iterator[Draw]:
    """The ranges of the pretraining text of a base model, which may be of several tasks, or none."""
    made = params.bases[base]
    for name, text in made.text.items() if isinstance(made, BaseTextParams) else ():
        key, ids = f"bases.{base}.text.{name}.episodes", load_task(name, text.game).training_ids()
        yield Draw(key, _name(name), ids, place_of("base text", params.seed), text.episodes)


def _name(task: str) -> str:
    """The owner of the ids of a task."""
    return f"the task {task}"


def shortages(params: Params, run: str) -> Iterator[str]:
    """Yield one sentence for each task that has too few ids for a run: its own, or another of its base model's text.

    Raises:
        CastawayError: there is no such run.
    """
    by_owner: dict[str, list[Draw]] = {}
    for draw in draws_of(params, run):
        by_owner.setdefault(draw.owner, []).append(draw)
    for owner, draws in by_owner.items():
        if faults := [*_misfits(draws), *_overlaps(draws)]:
            number = min(len(draw.task_ids) for draw in draws)
            yield (
                f"{run}: {owner} has {number:,} ids, too few for seed {params.seed}: {', '.join(faults)}; "
                f"give it at least {_enough(draws):,}, each of them once, or lower these keys"
            )


def require_ids(params: Params, run: str) -> None:
    """Check that the tasks of a run have enough ids, before anything is made of them.

    Raises:
        CastawayError: one has too few, or there is no such run.
    """
    if sentence := next(shortages(params, run), None):
        raise CastawayError(sentence)


def shared_blocks(params: Params, run: str) -> str | None:
    """A note if an evaluation plays ids of the next block too, which is that of the next seed; else None.

    It is no reason to refuse a run: each seed alone is evaluated on ids that its training has not seen.
    """
    for draw in draws_of(params, run):
        size = draw.left - replace(draw, place=draw.place + BLOCK_IDS).left
        if draw.shift and draw.count > size:
            return (
                f"{run}: {draw.key} plays {draw.count:,} ids, but this block of {draw.owner} has {size:,}, so that "
                f"seeds share held-out ids; with {enough(draw.count, BLOCK_IDS):,} ids they would not"
            )
    return None


def _misfits(draws: Sequence[Draw]) -> Iterator[str]:
    """The ranges that are longer than what is left of the ids."""
    for draw in draws:
        if draw.count > draw.left:
            yield f"{draw.key} asks for {draw.count:,} and finds {draw.left:,}"


def _overlaps(draws: Sequence[Draw]) -> Iterator[str]:
    """The ranges that have ids in common."""
    drawn = [(draw, draw.ids()) for draw in draws]
    for (one, mine), (other, theirs) in combinations(drawn, 2):
        if one.shift == other.shift and (both := len(mine & theirs)):
            yield f"{one.key} and {other.key} share {both:,}"


def _enough(draws: Sequence[Draw]) -> int:
    """How many ids are enough for each range to end before the next one begins, and before the end."""
    found = 0
    for draw in draws:
        later = [other.place for other in draws if other.shift == draw.shift and other.place > draw.place]
        found = max(found, enough(draw.count, min([*later, HELD_OUT_START]) - draw.place))
    return found
