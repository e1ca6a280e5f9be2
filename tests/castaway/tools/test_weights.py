"""`castaway evaluate` and `castaway merge` on untrained models that no build made."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.bases.tiny import new_model
from castaway.models.policy import load_policy, save_adapter
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import task_of
from castaway.tools import weights
from castaway.tools.evaluation import in_seat, validation_ids
from castaway.tools.weights import weights_of
from tests.castaway.command import castaway, told
from tests.castaway.rl.small import small_base, stirred, student
from tests.shipped import PARAMS, ROOT

EVALUATE = ("evaluate", "--run", "strictbot", "--episodes", "6")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a base model and SFT, and beside it a model, its adapter, and a smaller model."""
    root = tmp_path_factory.mktemp("root")
    shutil.copy(ROOT / "params.yaml", root)
    actor, tokenizer = student()
    policy: Any = stirred(actor).policy
    for folder in (root / "model", root / "data/answers/base"):
        new_model(small_base(), tokenizer.tokenizer).save_pretrained(folder)
        tokenizer.save(folder)
    for folder in (root / "adapter", root / "data/strictbot/sft"):
        save_adapter(policy, folder)
    new_model(small_base().model_copy(update={"hidden_size": 16}), tokenizer.tokenizer).save_pretrained(root / "small")
    tokenizer.save(root / "small")
    return root


def merge(root: Path, *options: str, base: str = "model", adapter: str = "adapter") -> Any:
    where = ("--base", base, "--adapter", adapter, "--output", "merged/new")
    return castaway("merge", *where, *options, at=root)


def test_a_model_is_evaluated_beside_a_random_player_and_the_expert(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    result = castaway(*EVALUATE, "adapter", "--base", "model", "--json", str(file), at=root)
    assert result.exit_code == 0, result.stderr
    assert [line.split("|")[1].strip() for line in result.stdout.splitlines()[2:5]] == ["model", "random", "expert"]
    assert "100.0 % (61.0 to 100.0)" in result.stdout.splitlines()[4]
    found = json.loads(file.read_text("utf-8"))
    assert found["ids"] == "validation" and found["players"]["model"]["episodes"] == 6
    assert 0 <= found["players"]["random"]["success_rate_low"] < found["players"]["random"]["success_rate_high"] <= 1
    # What a stage made is found by its address, and by its folder.
    for name in ("sft@strictbot", "data/strictbot/sft"):
        assert castaway(*EVALUATE, name, at=root).stdout == result.stdout.partition(str(file))[0]


@pytest.mark.parametrize(
    ("run", "seat", "game"), [("openspiel", "mcts-50", "hex"), ("openspiel", "mcts-3", ""), ("marooned", "traitor", "")]
)
def test_only_validation_ids_are_played(run: str, seat: str, game: str) -> None:
    task = in_seat(PARAMS, run, seat)
    ids = validation_ids(task, 1, game, 300)
    assert len(set(ids)) == 300 and max(ids) < HELD_OUT_START
    assert all(task_id in task_of(PARAMS, run).training_ids() for task_id in ids)
    assert task.evaluation_seats == (seat,) and seat in task.make().seats
    assert not game or {task.kind_of(task_id) for task_id in ids} == {game}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere holds neither a model (config.json) nor an adapter"),
        (["adapter"], "name the model that it was trained on with --base"),
        (["model", "--base", "model"], "leave --base out"),
        (["adapter", "--base", "small"], "small with adapter cannot be loaded: "),
        (["ppo@strictbot"], "data/strictbot/ppo is not built; `dvc repro ppo@strictbot` builds it"),
        (["sft@strictbt"], "did you mean sft@strictbot?"),
        (["reward_model@strictbot"], "the stage 'reward_model' makes no policy"),
        (["model", "--run", "strictbt"], "no run 'strictbt'; did you mean strictbot?"),
        (["model", "--seat", "crew"], "strictbot has no seat 'crew'; expected one of one, all"),
        (["model", "--run", "openspiel", "--opponent", "mcts50"], "there is no opponent 'mcts50'"),
        (["model", "--run", "openspiel", "--game", "hexx"], "no game 'hexx'; did you mean hex?"),
    ],
)
def test_what_cannot_be_evaluated_is_told_in_one_line(root: Path, arguments: list[str], said: str) -> None:
    assert said in told(castaway(*EVALUATE, *arguments, at=root))


