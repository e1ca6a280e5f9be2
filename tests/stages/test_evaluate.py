"""The evaluation with a server, where there is none; and players without a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from castaway.config.params import Params
from castaway.envs.strictbot.environment import StrictbotRules
from castaway.rollout.policies import scripted
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import task_of
from castaway.tasks.reply import parse_reply
from stages import evaluate
from stages.context import Context
from tests.castaway.rl.small import student
from tests.shipped import PARAMS


def context_of(root: Path, params: Params) -> Context:
    """A context that records nothing."""
    scratch = root / "scratch"
    return Context(root=root, params=params, run="strictbot", base="answers", stage="evaluate", scratch=scratch)


def test_the_random_player_draws_what_the_rules_list_and_is_idle_where_they_list_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = task_of(PARAMS, "strictbot")
    environment = task.make()
    environment.reset(HELD_OUT_START, environment.seats[0])
    prompts = environment.prompts() * 20
    random = scripted(task, "random", seed=1, random_action_rate=0.0)
    drawn = {parse_reply(one.text).action for one in random(prompts)}
    assert len(drawn) > 1 and drawn <= set(environment.rules.legal_actions(prompts[0].observation))
    monkeypatch.setattr(StrictbotRules, "legal_actions", lambda *_: ())
    assert {parse_reply(one.text).action for one in random(prompts)} == {environment.idle}


def test_the_reward_model_is_loaded_when_the_server_has_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    @contextmanager
    def serving(context: Context, tokenizer: object, adapters: list[Path]) -> Iterator[str]:
        events.append(f"server of {len(adapters)} adapters")
        yield "http://127.0.0.1:1/v1"

    monkeypatch.setattr(evaluate, "_serving", serving)
    monkeypatch.setattr(evaluate, "_scorer", lambda *_: events.append("reward model"))
    monkeypatch.setattr(evaluate.ServedPolicy, "use", lambda *_: None)
    monkeypatch.setattr(evaluate.ChatTokenizer, "load", lambda _: student()[1])
    params = PARAMS.for_run("strictbot")
    best_of_4 = params.evaluate.model_copy(update={"best_of": 4})
    context = context_of(tmp_path, params.model_copy(update={"evaluate": best_of_4}))
    assert [name for together in evaluate._served(context) for name in together] == ["base", "sft", "ppo", "final"]
    assert events == ["server of 0 adapters", "server of 1 adapters", "reward model"]
