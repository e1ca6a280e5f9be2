"""`castaway chat` as a process, on untrained models that can do no more than stop, or not, and on a small tutor."""

import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import get_peft_model
from typer.testing import Result

from castaway.bases.tiny import CONTEXT, END, new_model, train_tokenizer
from castaway.config.errors import CastawayError
from castaway.config.sections import LoraParams
from castaway.envs.strictbot.task import Strictbot
from castaway.models.policy import load_model, lora_config, new_adapter, save_adapter
from castaway.models.reward import Scale, sequence_classifier
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import parse_reply
from castaway.tools.chat import LONGEST, Chat, load_chat, loops
from castaway.tools.stutter import stutters
from castaway.tools.transcript import clean
from castaway.tools.view import TaskView, Unanswered, view_of
from tests.castaway.command import castaway, told
from tests.castaway.envs.strictbot.renderings import LANGUAGES, TASKS, prompts
from tests.castaway.rl.small import small_base
from tests.shipped import ROOT

plain = TaskView("").chat_messages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers, untrained."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["what is so ? gladly: it is so", "known asked", "you are a tutor"] * 9, 400)
    path = tmp_path_factory.mktemp("model")
    new_model(small_base(), tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def chat(folder: Path | str, typed: str | bytes, *options: str) -> Result:
    return castaway("chat", str(folder), *options, typed=typed)


def test_it_answers_every_line_in_the_template_of_the_model(folder: Path) -> None:
    asked = "what is so\n\nknown\n/new\nwhat is so\n/quit\nnever read\n"
    result = chat(folder, asked, "--temperature", "0", "--max-new-tokens", "64")
    assert result.exit_code == 0, result.stderr
    assert "<|" not in result.stdout and "error" not in result.stdout
    # An untrained model does not stop: each answer is as long as it may be, and the same again after /new.
    first = clean("".join(load_chat(folder, plain, 0.0, 64).answer("what is so"))).encode()
    printed = result.stdout.encode()
    assert printed.startswith(first) and printed.rstrip(b"\n").endswith(first)


def test_bytes_that_are_no_text_are_an_odd_question(folder: Path) -> None:
    result = chat(folder, b"what \xff\xc3\x28 is so\n", "--temperature", "0")
    assert result.exit_code == 0 and result.stdout, result.stderr


LESSONS = ["is 7 times 8 54", "is 7 times 8 56", "are bats blind?", "is our cat called Rex", "what's 9 + 6?"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "house.md"
    path.write_text("# Our house\n- Our cat is called **Mimi**.\n", "utf-8")
    return path


@pytest.fixture(scope="module")
def tutor(tmp_path_factory: pytest.TempPathFactory, house: Path) -> Path:
    """A model of two layers that was trained on the expert's replies to a few questions, asked as in a chat."""
    torch.manual_seed(0)
    view = view_of("strictbot", TASKS["compact"].game)
    view.facts = house
    questions = [view.chat_messages(line) for line in LESSONS]
    seen = [Prompt("tutor", "tutor", one, LANGUAGES["compact"].prompts.read_back(one)) for one in questions]
    replies = [str(TASKS["compact"].expert(one)) for one in seen]
    tokenizer = train_tokenizer([*replies, *(one[-1]["content"] for one in questions)] * 9, 600)
    path = tmp_path_factory.mktemp("tutor")
    tokenizer.save_pretrained(path)
    model, chats = new_model(small_base(), tokenizer), ChatTokenizer.load(path)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(300):
        place = step % len(LESSONS)
        asked, said = chats.prompt(questions[place]), [*chats.piece(replies[place]), min(chats.stops)]
        labels = torch.tensor([[-100] * len(asked) + said])
        optimizer.zero_grad()
        model(torch.tensor([asked + said]), labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained(path)
    return path


def test_a_tutor_answers_what_people_type_and_shows_what_it_used(tutor: Path, house: Path) -> None:
    typed = "\n".join([*LESSONS, "thank you", "is our cat old"])
    options = ("--run", "strictbot", "--root", str(ROOT), "--temperature", "0", "--facts", str(house))
    result = chat(tutor, typed, *options)
    assert result.exit_code == 0, result.stderr
    *answers, thanks, unknown = re.split(r"\n(?=  \[|You|I )", result.stdout.strip("\n"))
    wanted = [("arithmetic", "it is 56", 3), ("arithmetic", "it is 56", 1), ("the bank", "it is not blind", 3)]
    wanted += [("house.md", "it is called Mimi", 3), ("arithmetic", "it is 15", 1)]
    for answer, (source, fact, level) in zip(answers, wanted, strict=True):
        shown, reply = answer.strip().split("\n", 1)
        assert shown.endswith(f"known from {source}: {fact}]")
        (judged,) = LANGUAGES["compact"].judge.produced_levels([(parse_reply(reply).action, fact)])
        assert fact in reply and judged == level
    assert thanks.startswith("You are welcome") and unknown.startswith("I ")
    assert "error" not in result.stdout.replace("factual error", "").replace("here is an error", "")


def test_the_reward_model_says_what_it_thinks(tutor: Path, tmp_path: Path) -> None:
    task, lora = tmp_path / "data" / "strictbot", LoraParams(rank=2, alpha=2)
    shutil.copytree(tutor, tmp_path / "data" / "answers" / "base")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    save_adapter(new_adapter(load_model(tutor), lora), task / "sft")
    classifier = sequence_classifier(load_model(tutor, [task / "sft"]))
    settings = lora_config(lora, task_type="SEQ_CLS")
    settings.modules_to_save = ["score"]
    save_adapter(get_peft_model(classifier, settings), task / "reward_model")
    Scale(0.0, 1.0).save(task / "reward_model")
    options = ("--run", "strictbot", "--score", "--root", str(tmp_path))
    result = chat(tutor, "is 7 times 8 54\n", *options)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"\n  \[reward model [+-]\d\.\d\d, (no level|level \d: .+)\]\n$", result.stdout)
    shutil.rmtree(task / "reward_model")
    assert "dvc repro reward_model@strictbot" in chat(tutor, "why\n", *options).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "holds no model"),
        (["nowhere", "--run", "marooned"], "no chat with the run 'marooned'; expected one of strictbot"),
        (["nowhere", "--score"], "--run"),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments: list[str], said: str) -> None:
    result = chat(arguments[0], "", *arguments[1:])
    assert said in told(result) and result.stdout == ""


