"""ppo: the SFT policy plays, is judged by the teacher, and learns from what it earned.

The reference policy is the SFT policy: its adapter is merged into the base, and PPO trains a fresh adapter on top that
can be switched off. A killed run goes on from its newest checkpoint.

    python -m flows ppo@marooned
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from tqdm import tqdm

from castaway.envs.registry import make_environment
from castaway.models.policy import load_model, load_tokenizer, new_adapter
from castaway.models.reward import RewardScorer
from castaway.models.training import seed_everything
from castaway.params import Params
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.checkpoint import load_newest, random_states, save_checkpoint, set_random_states
from castaway.rl.corrections import write_corrections
from castaway.rl.launch import together
from castaway.rl.ppo import PpoTrainer
from castaway.teacher.rules import RulesTeacher
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Train the policy by PPO."""
    names = ("seed", "threads", "device", "ppo", "teacher", context.task)
    sections = {name: getattr(context.params, name) for name in names}
    with together(context.params.ppo.processes, _follow, (context.root, context.task, context.scratch, sections)):
        trainer, history = _train(context)
    trainer.actor.save(context.output)
    write_corrections(context.output / "corrections.jsonl", trainer.corrections)
    return {
        "steps": trainer.step_number,
        "corrections": len(trainer.corrections),
        "trainable_parameters": sum(w.numel() for w in trainer.actor.policy.parameters() if w.requires_grad),
        **_last(history[-max(1, context.params.ppo.steps // 5) :]),
    }


def _follow(root: Path, task: str, scratch: Path, sections: dict[str, Any]) -> None:
    """What the other processes do: the same, and leave nothing."""
    params = Params.model_construct(**sections)
    _train(Context(root, params, task, "ppo", lambda step, values: None, scratch))


def _train(context: Context) -> tuple[PpoTrainer, list[dict[str, float]]]:
    """All steps, from the newest checkpoint on; the first process writes the checkpoints."""
    params = context.params.ppo
    trainer = _trainer(context)
    leads = trainer.ranks.rank == 0
    history: list[dict[str, float]] = []
    saved = trainer.ranks.first(load_newest(context.scratch) if leads else None)
    if saved:
        trainer.load_state(saved["trainer"])
        set_random_states(saved["random"][trainer.ranks.rank])
        history = saved["history"]
        for number, values in enumerate(history, start=1):
            context.log(number, values)
    with tqdm(total=params.steps, initial=trainer.step_number, desc="ppo", unit="step", disable=not leads) as bar:
        while trainer.step_number < params.steps:
            values = trainer.step()
            history.append(values)
            context.log(trainer.step_number, values)
            bar.set_postfix(success=f"{values.get('success_rate', 0):.2f}", invalid=f"{values['invalid_rate']:.2f}")
            bar.update()
            if trainer.step_number % params.checkpoint_interval == 0:
                state = {"trainer": trainer.state(), "random": trainer.ranks.gather(random_states())}
                if leads:
                    save_checkpoint(context.scratch, trainer.step_number, {**state, "history": history})
    return trainer, history


def _trainer(context: Context) -> PpoTrainer:
    """The SFT policy under a fresh adapter, with its teacher and its reward model."""
    seed_everything(context.params.seed, context.params.threads)
    base, sft = context.folder("base"), context.folder("sft")
    tokenizer = load_tokenizer(base)
    device = "cpu" if context.params.device == "cpu" else "cuda"
    return PpoTrainer(
        ActorCritic(new_adapter(load_model(base, [sft]), context.params.ppo.lora)).to(device),
        tokenizer,
        make=lambda: make_environment(context.params, context.task),
        teacher=RulesTeacher(make_environment(context.params, context.task).rules),
        scorer=RewardScorer.load(context.folder("reward_model"), base, [sft], tokenizer),
        params=context.params.ppo,
        seed=context.params.seed,
    )


def _last(history: list[dict[str, float]]) -> dict[str, float]:
    """Means over the last steps, of what was measured in them."""
    names = ("success_rate", "invalid_rate", "mean_return", "reference_kl")
    found = {name: [values[name] for values in history if name in values] for name in names}
    return {f"last_{name}": round(mean(values), 6) for name, values in found.items() if values}
