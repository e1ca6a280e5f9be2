"""The evaluation with a server, where there is none; and players without a model."""

from pathlib import Path
from typing import Any

import pytest

from castaway.config.params import Params
from castaway.datasets.jsonl import write_rows
from castaway.datasets.scripted import Demonstration
from castaway.envs.strictbot.teaching import StrictbotRules
from castaway.errors import CastawayError
from castaway.models.tiny import new_model
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import task_of
from castaway.tasks.reply import parse_reply
from stages.context import Context
from stages.evaluate import run, scripted
from tests.castaway.rl.small import shipped, small_base, student


def context_of(root: Path, params: Params) -> Context:
    """A context that records nothing."""

    def nothing(*_: Any) -> None:
        pass

    scratch = root / "scratch"
    return Context(root, params, "strictbot", "answers", "evaluate", nothing, scratch, nothing, nothing, "cpu")


def test_the_random_player_draws_what_the_rules_list_and_is_idle_where_they_list_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = shipped().for_run("strictbot")
    task = task_of(params, "strictbot")
    environment = task.make()
    environment.reset(HELD_OUT_START, environment.seats[0])
    prompts = environment.prompts() * 20
    random = scripted(context_of(tmp_path, params), task, "random")
    drawn = {parse_reply(one.text).action for one in random(prompts)}
    assert len(drawn) > 1 and drawn <= set(environment.rules.legal_actions(prompts[0].observation))
    monkeypatch.setattr(StrictbotRules, "legal_actions", lambda *_: ())
    assert {parse_reply(one.text).action for one in random(prompts)} == {environment.idle}


def test_without_vllm_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    params = shipped().for_run("strictbot")
    served = params.evaluate.model_copy(update={"sampler": "vllm", "best_of": 1})
    _, tokenizer = student()
    base, data = tmp_path / "data/answers/base", tmp_path / "data/strictbot/dataset"
    new_model(small_base(), tokenizer.tokenizer).save_pretrained(base)
    tokenizer.save(base)
    data.mkdir(parents=True)
    write_rows(data / "demonstrations.jsonl", [Demonstration(({"role": "user", "content": "which"},), "LEFT", "a")])
    context = context_of(tmp_path, params.model_copy(update={"evaluate": served}))
    with pytest.raises(CastawayError, match=r"^there is no vLLM in .*/\.venv-vllm; this host .* install") as caught:
        run(context)
    assert "\n" not in str(caught.value)
