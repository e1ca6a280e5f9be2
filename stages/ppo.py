"""ppo: trains the SFT policy by PPO on rollouts that the teacher judges and the reward model scores.

    python -m flows ppo@marooned

The reference policy is the SFT policy. Its adapter is merged into the base model, and PPO trains a new adapter on top;
switching that off gives the reference policy without a second model. A killed stage resumes from its newest checkpoint.

Several processes train alike, but only the first one reports, writes files and returns metrics.
"""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from castaway.config.errors import CastawayError
from castaway.config.ppo import PpoParams
from castaway.datasets.jsonl import CORRECTIONS, DEMONSTRATIONS, read_rows, reply_text, write_rows
from castaway.models.policy import load_model, new_adapter
from castaway.models.reward import RewardScorer
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rl.checkpoint import load_newest, save_checkpoint
from castaway.rl.episode_source import EpisodeSource, stage_changes
from castaway.rl.ppo import PpoTrainer
from castaway.rl.ranks import Ranks, process_group
from castaway.rl.sharding import shard
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import SamplingRules
from castaway.rollout.served_policy import ServedSampler, serving_policy
from castaway.rollout.trial import check_sampler
from castaway.tasks.draws import place_of
from castaway.tasks.environment import ids_in_a_row
from castaway.tasks.registry import task_of
from castaway.tasks.reply import Reply, parse_reply
from castaway.tasks.verdict import WITHOUT_ACTION, Teacher
from castaway.teacher.rules import Corrector
from castaway.teacher.served import chosen_teacher

if TYPE_CHECKING:
    from datasets import Dataset

    from stages.context import Context

HEADLINE = {"ppo": "last_validation_success_rate", "invalid": "last_invalid_rate"}
"""Short name to figure, for `dvc metrics`: success without help on validation ids, invalid replies in training."""

SUMMED_UP = ("success_rate", "validation_success_rate", "invalid_rate", "mean_return", "reference_kl")
"""The main metrics of a step, whose means over the last steps are metrics of the stage."""

SHORT = 0.05
"""Share of the demonstrations whose reply may be longer than `ppo.rollout.max_new_tokens`."""


def run(context: Context) -> dict[str, Any]:
    """Train the policy by PPO; writes adapter, corrections and the teacher's agreement, and returns the metrics."""
    params, seed = context.params.ppo, context.params.seed
    base, dataset, sft, reward_model = map(context.folder, ("base", "dataset", "sft", "reward_model"))
    tokenizer, demonstrations = ChatTokenizer.load(base), read_rows(dataset / "demonstrations.jsonl", DEMONSTRATIONS)
    if fault := _too_long(tokenizer, demonstrations, params):
        raise CastawayError(f"ppo@{context.run}: {fault}")
    scope, task = params.corrections.scope, task_of(context.params, context.run)
    corrector = None if scope == "invalid" else Corrector(task.expert, scope == "moves", task.shortfall)

    with process_group():
        ranks = Ranks()
        if ranks.count > ranks.local and params.rollout.sampler == "vllm":
            raise CastawayError("ppo.rollout.sampler is vllm, whose server only its own host reaches; set nnodes to 1")
        with (
            chosen_teacher(
                context.params.teacher, task.rubric(), task.make().rules, context.verdicts, context.trace, corrector
            ) as teacher,
            ExitStack() as servers,
        ):
            url = ranks.first(lambda: servers.enter_context(_server(context, base, sft, tokenizer, demonstrations)))
            seed_everything(seed, context.params.threads)
            policy = new_adapter(load_model(base, [sft], context.dtype), params.lora)
            if context.gradient_checkpointing:
                policy.get_base_model().activation_checkpointing_enable({"use_reentrant": False})
            actor = ActorCritic(policy)
            # The reward model began as the same SFT policy: it is a second adapter on the same trunk.
            scorer = RewardScorer.sharing(policy, reward_model, tokenizer, params.tokens_per_pass)
            rules, handed = SamplingRules.of(tokenizer, params.rollout), context.scratch / "sampler"
            if context.sharded:
                ranks.keep(shard(actor.causal, context.torch_device))
            seat, stages = task.evaluation_seats[0], task.curriculum(params.rollout.episodes_per_step)
            watched = ids_in_a_row(task.training_ids(), place_of("validation", seed), params.validation.episodes)
            trainer = PpoTrainer(
                actor.to(context.torch_device),
                tokenizer,
                task.make,
                teacher,
                scorer,
                params,
                seed,
                source=EpisodeSource(stages, params.replay, seed, seat, task.kind_of, params.curriculum),
                sampler=ServedSampler(url, handed, tokenizer, rules, actor, ranks.first) if url else None,
                curves=task.curves,
                validation=[(task_id, seat) for task_id in watched],
                ranks=ranks,
            )
            if not url and not context.sharded:
                check_sampler(actor, tokenizer, f"ppo@{context.run}: the base model {context.base}")
            _train(context, trainer, teacher)
    return _results(context, trainer) if ranks.rank == 0 else {}


