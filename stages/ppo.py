"""ppo: trains the SFT policy by PPO on rollouts that the teacher judges and the reward model scores.

    python -m flows ppo@marooned

The reference policy is the SFT policy. Its adapter is merged into the base model, and PPO trains a new adapter on top;
switching that off gives the reference policy without a second model. A killed stage resumes from its newest checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Any

from torch import Generator
from tqdm import tqdm

from castaway.datasets.scripted import read_demonstrations
from castaway.errors import CastawayError
from castaway.models.policy import load_model, new_adapter
from castaway.models.reward import RewardScorer
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.checkpoint import load_newest, random_states, save_checkpoint, set_random_states
from castaway.rl.corrections import write_corrections
from castaway.rl.policies import Sampler
from castaway.rl.policy_server import serving_policy
from castaway.rl.ppo import PpoTrainer
from castaway.rl.ranks import Ranks, process_group
from castaway.rl.sampling import SamplingRules
from castaway.rl.served_sampler import ServedSampler
from castaway.rl.sharding import shard
from castaway.rl.tasks import TaskSource
from castaway.tasks.draws import place_of
from castaway.tasks.environment import ids_in_a_row
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task
from castaway.teacher.base import Teacher, TeacherOutage
from castaway.teacher.choice import chosen_teacher
from castaway.teacher.rules import Corrector
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Train the policy by PPO; writes adapter, corrections and the teacher's agreement, and returns the metrics.

    Several processes train alike, but only the first one reports, writes files and returns metrics.
    """
    with process_group():
        ranks = Ranks()
        if ranks.count > 1 and context.params.ppo.sampler == "vllm":
            raise CastawayError(f"{ranks.count} processes cannot share ppo.sampler: vllm; set nproc_per_node to 1")
        trainer, history = _train(context)
    if ranks.rank > 0:
        return {}
    trainer.actor.save(context.output)
    write_corrections(context.output / "corrections.jsonl", trainer.corrections)
    agreement = json.dumps(trainer.agreement.report(), indent=2, ensure_ascii=False)
    (context.output / "agreement.json").write_text(f"{agreement}\n", "utf-8")
    return {
        "steps": trainer.step_number,
        "corrections": len(trainer.corrections),
        "trainable_parameters": sum(w.numel() for w in trainer.actor.policy.parameters() if w.requires_grad),
        # The mean of the last fifth of the steps: a single step is too noisy.
        **_last(history[-max(1, context.params.ppo.steps // 5) :]),
        "played": trainer.source.table(),
    }


def _train(context: Context) -> tuple[PpoTrainer, list[dict[str, float]]]:
    """Train all steps, from the newest checkpoint on; returns the trainer and the metrics of every step."""
    task = task_of(context.params, context.run)
    _check_lengths(context)
    kind = context.params.ppo.correct
    corrector = None if kind == "invalid" else Corrector(task.expert, kind == "moves", task.shortfall)
    choice = chosen_teacher(
        context.params.teacher, task.rubric(), task.make().rules, context.verdicts, context.trace, corrector
    )
    with choice as teacher, _served(context) as served:
        trainer = _trainer(context, task, teacher, served)
        history = _resume(context, trainer)
        _steps(context, trainer, teacher, history)
        trainer.finish()
    return trainer, history


SHORT = 0.05
"""Share of the demonstrations whose reply may be longer than `ppo.max_new_tokens`."""


def _check_lengths(context: Context) -> None:
    """Compare the replies that were demonstrated with the length that PPO samples.

    Raises:
        CastawayError: too many of them are longer, so that the policy would be cut off where SFT taught it to go on.
    """
    tokenizer, limit = ChatTokenizer.load(context.folder("base")), context.params.ppo.max_new_tokens
    rows = read_demonstrations(context.folder("dataset") / "demonstrations.jsonl")
    lengths = [len(tokenizer.reply(row.reply)) for row in rows]
    cut = sum(length > limit for length in lengths) / len(lengths)
    if cut > SHORT:
        raise CastawayError(
            f"ppo@{context.run}: ppo.max_new_tokens is {limit}, and {cut:.0%} of the demonstrated replies are longer; "
            f"set it to {max(lengths)}, the longest of them"
        )


@contextmanager
def _served(context: Context) -> Iterator[Callable[[ActorCritic, Generator], Sampler] | None]:
    """Context in which vLLM serves the SFT policy, if `ppo.sampler` asks for a server.

    Yields:
        A function that makes the sampler from the actor and a generator; None to sample in this process.
    """
    params = context.params.ppo
    if params.sampler == "here":
        yield None
        return
    base, folder = context.folder("base"), context.scratch / "sampler"
    tokenizer = ChatTokenizer.load(base)
    rules = SamplingRules.of(
        tokenizer,
        temperature=params.temperature,
        max_new_tokens=params.max_new_tokens,
        tokens_per_pass=params.sampling_tokens_per_pass,
    )
    with serving_policy(
        base,
        [context.folder("sft")],
        context.dtype,
        folder,
        context.folder("dataset") / "demonstrations.jsonl",
        max_new_tokens=params.max_new_tokens,
        rank=params.lora.rank,
        gibibytes=params.sampler_gibibytes,
        environment=context.vllm,
    ) as url:
        yield lambda actor, generator: ServedSampler(url, folder, tokenizer, rules, actor)


def _trainer(
    context: Context, task: Task[Any], teacher: Teacher, served: Callable[[ActorCritic, Generator], Sampler] | None
) -> PpoTrainer:
    """The trainer of the SFT policy with a new adapter, with its teacher and its reward model."""
    seed_everything(context.params.seed, context.params.threads)
    base, sft = context.folder("base"), context.folder("sft")
    tokenizer, params = ChatTokenizer.load(base), context.params.ppo
    policy = new_adapter(load_model(base, [sft], context.dtype), params.lora)
    if context.gradient_checkpointing:
        policy.get_base_model().activation_checkpointing_enable({"use_reentrant": False})
    actor = ActorCritic(policy)
    # The reward model began as the same SFT policy: it is a second adapter on the same trunk.
    scorer = RewardScorer.beside(policy, context.folder("reward_model"), tokenizer, params.tokens_per_pass)
    pace = shard(actor.causal, context.torch_device) if context.sharded else None
    trainer = PpoTrainer(
        actor.to(context.torch_device),
        tokenizer,
        make=task.make,
        teacher=teacher,
        scorer=scorer,
        params=params,
        seed=context.params.seed,
        source=_source(context, task),
        served=served,
        curves=task.curves,
        validation=[(task_id, task.evaluation_seats[0]) for task_id in _validation_ids(context, task)],
    )
    if pace:
        trainer.ranks.keep(pace)
    return trainer


def _validation_ids(context: Context, task: Task[Any]) -> list[int]:
    """The ids on which the policy is watched; each seed has its own."""
    place = place_of("validation", context.params.seed)
    return ids_in_a_row(task.training_ids(), place, context.params.ppo.validation.episodes)


def _source(context: Context, task: Task[Any]) -> TaskSource:
    """The source of task ids: the task's curriculum, and failed episodes that are replayed."""
    params, stages = context.params.ppo, task.curriculum(context.params.ppo.episodes_per_step)
    return TaskSource(
        stages, params.replay, context.params.seed, task.evaluation_seats[0], task.kind_of, params.curriculum
    )


def _resume(context: Context, trainer: PpoTrainer) -> list[dict[str, float]]:
    """Load the newest checkpoint, if there is one; returns the metrics of the steps before it."""
    saved = trainer.ranks.first(load_newest(context.scratch) if trainer.ranks.rank == 0 else None)
    if not saved:
        return []
    trainer.load_state(saved["trainer"])
    set_random_states(saved["random"][trainer.ranks.rank])
    # A resumed stage has a new MLflow run; logging the earlier steps again makes its curves complete.
    history: list[dict[str, float]] = saved["history"]
    for number, values in enumerate(history, start=1):
        context.log(number, values)
    return history


def _steps(context: Context, trainer: PpoTrainer, teacher: Teacher, history: list[dict[str, float]]) -> None:
    """Train the remaining steps; the first process writes the checkpoints.

    Raises:
        TeacherOutage: the served teacher did not answer; a checkpoint from before the step is written first.
    """
    params, leads = context.params.ppo, trainer.ranks.rank == 0
    # Only a served teacher can fail to answer; for the rules, the copy of the state before each step is not needed.
    may_pause = context.params.teacher.kind != "rules"
    with tqdm(total=params.steps, initial=trainer.step_number, desc="ppo", unit="step", disable=not leads) as bar:
        while trainer.step_number < params.steps:
            before = _state(trainer, history) if may_pause else {}
            try:
                values = trainer.step()
            except TeacherOutage:
                if leads:
                    save_checkpoint(context.scratch, trainer.step_number, before)
                raise
            history.append(values)
            context.log(trainer.step_number, values)
            context.observe(trainer.step_number, {f"teacher/{name}": n for name, n in teacher.counts.items()})
            bar.set_postfix(success=f"{values.get('success_rate', 0):.2f}", invalid=f"{values['invalid_rate']:.2f}")
            bar.update()
            if trainer.step_number % params.checkpoint_interval == 0:
                state = _state(trainer, history)
                if leads:
                    save_checkpoint(context.scratch, trainer.step_number, state)


def _state(trainer: PpoTrainer, history: list[dict[str, float]]) -> dict[str, Any]:
    """The state that training resumes from. Every process must call this, since the random states are gathered."""
    return {
        "trainer": trainer.state(),
        "random": trainer.ranks.gather(random_states()),
        "history": list(history),
    }


def _last(history: list[dict[str, float]]) -> dict[str, float]:
    """Means of the main metrics over the given steps; a metric that none of them has is left out."""
    names = ("success_rate", "validation_success_rate", "invalid_rate", "mean_return", "reference_kl")
    found = {name: [values[name] for values in history if name in values] for name in names}
    return {f"last_{name}": round(mean(values), 6) for name, values in found.items() if values}
