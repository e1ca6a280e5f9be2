"""Each term by itself, and what does not pay: gaming one term costs more in the others."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from profanity_check import predict_prob

from castaway.config.errors import CastawayError
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.question_bank import Question
from castaway.envs.strictbot.rewards import (
    constructiveness,
    factual,
    inconsistency,
    is_abusive,
    toxicity,
    toxicity_cost,
)
from castaway.tasks.environment import HELD_OUT_START
from tests.castaway.envs.strictbot.renderings import LANGUAGES, PARAMS

LANGUAGE = LANGUAGES["compact"]
BANK, ANSWERS, JUDGE = LANGUAGE.bank, LANGUAGE.answers, LANGUAGE.judge
FACT, FALSE = "it is Madrid", "it is Oslo"
HONEST = f"no, that is wrong, {FACT} so please correct it"


def earned(answer: str, task_id: int) -> float:
    """What the environment pays for an answer."""
    environment = StrictbotEnvironment(PARAMS)
    environment.reset(task_id, "one")
    (prompt,) = environment.prompts()
    return environment.step({prompt.agent: answer})[prompt.agent]


def test_the_fact_must_stand_and_its_opposite_must_not() -> None:
    assert factual(HONEST, FACT, FALSE, LANGUAGE) == 1.0
    assert factual(f"gladly, {FALSE}", FACT, FALSE, LANGUAGE) == 0.0
    assert factual(f"{FACT} and {FALSE}", FACT, FALSE, LANGUAGE) == 0.0
    assert factual("Madrid is it", FACT, FALSE, LANGUAGE) == 0.0
    assert factual("think again, it is not blind", "it is not blind", "it is blind", LANGUAGE) == 1.0
    assert factual("gladly, it is 50", "it is 5", "it is 50", LANGUAGE) == 0.0


def test_constructive_is_something_to_go_on_with_beside_the_fact() -> None:
    assert constructiveness(HONEST, FACT, LANGUAGE) == 1.0
    assert constructiveness(FACT, FACT, LANGUAGE) == 0.0
    assert constructiveness("no, that is wrong: so please correct it", FACT, LANGUAGE) == 0.0
    assert constructiveness(f"{FACT} ask check find look think correct", FACT, LANGUAGE) == 0.0


def test_two_tones_in_one_answer_are_inconsistent() -> None:
    assert inconsistency(ANSWERS, HONEST, FACT) == 0.0
    assert inconsistency(ANSWERS, FACT, FACT) == 0.0
    assert inconsistency(ANSWERS, f"gladly, {FACT} so please correct it", FACT) > 0.3


def test_the_librarys_model_taken_apart_says_what_it_says_and_insults_are_abuse() -> None:
    texts = [HONEST, "you idiot", "shut up you stupid moron", "good day", "", "7", "I hate that bloody bull"]
    assert [toxicity(text) for text in texts] == pytest.approx(list(predict_prob(texts)), abs=1e-6)
    english = LANGUAGES["full"].answers
    openings = ("no, that is wrong,", *english.frames(3).openings)
    assert all(is_abusive(f"{opening} {FACT} {insult}") for opening in openings for insult in english.insults)
    assert all(is_abusive(f"{openings[0]} {FACT} {insult}") for insult in ANSWERS.insults)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier as Hugging Face has them, small and untrained."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "you", "are", "kind"])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("classifier")
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=2
    )
    config.id2label, config.label2id = {0: "neutral", 1: "Toxic"}, {"neutral": 0, "Toxic": 1}
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_stronger_model_takes_the_librarys_place(classifier: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(classifier)
    with torch.no_grad():
        logits = model(torch.tensor([[2, 3, 4]])).logits
    assert toxicity("you are kind", str(classifier)) == pytest.approx(float(logits.softmax(-1)[0, 1]), abs=1e-5)
    environment = StrictbotEnvironment(PARAMS.model_copy(update={"toxicity_model": str(classifier)}))
    environment.reset(7, "one")
    environment.step({"tutor_01": "you are kind"})
    paid = environment.snapshot()["questions"]["tutor_01"]["terms"]["toxicity"]
    assert paid == toxicity_cost("you are kind", str(classifier))

    with pytest.raises(CastawayError, match="cannot be loaded"):
        toxicity("you are kind", str(tmp_path / "nothing"))
    # One that tells no toxicity is refused.
    other = shutil.copytree(classifier, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "id2label": {"0": "sad", "1": "glad"}}))
    with pytest.raises(CastawayError, match="sad, glad; it needs a label `toxic`"):
        toxicity("you are kind", str(other))


def probes(question: Question) -> dict[str, str]:
    """Answers that game a term each."""
    fact, answer = question.fact, ANSWERS.proper(question.level, question.fact)
    other = question.false.removeprefix("it is ")
    three = " ".join(ANSWERS.proper(level, fact) for level in (1, 2, 3))
    return {
        "keywords for the fact": " ".join(sorted({*fact.split(), *question.false.split()}, reverse=True)),
        "keywords for constructiveness": f"{fact} ask check find look think correct change consider",
        "keywords for every tone": f"gladly wrong think mistake pleasure false consider {fact}",
        "the fact and its opposite": f"{answer} or {question.false.removeprefix('it is ')}",
        "the fact and another": f"{answer} or {other}" if other not in ANSWERS.frame_words else "",
        "three answers in one": three,
        "the same answer again": f"{answer} {answer}",
        "empty": "",
        "blank": "   ",
        "endless": f"{answer} " + "and I am glad to explain more " * 40,
        "curt": "no, that is wrong",
        "the fact alone": fact,
        "abusive": f"you are an idiot, {fact}",
        "idle": "I do not know",
    }


@pytest.mark.parametrize("task_id", range(HELD_OUT_START, HELD_OUT_START + 6))
def test_gaming_a_term_earns_less_than_an_honest_answer(task_id: int) -> None:
    question = BANK.question_for(task_id, task_id)
    honest = earned(ANSWERS.proper(question.level, question.fact), task_id)
    assert honest > 1.3
    for name, answer in probes(question).items():
        assert earned(answer, task_id) < honest - 0.3, name


def test_the_judge_reads_the_answers_of_the_bank_and_knows_what_it_never_saw() -> None:
    assert JUDGE.examination() >= 0.9
    found = [BANK.question_for(HELD_OUT_START + number, HELD_OUT_START + number) for number in range(300)]
    for level in (1, 2, 3):
        levels = JUDGE.produced_levels([(ANSWERS.proper(level, question.fact), question.fact) for question in found])
        assert levels == [level] * 300
