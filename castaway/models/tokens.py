"""Chat messages as tokens: the template, the stop tokens and the padding of a model; and rows of tokens as tensors."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from castaway.config.errors import CastawayError, first_line
from castaway.tasks.environment import Message

DAY = datetime(2024, 7, 26)
SETTINGS: dict[str, Any] = {"enable_thinking": False, "date_string": "26 Jul 2024", "strftime_now": DAY.strftime}
"""For every template: without them Qwen3's would begin a train of thought, and others write today's date."""
KEPT = 2_000_000  # tokens of prompts that are kept: of the order of 50 MB
REPLIES = 20_000  # replies that are kept: in a game, the same few thousand come again and again
FORMS = ((False, True), (False, False), (True, True), (True, False))
"""How a template may take messages: whether content in parts, and whether a system message."""
MARK = "castaway-reply"  # a reply that is rendered once, to find out what the template writes after a reply


class ChatTokenizer:
    """The tokenizer of a chat model, with its template and all of its stop tokens.

    A reply is its text and the stop token that the template writes after it. That is what training learns and what
    sampling stops at, also for templates that render a past reply in another way than a model writes it (Qwen3 and
    DeepSeek-R1 drop or add a train of thought).
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stops: Sequence[int] = ()) -> None:
        """Use a tokenizer; `stops` are the stop tokens that the model's generation settings name.

        Raises:
            CastawayError: it has no chat template, or one that drops messages or writes no stop token after a reply.
        """
        self.tokenizer = tokenizer
        self._known: dict[tuple[tuple[str, str], ...], list[int]] = {}
        self._kept = 0
        self._replies: dict[str, list[int]] = {}
        if not tokenizer.chat_template:
            raise CastawayError(f"the tokenizer {tokenizer.name_or_path!r} has no chat template; use an instruct model")
        self._find_form()
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
    def load(cls, folder: Path) -> Self:
        """The tokenizer of a model folder, with the stop tokens of its generation_config.json."""
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, padding_side="left")
        stops: Any = None
        if (folder / "generation_config.json").exists():
            stops = GenerationConfig.from_pretrained(folder).eos_token_id
        return cls(tokenizer, [stops] if isinstance(stops, int) else stops or [])

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The token ids of a conversation, up to where the assistant's reply starts.

        The newest are kept: policy, reward model and corrections ask for the same ones in turn.
        """
        key = tuple((message["role"], message["content"]) for message in messages)
        tokens = self._known.get(key)
        if tokens is None:
            self._known[key] = tokens = self._encode(self._render(messages, True))
            self._kept += len(tokens)
            while self._kept > KEPT:
                self._kept -= len(self._known.pop(next(iter(self._known)), ()))
        return tokens.copy()

    def longest(self, prompts: Iterable[Sequence[Message]]) -> int:
        """The most tokens that one of the conversations has."""
        return max(len(self.prompt(messages)) for messages in prompts)

    def reply(self, text: str) -> list[int]:
        """The token ids of a reply, with the stop token; some are kept."""
        tokens = self._replies.get(text)
        if tokens is None:
            tokens = self._encode(text + self._ending)
            if len(self._replies) < REPLIES:
                self._replies[text] = tokens
        return tokens.copy()

    def piece(self, text: str) -> list[int]:
        """The token ids of the beginning of a reply, without a stop token."""
        return self._encode(text) if text else []

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether a reply has its stop token; otherwise it was cut off."""
        return bool(tokens) and tokens[-1] in self.stops

    def text(self, tokens: Sequence[int]) -> str:
        """Without the stop token. Others are shown: without them, what is around them would be judged as legal."""
        shown = tokens[:-1] if self.ends(tokens) else tokens
        return str(self.tokenizer.decode(list(shown), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def _render(self, messages: Sequence[Message], prompt: bool) -> str:
        shown: list[Any] = list(messages) if self._takes_system else _without_system(messages)
        if self._in_parts:
            shown = [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in shown]
        return str(self.tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=prompt, **SETTINGS))

    def _find_form(self) -> None:
        """How the template takes messages: their content as a text or in parts, and a system message or none."""
        asked = [{"role": role, "content": f"castaway-{role}"} for role in ("system", "user")]
        faults: list[str] = []
        for self._in_parts, self._takes_system in FORMS:
            try:
                text = self._render(asked, True)
            except Exception as error:  # as Gemma's raises for a system message; or whatever a template computes
                faults.append(first_line(error))
                continue
            if text.count("castaway-system") == text.count("castaway-user") == 1:
                return
        broken = len(faults) == len(FORMS)
        told = f"cannot be used: {faults[0]}" if broken else "does not write what system and user say once each"
        raise CastawayError(
            f"the chat template of {self.tokenizer.name_or_path!r} {told}; mend it, or use another instruct model"
        )

    def _find_ending(self, stops: Sequence[int]) -> str:
        """What the template writes after a reply, up to the first stop token; often a line break follows that."""
        whole = self._render([{"role": "user", "content": "?"}, {"role": "assistant", "content": MARK}], False)
        after = whole.rpartition(MARK)[2]
        special = {number for number, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        special |= {*stops, *self.tokenizer.all_special_ids}
        tokens = self._encode(after)
        for count, token in enumerate(tokens, start=1):
            if token in special:
                return str(self.tokenizer.decode(tokens[:count]))
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
    """Token ids and attention mask, both (rows, longest), of rows padded on the left to the longest one."""
    tokens = [torch.tensor(row, dtype=torch.long) for row in rows]
    padded = pad_sequence(tokens, batch_first=True, padding_value=pad, padding_side="left")
    return padded, pad_sequence([torch.ones_like(row) for row in tokens], batch_first=True, padding_side="left")


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Position ids of the same shape as the mask, for left-padded rows: 0 at the first token that is no padding."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def require_positions(config: Any, longest: int) -> None:
    """Refuse rows that are longer than a model has positions for: it would be trained on what means nothing to it."""
    most = getattr(config.get_text_config(), "max_position_embeddings", None) or longest
    if longest > most:
        raise CastawayError(
            f"the longest row has {longest} tokens, and the model reads {most}; render shorter prompts, or name a "
            "model with a longer context as base"
        )
