"""PPO on a frozen game of one step: what is rewarded becomes likelier, and a resumed run goes on as if unbroken."""

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from castaway.config.ppo import PpoParams, ValidationParams
from castaway.datasets.jsonl import as_reply
from castaway.models.tokens import ChatTokenizer
from castaway.rl.advantages import ESTIMATORS
from castaway.rl.checkpoint import load_newest, save_checkpoint
from castaway.rl.corrections import confirms
from castaway.rl.ppo import PpoTrainer
from castaway.rl.rewards import NotFiniteError
from castaway.rollout.actor_critic import ActorCritic, TurnBatch
from castaway.rollout.play import ActiveEpisode, Generation
from castaway.tasks.environment import Outcome
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import Attempt, Verdict
from castaway.teacher.rules import Corrector, RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads, NoScorer, ppo_params, source_of, student

LEFT, RIGHT, WRONG = "REASONING: a\nACTION: LEFT", "REASONING: a\nACTION: RIGHT", "REASONING: a\nACTION: "
Taught = tuple[ActorCritic, ChatTokenizer]
ASKED = [{"role": "user", "content": "which way after 0"}]


class Fork(Crossroads):
    """One step: RIGHT is paid."""

    agents = ("walker",)

    def __init__(self) -> None:
        super().__init__(length=1)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        return {"walker": super().step(actions)["walker"]}


def batch_of(tokenizer: ChatTokenizer, replies: list[str]) -> TurnBatch:
    prompt = tokenizer.prompt(ASKED)
    return TurnBatch.of([(prompt, tokenizer.reply(reply)) for reply in replies], hidden_size=32)