def _too_long(tokenizer: ChatTokenizer, demonstrations: Dataset, params: PpoParams) -> str:
    """What is wrong with the length that PPO samples: the policy would be cut off where SFT taught it to go on.

    Or no critique could be learned: the shortest reply is to have room for the one that every teacher gives.
    """
    limit = params.rollout.max_new_tokens
    lengths = [len(tokenizer.reply(reply_text(completion))) for completion in demonstrations["completion"]]
    cut = sum(length > limit for length in lengths) / len(lengths)
    if cut <= SHORT:
        actions = {parse_reply(reply_text(completion)).action for completion in demonstrations["completion"]}
        least = min(len(tokenizer.reply(str(Reply(WITHOUT_ACTION, action)))) for action in actions)
        if not params.corrections.critique or least <= limit:
            return ""
        return f"ppo.rollout.max_new_tokens is {limit}, too few for a critique and an action; set it to {2 * least}"
    return (
        f"ppo.rollout.max_new_tokens is {limit}, and {cut:.0%} of the demonstrated replies are longer; "
        f"set it to {max(lengths)}, the longest of them"
    )


def _server(
    context: Context, base: Path, sft: Path, tokenizer: ChatTokenizer, demonstrations: Dataset
) -> AbstractContextManager[str]:
    """A vLLM server with the SFT policy, whose URL it yields; an empty text where replies are drawn in this process."""
    rollout, lora = context.params.ppo.rollout, context.params.ppo.lora
    if rollout.sampler == "in_process":
        return nullcontext("")
    folder, gibibytes = context.scratch / "sampler", rollout.sampler_gibibytes
    longest = tokenizer.longest(demonstrations["prompt"])
    return serving_policy(
        base, [sft], context.dtype, folder, longest, rollout, lora, gibibytes, context.vllm, context.vllm_size
    )


def _train(context: Context, trainer: PpoTrainer, teacher: Teacher) -> None:
    """Train the steps that are left after the newest checkpoint; the first process writes the checkpoints.

    Raises:
        CastawayError: the teacher or the sampler failed, or a number was not finite. Whatever ends a step, a checkpoint
            from before it is written first.
    """
    params, leads = context.params.ppo, trainer.ranks.rank == 0
    saved = trainer.ranks.first(lambda: load_newest(context.scratch))
    if saved:
        trainer.load_state(saved)
    elif leads and params.keep_checkpoints:
        shutil.rmtree(context.checkpoints, ignore_errors=True)  # of a run with other settings
    # A resumed stage has a new MLflow run; logging the earlier steps again makes its curves complete.
    for number, values in enumerate(trainer.history, start=1):
        context.log(number, values)
    _tell_changes(context, trainer, resumed=True)
    state = trainer.state()
    try:
        with tqdm(total=params.steps, initial=trainer.step_number, desc="ppo", unit="step", disable=not leads) as bar:
            while trainer.step_number < params.steps:
                values = trainer.step()
                context.log(trainer.step_number, values)
                context.observe(trainer.step_number, {f"teacher/{name}": n for name, n in teacher.counts.items()})
                bar.set_postfix(success=f"{values.get('success_rate', 0):.2f}", invalid=f"{values['invalid_rate']:.2f}")
                bar.update()
                _tell_changes(context, trainer)
                state = trainer.state()
                if leads and trainer.step_number % params.checkpoint_interval == 0:
                    save_checkpoint(context.scratch, trainer.step_number, state)
                    if params.keep_checkpoints:
                        trainer.actor.save(context.checkpoints / f"step-{trainer.step_number:06d}")
    except Exception:
        if leads:
            save_checkpoint(context.scratch, state["step_number"], state)
        raise
    trainer.finish()


def _tell_changes(context: Context, trainer: PpoTrainer, resumed: bool = False) -> None:
    """Say in the log where the last step has moved the curriculum, and in a tag of the run all of its moves."""
    changes = stage_changes(trainer.history)
    if not changes or trainer.ranks.rank > 0 or not (resumed or changes[-1][0] == trainer.step_number):
        return
    stages, (step, stage) = trainer.rollouts.source.curriculum.stages, changes[-1]
    if not resumed:
        tqdm.write(
            f"ppo: step {step} enters stage {stage} of {len(stages)} of the curriculum: {stages[stage - 1].name}"
        )
    moves = [f"{stages[entered - 1].name} in step {at}" for at, entered in changes]
    context.tag("curriculum", ", ".join([stages[0].name, *moves]))


def _results(context: Context, trainer: PpoTrainer) -> dict[str, Any]:
    """Write what the stage hands on; returns its metrics."""
    trainer.actor.save(context.output)
    corrections = trainer.learner.corrections
    write_rows(context.output / "corrections.jsonl", corrections, CORRECTIONS)
    agreement = json.dumps(trainer.learner.agreement.report(), indent=2, ensure_ascii=False)
    (context.output / "agreement.json").write_text(f"{agreement}\n", "utf-8")
    # The mean of the last fifth of the steps: a single step is too noisy. A metric that none of them has is left out.
    late = trainer.history[-max(1, context.params.ppo.steps // 5) :]
    by_name = {name: [values[name] for values in late if name in values] for name in SUMMED_UP}
    return {
        "steps": trainer.step_number,
        "corrections": len(corrections),
        "trainable_parameters": sum(
            weight.numel() for weight in trainer.actor.policy.parameters() if weight.requires_grad
        ),
        **{f"last_{name}": round(mean(values), 6) for name, values in by_name.items() if values},
        "played": trainer.rollouts.source.table(),
    }