def test_an_adapter_is_merged_into_a_model_that_plain_transformers_loads(root: Path) -> None:
    said = merge(root)
    assert said.exit_code == 0, said.stderr
    new = root / "merged/new"
    assert said.stdout.startswith("merged/new: ") and "in float32" in said.stdout
    assert (new / "model.safetensors").is_file() and [one.name for one in new.parent.iterdir()] == ["new"]
    tokens = AutoTokenizer.from_pretrained(new)("which way LEFT", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        merged = AutoModelForCausalLM.from_pretrained(new)(tokens).logits
        adapted = load_policy(root / "model", [root / "adapter"], "float32")(input_ids=tokens).logits
        plain = AutoModelForCausalLM.from_pretrained(root / "model")(tokens).logits
    assert torch.allclose(merged, adapted, atol=1e-5) and not torch.allclose(merged, plain, atol=1e-2)
    assert "merged/new exists already" in told(merge(root))
    shutil.rmtree(new)
    halved = merge(root, "--dtype", "bfloat16", base="sft@strictbot")
    assert halved.exit_code == 0, halved.stderr
    assert AutoModelForCausalLM.from_pretrained(new).dtype is torch.bfloat16
    assert weights_of("sft@strictbot", root).adapters == (root / "data/strictbot/sft",)
    shutil.rmtree(new.parent)


def test_a_merge_that_fails_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "small with adapter cannot be loaded" in told(merge(root, base="small"))
    assert "neither a model" in told(merge(root, adapter="nowhere"))
    settings = json.loads((root / "adapter/adapter_config.json").read_text("utf-8"))
    shutil.copytree(root / "adapter", tmp_path / "scores")
    (tmp_path / "scores/adapter_config.json").write_text(json.dumps({**settings, "task_type": "SEQ_CLS"}), "utf-8")
    assert "of the kind SEQ_CLS, expected CAUSAL_LM" in told(merge(root, adapter=f"{tmp_path}/scores"))
    monkeypatch.setitem(weights.TOLERANCES, True, 1e-12)
    assert "nats per token, more than the tolerance of 1e-12" in told(merge(root, "--dtype", "bfloat16"))
    assert not any((root / "merged").iterdir())


def test_an_adapter_of_a_deeper_model_is_refused(root: Path, tmp_path: Path) -> None:
    _, tokenizer = student()
    new_model(small_base().model_copy(update={"layers": 1}), tokenizer.tokenizer).save_pretrained(tmp_path / "shallow")
    tokenizer.save(tmp_path / "shallow")
    said = told(castaway(*EVALUATE, "adapter", "--base", f"{tmp_path}/shallow", at=root))
    assert "adapter is no adapter of LlamaForCausalLM in this size" in said


def test_what_can_be_won_from_a_model_stands_beside_what_can_be_won_from_others(root: Path) -> None:
    exploitability = ("openspiel", "exploitability", "model", "--replies", "1", "--game")
    shown = castaway(*exploitability, "kuhn_poker", at=root)
    assert shown.exit_code == 0, shown.stderr
    values = {row.split("|")[1].strip(): float(row.split("|")[2]) for row in shown.stdout.splitlines()[2:]}
    # Of an untrained model no reply is valid, and the environment draws a move.
    assert values == {"model": 0.92, "random player": 0.92, "first move": 2.0, "last move": 0.67, "expert": 0.5}
    for options, said in ((("kuhn",), "did you mean kuhn_poker?"), (("kuhn_poker", "--run", "strictbot"), "strictbot")):
        refused = castaway(*exploitability, *options, at=root)
        assert refused.exit_code == 2 and said in told(refused)