@pytest.fixture(scope="module")
def taught() -> Taught:
    """A student that says LEFT or RIGHT, one as often as the other, and now and then neither."""
    actor, tokenizer = student()
    batch = batch_of(tokenizer, [LEFT, RIGHT, LEFT, RIGHT, WRONG])
    frozen = {weight for weight in actor.policy.parameters() if weight.requires_grad}
    base = [weight for weight in actor.policy.parameters() if weight not in frozen]
    for weight in base:
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(base, lr=1e-2)
    for _ in range(80):
        loss = -actor.score(batch, 1.0).logprobs.sum() / len(batch.mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for weight in base:
        weight.requires_grad_(False)
    return actor, tokenizer


def trainer(
    taught: Taught,
    seed: int = 1,
    make: Callable[[], Crossroads] = Fork,
    curves: tuple[str, ...] = (),
    watched: Sequence[tuple[int, str]] = (),
    corrector: Corrector | None = None,
    **changes: Any,
) -> PpoTrainer:
    actor, tokenizer = taught
    params: PpoParams = ppo_params(
        **{
            "episodes_per_step": 16, "epochs": 2, "minibatch_turns": 16, "learning_rate": 2e-3,
            "value_learning_rate": 2e-3, "max_gradient_norm": 1.0, "clip_range": 0.2, "value_clip_range": 0.5,
            "value_coefficient": 0.1, "entropy_coefficient": 0.0, "gamma_turn": 1.0,
            "lambda_turn": 1.0, "gamma_token": 1.0, "lambda_token": 1.0, "reward_scale": 1.0, "penalty_weight": 1.0,
            "reward_model_weight": 0.1, "temperature": 1.0, "max_new_tokens": 24, "sft_interval": 1000,
            "steps": 100,
            **changes,
            "kl": {"coefficient": 0.0, **changes.get("kl", {})},
        }
    )  # fmt: skip
    teacher, source = RulesTeacher(AnyText(), corrector), source_of(seed)
    return PpoTrainer(
        copy.deepcopy(actor), tokenizer, make, teacher, NoScorer(), params, seed, source, None, curves, watched
    )


def chances(ppo: PpoTrainer, tokenizer: ChatTokenizer) -> list[float]:
    """The likelihood of LEFT, RIGHT and WRONG."""
    with torch.no_grad():
        logprobs = ppo.actor.score(batch_of(tokenizer, [LEFT, RIGHT, WRONG]), 1.0).logprobs
    return [float(value) for value in logprobs.sum(1).exp()]


@pytest.mark.parametrize(
    "changes",
    [
        *({"estimator": estimator, "group_size": 4} for estimator in ESTIMATORS),
        {"importance_level": "sequence", "clip_range": 0.1, "clip_range_high": 0.2},
    ],
)
def test_what_is_rewarded_becomes_likelier(taught: Taught, changes: dict[str, Any]) -> None:
    ppo = trainer(taught, **changes)
    before = chances(ppo, taught[1])
    assert before[0] > 0.2 and before[1] > 0.2
    history = [ppo.step() for _ in range(8)]
    after = chances(ppo, taught[1])
    assert after[1] > before[1] + 0.2 and after[0] < before[0]
    assert after[2] < before[2]
    assert history[-1]["mean_return"] > history[0]["mean_return"]
    assert all(torch.tensor(list(values.values())).isfinite().all() for values in history)


def test_details_of_outcomes_are_curves(taught: Taught) -> None:
    class Counted(Fork):
        def outcome(self) -> Outcome:
            return Outcome(True, "", {"right": float(self.walked[-1] == "RIGHT"), "other": 1.0})

    metrics = trainer(taught, make=Counted, curves=("right",)).step()
    assert metrics["right"] == metrics["mean_return"] and "other" not in metrics


def test_groups_are_one_episode_played_again(taught: Taught) -> None:
    ids = [episode.task_id for episode in trainer(taught, group_size=4).rollouts.play().finished]
    assert len(ids) == 16 and ids == [task_id for task_id in ids[::4] for _ in range(4)] and len(set(ids)) == 4


def test_the_kl_coefficient_adapts(taught: Taught) -> None:
    ppo = trainer(taught, kl={"coefficient": 1.0, "adaptive_kl": 0.5})
    # The first KL is zero: far below the target, the coefficient falls by two per cent.
    assert [ppo.step()["kl_coefficient"], ppo.step()["kl_coefficient"]] == [1.0, pytest.approx(0.98)]


@pytest.mark.parametrize("kl", [{}, {"penalty_in": "loss", "estimator": "k3"}])
def test_a_strong_kl_penalty_holds_the_policy_back(taught: Taught, kl: dict[str, str]) -> None:
    free, held = trainer(taught, kl=kl), trainer(taught, kl={**kl, "coefficient": 3.0})
    for _ in range(6):
        free_kl, held_kl = free.step()["reference_kl"], held.step()["reference_kl"]
    assert held_kl < free_kl


def test_what_an_expert_plays_is_learned_without_any_reward(taught: Taught) -> None:
    expert = Corrector(lambda prompt: Reply("a", "RIGHT"), every_move=True)
    settings = {"sft_interval": 1, "sft_minimum": 1, "sft_learning_rate": 1e-3, "kept": 20}
    ppo = trainer(taught, corrector=expert, learning_rate=1e-12, **settings)
    before = chances(ppo, taught[1])
    history = [ppo.step() for _ in range(8)]
    after = chances(ppo, taught[1])
    assert after[1] > before[1] + 0.1 and after[0] < before[0]
    assert history[-1]["corrections"] < history[0]["corrections"]  # confirmed moves are none
    assert len(ppo.learner.corrections) == 20 and any(map(confirms, ppo.learner.corrections))


@pytest.mark.parametrize(
    "changes",
    [
        {"async_rollout": True, "rollout_groups": 2, "minibatch_turns": 3, "epochs": 2},
        {"kl": {"penalty_in": "loss", "estimator": "k3", "adaptive_kl": 0.01, "coefficient": 0.1},
         "critic_warmup": 3, "importance_cap": 2.0, "normalise_by": "batch", "value_clip_range": None,
         "importance_level": "sequence", "clip_range": 0.1, "clip_range_high": 0.2},
    ],
)  # fmt: skip
def test_a_run_resumed_from_disk_goes_on_as_if_unbroken_with_what_the_combinations_leave_out(
    taught: Taught, changes: dict[str, Any], tmp_path: Path
) -> None:
    settings = {"sft_interval": 3, "sft_minimum": 1, "episodes_per_step": 4, "make": Crossroads, **changes}
    unbroken = trainer(taught, **settings)
    for _ in range(2):
        unbroken.step()
    save_checkpoint(tmp_path, 2, unbroken.state())
    resumed = trainer(taught, seed=99, **settings)
    resumed.load_state(load_newest(tmp_path) or {})
    assert [unbroken.step() for _ in range(2)] == [resumed.step() for _ in range(2)]
    assert unbroken.step_number == resumed.step_number == 4
    assert unbroken.learner.corrections == resumed.learner.corrections
    pairs = zip(unbroken.actor.parameters(), resumed.actor.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def begun(ppo: PpoTrainer) -> int:
    """Episodes that were drawn so far, by a source without replays."""
    source = ppo.rollouts.source
    return sum(tally.played for tally in source.tallies.values()) + len(source._playing)


def test_as_many_episodes_are_played_ahead_and_none_for_nobody(taught: Taught) -> None:
    settings = {"steps": 3, "episodes_per_step": 4, "make": Crossroads, "epochs": 2, "minibatch_turns": 4}
    plain, ahead = (trainer(taught, **settings, async_rollout=ahead) for ahead in (False, True))
    first = [plain.step()["turns"], ahead.step()["turns"]]
    assert first[0] == first[1] and (begun(plain), begun(ahead)) == (4, 8)
    for _ in range(2):
        ahead.step()
    # Nothing is played that nobody would learn from.
    assert begun(ahead) == 12 and ahead.rollouts._ready is None


def test_a_twin_shares_what_is_frozen_and_follows_what_is_trained(taught: Taught) -> None:
    ppo = trainer(taught, async_rollout=True, make=Crossroads)
    names = dict(ppo.actor.named_parameters())
    twins = dict(ppo.rollouts.sampler._actor.named_parameters())
    assert names.keys() == twins.keys()
    assert all((twins[name] is weight) == (not weight.requires_grad) for name, weight in names.items())
    ppo.step()
    trained = [name for name, weight in names.items() if weight.requires_grad]
    assert any(not torch.equal(names[name], twins[name]) for name in trained)
    ppo.rollouts.sampler.refresh()
    assert all(torch.equal(names[name], twins[name]) for name in trained)


def test_the_same_is_played_ahead_whoever_is_faster(taught: Taught) -> None:
    settings = {"episodes_per_step": 4, "make": Crossroads, "async_rollout": True, "rollout_groups": 2}
    settings["minibatch_turns"] = 4
    prompt, slow = trainer(taught, **settings), trainer(taught, **settings)
    judge = slow.rollouts.teacher.judge

    def hesitate(attempts: Sequence[Attempt]) -> list[Verdict]:
        Event().wait(0.02)
        return judge(attempts)

    slow.rollouts.teacher.judge = hesitate  # type: ignore[method-assign]
    assert [prompt.step() for _ in range(3)] == [slow.step() for _ in range(3)]


def test_a_minibatch_in_several_passes_makes_the_update_of_one(taught: Taught) -> None:
    settings = {"episodes_per_step": 8, "make": Crossroads, "sft_interval": 1, "sft_minimum": 1}
    whole, parts = (trainer(taught, **settings, tokens_per_pass=tokens) for tokens in (65536, 40))
    # The rollout of the first step is the same: what is drawn does not depend on how the update is made.
    parts.rollouts.sampler._rules = whole.rollouts.sampler._rules  # type: ignore[attr-defined]
    one, other = whole.step(), parts.step()
    assert one.keys() == other.keys()
    assert [one[name] for name in one] == pytest.approx([other[name] for name in one], rel=1e-4, abs=1e-6)
    pairs = zip(whole.actor.parameters(), parts.actor.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)


def test_a_checkpoint_of_other_weights_is_refused(taught: Taught) -> None:
    ppo = trainer(taught)
    state = ppo.state()
    state["trained"].popitem()
    with pytest.raises(ValueError, match="other weights"):
        ppo.load_state(state)


def test_a_saved_state_does_not_change_with_the_run(taught: Taught) -> None:
    ppo = trainer(taught)
    ppo.step()
    state = ppo.state()
    before = pickle.dumps(state)
    ppo.step()
    assert pickle.dumps(state) == before


def test_a_reward_that_is_no_number_stops_before_anything_is_learned(taught: Taught) -> None:
    class Broken(Crossroads):
        def step(self, actions: Mapping[str, str]) -> dict[str, float]:
            paid = super().step(actions)
            return {**paid, "walker": float("nan")} if len(self.walked) == 2 else paid

    ppo = trainer(taught, make=Broken, episodes_per_step=4)
    before = ppo.state()["trained"]
    where = r"^step 1: the environment's reward is not finite, first in turn 2 of walker in episode \d+; the checkpoint"
    with pytest.raises(NotFiniteError, match=where):
        ppo.step()
    assert all(torch.equal(weight, before[name]) for name, weight in ppo.trained().items())


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"learning_rate": 1e38}, r"step 1, minibatch 2: .* first in turn 1 of walker in episode \d+;"),
        ({"corrections": {"sft_interval": 1, "sft_minimum": 1, "sft_learning_rate": 1e38}, "minibatch_turns": 4,
          "episodes_per_step": 64}, r"step 1, minibatch 2 of corrections: .* first in correction 5;"),
    ],
)  # fmt: skip
def test_a_loss_that_is_no_number_stops_with_step_batch_and_turn(
    taught: Taught, changes: dict[str, Any], where: str
) -> None:
    ppo = trainer(taught, **changes)
    with pytest.raises(NotFiniteError, match=where) as caught:
        ppo.step()
    assert "\n" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "other processes raise the same"