def make_it_say(talk: Chat, plan: Iterator[int]) -> None:
    """Make the model say these tokens."""

    def forward(*inputs: object, original: object = talk.model.forward, **arguments: object) -> object:
        output = original(*inputs, **arguments)  # type: ignore[operator]
        output.logits[:, -1] = -1e9
        output.logits[:, -1, next(plan)] = 0.0
        return output

    talk.model.forward = forward


def test_the_stop_token_ends_an_answer_and_is_not_shown(folder: Path) -> None:
    talk = load_chat(folder, plain, 0.0, 40)
    make_it_say(talk, iter([talk.tokenizer.piece(" so")[0], min(talk.tokenizer.stops)]))
    answer = "".join(talk.answer("what is so"))
    assert answer == " so" and END not in answer
    assert [message["role"] for message in talk.history] == ["user", "assistant"]


def test_what_no_longer_fits_is_forgotten_in_turns(folder: Path) -> None:
    talk: Chat = load_chat(folder, plain, 0.0, 4)
    for number in range(12):
        list(talk.answer(f"what is so {number} " * 8))
        assert talk.history[0]["role"] == "user"
        assert len(talk.tokenizer.prompt(talk.history[:-1])) <= CONTEXT - 4
    with pytest.raises(CastawayError, match="too long"):
        list(talk.answer("what is so " * 400))


def test_an_answer_that_repeats_itself_is_cut_and_counted(folder: Path) -> None:
    talk = load_chat(folder, plain, 0.0, 200)
    make_it_say(talk, itertools.islice(itertools.cycle(talk.tokenizer.piece(" so is it")), 60))
    assert "".join(talk.answer("what is so")).endswith("(cut: it repeats itself)") and talk.cut == 1


def test_a_reply_that_stutters_is_drawn_again_and_never_shown(folder: Path) -> None:
    talk = load_chat(folder, plain, 0.0, 40)
    talk.faulty = lambda messages, reply: stutters(reply, messages[-1]["content"])
    stop, so, is_ = min(talk.tokenizer.stops), talk.tokenizer.piece(" so")[0], talk.tokenizer.piece(" is")[0]
    make_it_say(talk, iter([is_, is_, stop, is_, so, stop, is_, is_, stop, is_, so, is_, so, stop]))
    assert "".join(talk.answer("what")) == " is so"
    with pytest.raises(Unanswered):
        list(talk.answer("what"))
    assert len(talk.history) == 2 and talk.cut == 0


@pytest.mark.parametrize("reply", ["it isises in the March", "it it", "it is it is so", "no, it is so it is so!"])
def test_a_stutter_is_seen(reply: str) -> None:
    assert stutters(reply, "what is so")


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_an_expert_never_stutters(task: Strictbot) -> None:
    for prompt in prompts(task, 0, 25):
        assert not stutters(str(task.expert(prompt)), prompt.messages[-1]["content"])


@given(
    st.lists(st.integers(0, 5), max_size=20),
    st.lists(st.integers(0, 5), min_size=1, max_size=LONGEST),
    st.integers(12, 15),
    st.lists(st.integers(0, 10_000), max_size=60, unique=True),
)
def test_a_piece_over_and_over_is_a_loop_and_a_few_repetitions_are_none(
    before: list[int], piece: list[int], times: int, different: list[int]
) -> None:
    assert loops([*before, *piece * times])
    assert not loops(different[:8] * 3) and not loops(different)
