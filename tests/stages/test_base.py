"""Pretraining rows: a situation is read once, and each answer is learned as if it stood alone. Given models: copied."""

from pathlib import Path

import pytest
import torch

from castaway.bases.tiny import Document
from castaway.config.bases import PathParams
from castaway.config.errors import CastawayError
from castaway.models.policy import load_model
from castaway.models.tokens import ChatTokenizer
from castaway.tools.check_model import check_folder
from stages.base import WIDTH, AnswerTrainer, check_lengths, collate, document_tokens, packed, run
from stages.context import Context
from tests.castaway.bases.given import write_gguf
from tests.castaway.models.classes import model_of
from tests.castaway.rl.small import student
from tests.families import FAMILIES, tokenizer_of
from tests.miniature import GIVEN
from tests.shipped import PARAMS


def test_answers_that_share_a_situation_are_scored_as_if_alone() -> None:
    actor, tokenizer = student()
    messages = ({"role": "user", "content": "which way"},)
    answers = ("ACTION: LEFT", "REASONING: a\nACTION: RIGHT")
    batch = collate(packed([document_tokens(tokenizer, Document(messages, answers))]), tokenizer.pad)
    labels = batch.pop("labels")
    shared = torch.log_softmax(actor.policy(**batch).logits, -1)[0]
    learned = [(place, token) for place, token in enumerate(labels[0].tolist()) if token != -100]

    alone = []
    for answer in answers:
        prompt, reply = tokenizer.prompt(messages), tokenizer.reply(answer)
        scores = torch.log_softmax(actor.policy(input_ids=torch.tensor([prompt + reply])).logits, -1)[0]
        alone += [(scores[len(prompt) - 1 + k, token], token) for k, token in enumerate(reply)]
    assert [token for _, token in learned] == [token for _, token in alone]
    together = torch.stack([shared[place - 1, token] for place, token in learned])
    assert torch.allclose(together, torch.stack([score for score, _ in alone]), atol=1e-5)


def test_the_loss_is_the_usual_one_and_documents_in_one_row_do_not_see_each_other() -> None:
    actor, tokenizer = student()
    turns = ("which way", "REASONING a", "ACTION LEFT RIGHT", "way")
    documents = [Document(({"role": "user", "content": turn},), ("ACTION: LEFT", "ACTION: RIGHT")) for turn in turns]
    pieces = [document_tokens(tokenizer, document) for document in documents]
    (row,) = packed(pieces)
    assert len(row["input_ids"]) == sum(len(piece["input_ids"]) for piece in pieces) <= WIDTH

    def loss(rows: list[dict[str, list[int]]]) -> float:
        return float(AnswerTrainer.compute_loss(None, actor.causal, collate(rows, tokenizer.pad)))  # type: ignore[arg-type]

    alone = [one for piece in pieces for one in packed([piece])]
    assert abs(loss([row]) - loss(alone)) < 1e-6
    assert abs(loss(alone) - float(actor.policy(**collate(alone, tokenizer.pad)).loss)) < 1e-5


def test_prompts_that_fill_the_context_are_refused() -> None:
    _, tokenizer = student()
    long, short = ("way " * 600, "way")
    asked = [({"role": "user", "content": text},) for text in [long] * 2 + [short] * 98]
    pieces = [document_tokens(tokenizer, Document(messages, ("ACTION: LEFT",))) for messages in asked]
    with pytest.raises(CastawayError, match=r"^in 2 of 100 documents of the text of bases\.games the prompt alone"):
        check_lengths(pieces, "games")
    check_lengths([*pieces[1:], pieces[-1]], "games")


def test_a_model_that_exists_is_copied_counted_and_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = write_gguf(tmp_path / "model.gguf")
    params = PARAMS.model_copy(update={"bases": {"given": PathParams(**GIVEN, path="model.gguf")}})
    scratch = tmp_path / "scratch"
    context = Context(root=tmp_path, params=params, run="given", base="given", stage="base", scratch=scratch)
    figures = run(context)
    assert figures == {"parameters": original.model.num_parameters(), "vocabulary": original.tokenizer.get_vocab_size()}
    tokenizer, model = ChatTokenizer.load(context.output), load_model(context.output)
    tokens = tokenizer.prompt(({"role": "user", "content": "a 12"},))
    with torch.no_grad():
        assert model(torch.tensor([tokens])).logits.shape == (1, len(tokens), figures["vocabulary"])
    assert not list((tmp_path / "scratch").iterdir())
    assert capsys.readouterr().out.splitlines() == check_folder(context.output, "float32")


def test_a_model_that_cannot_be_trained_is_refused_before_anything_is_built_on_it(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(FAMILIES["qwen2"], ["ACTION: LEFT"] * 5)
    sizes = {"n_groups": 1, "num_heads": 8, "head_dim": 16, "state_size": 16}
    model_of("mamba2", vocab_size=len(tokenizer), **sizes).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    params = PARAMS.model_copy(update={"bases": {"given": PathParams(**GIVEN, path="model")}})
    context = Context(
        root=tmp_path, params=params, run="given", base="given", stage="base", scratch=tmp_path / "scratch"
    )
    with pytest.raises(CastawayError, match=r"^model \(Mamba2ForCausalLM\) cannot be trained: .*; name another model"):
        run(context)