def test_an_sft_pass_goes_on_with_the_optimiser_of_the_one_before(taught: Taught) -> None:
    """A new AdamW divides its first gradient by itself, so that every weight moves by the learning rate."""
    ppo = trainer(taught, sft_learning_rate=1e-3)
    imitation, rows = ppo.learner._imitation, [{"prompt": ASKED, "completion": as_reply(RIGHT), "kept": ""}]
    imitation.update(rows, 0)
    before = [weight.detach().clone() for weight in ppo.trained().values()]
    imitation._params = imitation._params.model_copy(update={"max_gradient_norm": 1e-3})
    imitation.update(rows, 1)
    moved = max((w - b).abs().max().item() for w, b in zip(ppo.trained().values(), before, strict=True))
    assert 0 < moved < 0.9e-3


def test_what_is_drawn_shuffled_and_validated_has_seeds_apart(taught: Taught) -> None:
    numbers = [tuple(torch.rand(4, generator=generator).tolist()) for generator in trainer(taught).generators]
    assert len(set(numbers)) == 3


def test_while_the_critic_warms_up_the_policy_stands_still(taught: Taught) -> None:
    ppo = trainer(taught, critic_warmup=1)
    before = {name: weight.detach().clone() for name, weight in ppo.actor.named_parameters()}
    ppo.step()
    moved = {name for name, weight in ppo.actor.named_parameters() if not torch.equal(weight, before[name])}
    assert moved == {f"value_head.{name}" for name, _ in ppo.actor.value_head.named_parameters()}
    ppo.step()
    moved = {name for name, weight in ppo.actor.named_parameters() if not torch.equal(weight, before[name])}
    assert any("lora" in name for name in moved)
    assert moved <= ppo.trained().keys(), "the base model stays, and with it the reference"


