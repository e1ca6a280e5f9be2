"""Tasks for TRL's trainer: played by hand, and by its GRPOTrainer with a small model that calls the tool."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.errors import CastawayError
from castaway.integrations.trl import OVER, GameEnvironment, training_rows
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task
from tests.shipped import PARAMS

CALL = '<tool_call>\n{"name": "act", "arguments": {"action": "ANSWER"}}\n</tool_call><|im_end|>'


@pytest.fixture(scope="module")
def games() -> Task[Any]:
    return task_of(PARAMS, "openspiel")


def test_an_episode_is_paid_as_it_is_without_trl(games: Task[Any]) -> None:
    environment, played = games.make(), GameEnvironment(games)
    for row in training_rows(games, 20):
        environment.reset(row["task_id"], "random")
        (prompt,) = environment.prompts()
        assert prompt.messages[-1]["content"] in played.reset(**row)
        total = 0.0
        while not environment.done:
            (prompt,) = environment.prompts()
            action = games.expert(prompt).action
            total += environment.step({"player": action})["player"]
            said = played.act(action)
        assert said == played.act("1") == OVER
        assert played.get_reward() == total


def test_an_illegal_action_is_told_and_counts_as_idle(games: Task[Any]) -> None:
    environment, played = games.make(), GameEnvironment(games)
    environment.reset(3, "random")
    played.reset(task_id=3)
    environment.step({})
    refusal, shown = played.act("castle").split("\n\n", 1)
    assert refusal.endswith(".") and shown == environment.prompts()[0].messages[-1]["content"]


def test_what_trl_cannot_play_is_refused(games: Task[Any]) -> None:
    with pytest.raises(ValueError, match="where held-out games begin"):
        GameEnvironment(games).reset(task_id=HELD_OUT_START)
    with pytest.raises(CastawayError, match="asks 4 agents at the same time in the seat crew; TRL plays one: choose"):
        GameEnvironment(task_of(PARAMS, "marooned")).reset(task_id=0)
    assert GameEnvironment(task_of(PARAMS, "marooned"), "traitor").reset(task_id=0)
    parameters = get_json_schema(GameEnvironment(games).act)["function"]["parameters"]
    assert list(parameters["properties"]) == ["action"]


def taught(tutor: Task[Any]) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model of width 32 that calls the tool with one of two answers, whatever it is asked."""
    torch.manual_seed(0)
    environment = GameEnvironment(tutor)
    schema = get_json_schema(environment.act)
    asked = [environment.reset(**row) for row in training_rows(tutor, 8)]
    calls = [CALL.replace("ANSWER", one) for one in ("a good question, it is 12", "stop wasting my time, it is 7")]
    tokenizer = train_tokenizer([*asked * 4, json.dumps(schema), *calls], 700)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.eos_token, tokenizer.chat_template = "<|im_end|>", qwen3_chat_template
    model = new_model(PARAMS.base.model_copy(update={"hidden_size": 32, "layers": 2, "heads": 2}), tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(120):
        messages = [{"role": "user", "content": asked[step % len(asked)]}]
        prompt = tokenizer.apply_chat_template(messages, tools=[schema], add_generation_prompt=True, tokenize=False)
        head, reply = tokenizer(prompt)["input_ids"], tokenizer(calls[step // 8 % 2])["input_ids"]
        labels = [-100] * len(head) + reply
        loss = model(input_ids=torch.tensor([head + reply]), labels=torch.tensor([labels])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, tokenizer


@pytest.mark.slow
def test_grpo_plays_and_learns(tmp_path: Path) -> None:
    tutor = task_of(PARAMS, "strictbot")
    model, tokenizer = taught(tutor)
    before = [weight.detach().clone() for weight in model.parameters()]
    arguments = GRPOConfig(
        output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=8, num_generations=8, learning_rate=1e-3,
        max_completion_length=200, max_tool_calling_iterations=2, report_to="none", use_cpu=True, save_strategy="no",
        logging_steps=1, disable_tqdm=True, bf16=False, gradient_checkpointing=False,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model,
        args=arguments,
        train_dataset=Dataset.from_list(training_rows(tutor, 8)),
        processing_class=tokenizer,
        environment_factory=lambda: GameEnvironment(tutor),
    )
    trainer.train()
    log = [row for row in trainer.state.log_history if "rewards/GameEnvironment/mean" in row]
    assert len(log) == 2 and sum(row["tools/call_frequency"] for row in log) > 0
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
