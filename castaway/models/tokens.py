"""Chat messages as tokens: the template, the stop tokens and the padding of a model; and rows of tokens as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from castaway.errors import CastawayError
from castaway.tasks.environment import Message

SETTINGS: dict[str, Any] = {"enable_thinking": False, "date_string": "26 Jul 2024"}
"""Given to every chat template. Qwen3's would begin replies with a train of thought, and Llama 3's would write the date
of today into each prompt; templates that know neither ignore them."""
MARK = "castaway-reply"
"""A reply that is rendered once, to find out what the template writes after a reply."""


class ChatTokenizer:
    """The tokenizer of a chat model, with its template and all of its stop tokens.

    A reply is its text and the stop token that the template writes after it. That is what training learns and what
    sampling stops at, also for templates that render a past reply in another way than a model writes it (Qwen3 and
    DeepSeek-R1 drop or add a train of thought).
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stops: Sequence[int] = ()) -> None:
        """Use a tokenizer that has a chat template.

        Args:
            tokenizer: from transformers.
            stops: the stop tokens that the model's generation settings name.

        Raises:
            CastawayError: it has no chat template, or its template writes no stop token after a reply.
        """
        self.tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise CastawayError(f"the tokenizer {tokenizer.name_or_path!r} has no chat template; use an instruct model")
        self._takes_system = self._renders_system()
        self._ending = self._find_ending(stops)
        ends = self._encode(self._ending)
        own: Any = tokenizer.eos_token_id
        self.stops = frozenset({ends[-1], *stops, *([own] if isinstance(own, int) else [])})
        """Any of these ends a reply."""
        pad: Any = tokenizer.pad_token_id
        self.pad: int = pad if isinstance(pad, int) else ends[-1]
        if not isinstance(pad, int):
            tokenizer.pad_token_id = self.pad  # the trainers of TRL ask the tokenizer itself
        """What rows are padded with. It may be a stop token: masks and lengths decide what counts, never this token."""

    @classmethod
    def load(cls, folder: Path) -> ChatTokenizer:
        """The tokenizer of a model folder, with the stop tokens of its generation_config.json.

        Raises:
            CastawayError: as in the constructor.
        """
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, padding_side="left")
        found: Any = None
        if (folder / "generation_config.json").exists():
            found = GenerationConfig.from_pretrained(folder).eos_token_id
        return cls(tokenizer, [found] if isinstance(found, int) else found or [])

    def save(self, folder: Path) -> None:
        """Write the files of the tokenizer into a model folder."""
        self.tokenizer.save_pretrained(folder)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The token ids of a conversation, up to where the assistant's reply starts."""
        return self._encode(self._render(messages, True))

    def reply(self, text: str) -> list[int]:
        """The token ids of an assistant's reply, with its stop token."""
        return self._encode(text + self._ending)

    def piece(self, text: str) -> list[int]:
        """The token ids of the beginning of a reply, without a stop token."""
        return self._encode(text) if text else []

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether a reply has its stop token; otherwise it was cut off."""
        return bool(tokens) and tokens[-1] in self.stops

    def text(self, tokens: Sequence[int]) -> str:
        """The text of a reply's tokens, without its stop token.

        Special tokens elsewhere are shown: if they vanished, what was written around them would be judged as legal.
        """
        shown = tokens[:-1] if self.ends(tokens) else tokens
        text: Any = self.tokenizer.decode(list(shown), skip_special_tokens=False)
        assert isinstance(text, str)
        return text

    def _encode(self, text: str) -> list[int]:
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def _render(self, messages: Sequence[Message], prompt: bool) -> str:
        shown: list[Any] = list(messages) if self._takes_system else _without_system(messages)
        text: Any = self.tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=prompt, **SETTINGS)
        assert isinstance(text, str)
        return text

    def _renders_system(self) -> bool:
        """Whether the template takes a system message; Gemma's raises an error."""
        self._takes_system = True
        try:
            return "castaway-system" in self._render(
                [{"role": "system", "content": "castaway-system"}, {"role": "user", "content": "castaway-user"}], True
            )
        except TemplateError:
            return False

    def _find_ending(self, stops: Sequence[int]) -> str:
        """What the template writes after a reply, up to the first stop token; often a line break follows that."""
        whole = self._render([{"role": "user", "content": "?"}, {"role": "assistant", "content": MARK}], False)
        after = whole.rpartition(MARK)[2]
        known: Any = self.tokenizer.added_tokens_decoder
        special = {number for number, token in known.items() if token.special}
        special |= {*stops, *self.tokenizer.all_special_ids}
        tokens = self._encode(after)
        for count, token in enumerate(tokens, start=1):
            if token in special:
                text: Any = self.tokenizer.decode(tokens[:count])
                return str(text)
        raise CastawayError(
            f"the chat template of {self.tokenizer.name_or_path!r} writes no stop token after a reply, so a model "
            "cannot learn where a reply ends; use an instruct model whose template does"
        )


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The conversation with its system message at the beginning of the first user message."""
    if messages[0]["role"] != "system":
        return list(messages)
    system, user, *others = messages
    return [{"role": user["role"], "content": f"{system['content']}\n\n{user['content']}"}, *others]


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows padded on the left to the longest one.

    Returns:
        Token ids and attention mask, both of shape (rows, longest).
    """
    width = max(len(row) for row in rows)
    tokens = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        tokens[number, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[number, width - len(row) :] = 1
    return tokens, mask


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Position ids of the same shape as the mask, for left-padded rows: 0 at the first token that is no padding."""
    return (mask.cumsum(-1) - 1).clamp(min=0)