def test_the_step_that_would_go_too_far_is_not_made(taught: Taught) -> None:
    # The first step starts from no distance. The second sees how far that one went, and is not made.
    once, broken = trainer(taught, learning_rate=0.05, epochs=1), trainer(taught, learning_rate=0.05, target_kl=1e-6)
    assert once.step()["minibatches"] == broken.step()["minibatches"] == 1
    assert chances(once, taught[1]) == pytest.approx(chances(broken, taught[1]))


def test_success_with_the_teachers_help_is_none_of_the_students(taught: Taught) -> None:
    class Won(Fork):
        def outcome(self) -> Outcome:
            return Outcome(True, "")

    ppo = trainer(taught, make=Won, episodes_per_step=64)
    batch = ppo.rollouts.play()
    ppo.rollouts.report(batch.finished)
    helped = [any(not turn.valid for t in episode.trajectories for turn in t.turns) for episode in batch.finished]
    assert any(helped) and not all(helped)
    assert ppo.rollouts.source.table()[""]["crew"]["success_rate"] == pytest.approx(1 - sum(helped) / 64)


@pytest.mark.parametrize(
    ("turns", "replaced", "alone"), [(1, 0, True), (1, 1, False), (19, 1, False), (100, 5, True), (100, 6, False)]
)
def test_a_long_episode_is_the_students_own_in_spite_of_a_slip(turns: int, replaced: int, alone: bool) -> None:
    """As replay and curriculum need it: of 100 turns with 2 % of slips, one in eight would have none."""
    episode = ActiveEpisode(Crossroads(turns), 0, "crew")
    episode.environment.reset(0, "crew")
    for number in range(turns):
        prompts = episode.environment.prompts()[:1]
        attempts = [Attempt.of(prompt, LEFT) for prompt in prompts]
        verdict = Verdict(number >= replaced, "LEFT", 0.0, "", "", "rules")
        episode.play(attempts, [Generation(LEFT)] * len(attempts), [verdict] * len(attempts))
    assert episode.finished().unaided_success is alone


def test_validation_is_a_curve_of_its_own_and_the_best_weights_can_be_kept(taught: Taught) -> None:
    class Right(Fork):
        def outcome(self) -> Outcome:
            return Outcome(self.walked[-1] == "RIGHT", "")

    interval = ValidationParams(interval=2, episodes=20, temperature=1.0)
    watched = [(number, "crew") for number in range(20)]
    changes = {"validation": interval, "steps": 7, "learning_rate": 5e-3}
    ppo = trainer(taught, make=Right, watched=watched, select="best", **changes)
    history = [ppo.step() for _ in range(7)]
    rates = [values.get("validation_success_rate") for values in history]
    assert [rate is not None for rate in rates] == [False, True, False, True, False, True, True]
    unwatched = trainer(taught, make=Right, **changes)
    others = [unwatched.step() for _ in range(7)]
    assert [one["mean_return"] for one in history] == [one["mean_return"] for one in others], "training goes on alike"

    state = ppo.state()
    worse = {**state, "validation": {**state["validation"], "rate": -1.0}}
    assert state["validation"]["rate"] == max(rate for rate in rates if rate is not None)
    first = {name: torch.zeros_like(weight) for name, weight in state["trained"].items()}
    worse["validation"]["weights"] = first
    ppo.load_state(worse)
    ppo.finish()
    assert all(weight.abs().max() == 0 for weight in ppo.trained().values())
    last = trainer(taught, make=Right, watched=watched, select="last", **changes)
    last.load_state(worse)
    last.finish()
    assert all(torch.equal(weight, state["trained"][name]) for name, weight in last.trained().items())
