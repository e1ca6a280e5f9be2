"""Prompts, replies and stop tokens of five families of chat models."""

from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.config.errors import CastawayError
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Message
from tests.families import FAMILIES, write_family

ASKED = ({"role": "system", "content": "You are a tutor."}, {"role": "user", "content": "Is 2 + 2 = 5?"})
TEXTS = ["REASONING: a mistake\nACTION: That is not right, 2 + 2 is 4.", "You are a tutor. Is 2 + 2 = 5?"] * 5


@pytest.fixture(scope="module", params=FAMILIES)
def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ChatTokenizer]:
    name = str(request.param)
    return name, ChatTokenizer.load(write_family(name, tmp_path_factory.mktemp(name), TEXTS))


def test_a_reply_ends_with_the_token_that_the_template_writes(chat: tuple[str, ChatTokenizer]) -> None:
    name, tokenizer = chat
    raw, family = tokenizer.tokenizer, FAMILIES[name]
    reply = tokenizer.reply("ACTION: no")
    assert raw.decode(reply) == f"ACTION: no{family.ending}"
    assert tokenizer.stops == {raw.convert_tokens_to_ids(token) for token in {*family.stops, family.eos}}
    assert reply[-1] in tokenizer.stops and not tokenizer.stops & set(reply[:-1])
    assert tokenizer.text(reply) == "ACTION: no"
    assert tokenizer.ends(reply) and not tokenizer.ends(reply[:-1]) and not tokenizer.ends([])
    # Padding needs no token of its own.
    assert tokenizer.pad in tokenizer.stops if family.pad is None else raw.decode([tokenizer.pad]) == family.pad


def test_a_special_token_within_a_reply_does_not_vanish(chat: tuple[str, ChatTokenizer]) -> None:
    name, tokenizer = chat
    special = next(token for token in FAMILIES[name].special if token not in FAMILIES[name].stops)
    reply = tokenizer.reply(f"ACTION: {special}no")
    assert tokenizer.text(reply) == f"ACTION: {special}no"


def test_a_prompt_is_the_same_every_day_and_holds_all_messages(chat: tuple[str, ChatTokenizer]) -> None:
    name, tokenizer = chat
    text = str(tokenizer.tokenizer.decode(tokenizer.prompt(ASKED)))
    assert tokenizer.prompt(ASKED) == tokenizer.prompt(ASKED)
    assert "You are a tutor." in text and "Is 2 + 2 = 5?" in text
    assert ("Today Date: 26 Jul 2024" in text) == (name == "llama")
    assert ("</think>" in text) == (name == "qwen3")
    # Gemma's template refuses a system message: it stands before the question.
    assert ("tutor.\n\nIs 2" in text) == (name == "gemma")


@given(text=st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), max_size=40))
@settings(max_examples=60)
def test_any_reply_comes_back(chat: tuple[str, ChatTokenizer], text: str) -> None:
    # Qwen's tokenizers write all text in the composed form.
    assert normalize("NFC", chat[1].text(chat[1].reply(text))) == normalize("NFC", text)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("", "has no chat template"),
        ("{% for m in messages[1:] %}{{ m['content'] }}{% endfor %}", "does not write what system and user say"),
        ("{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}", "writes no stop token"),
        ("{% for m in messages %}{{ m['content'] }}", "cannot be used: Unexpected end of template"),
        ("{{ messages[0]['content'] + 1 }}", "cannot be used: can only concatenate str"),
    ],
)
def test_a_model_that_is_no_chat_model_is_refused(tmp_path: Path, template: str, said: str) -> None:
    raw = ChatTokenizer.load(write_family("qwen2", tmp_path, TEXTS)).tokenizer
    raw.chat_template = template
    with pytest.raises(CastawayError, match=said):
        ChatTokenizer(raw)


def test_content_may_be_wanted_in_parts(tmp_path: Path) -> None:
    plain = ChatTokenizer.load(write_family("qwen2", tmp_path, TEXTS))
    expected, template = plain.prompt(ASKED), str(plain.tokenizer.chat_template)
    plain.tokenizer.chat_template = template.replace("message['content']", "message['content'][0]['text']")
    assert ChatTokenizer(plain.tokenizer).prompt(ASKED) == expected


def test_a_prompt_that_is_asked_again_has_its_own_tokens_also_when_many_were_dropped(
    chat: tuple[str, ChatTokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("castaway.models.tokens.KEPT", 100)
    asked: list[list[Message]] = [[{"role": "user", "content": f"where is {name}?"}] for name in range(30)]
    first = [chat[1].prompt(messages) for messages in asked]
    first[0].append(7)  # nobody else's list
    assert [chat[1].prompt(messages) for messages in asked] == [first[0][:-1], *first[1:]]
    assert len({tuple(tokens) for tokens in first}) == 30
