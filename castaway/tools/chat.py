"""Talking to a trained model: its own chat template, its own stop token, words as they come.

    castaway chat --run strictbot

Input is a line a turn, from a terminal or a pipe. `/new` forgets what was said; `/quit` or the end leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

from castaway.errors import CastawayError
from castaway.models.scorer import Scorer
from castaway.models.tokens import prompt_tokens
from castaway.tasks.environment import Message
from castaway.tasks.registry import read_params
from castaway.tools.transcript import clean

Ask = Callable[[str], tuple[Message, ...]]
"""A task's prompt for what was typed: a system message, if there is one, and a user message."""
Remark = Callable[[Sequence[Message], str], str]
"""What is said of an answer beside the score."""


@dataclass(slots=True)
class Chat:
    """A conversation with one model."""

    model: Any
    tokenizer: Any
    ask: Ask
    temperature: float
    """0 takes the likeliest token each time."""
    max_new_tokens: int
    history: list[Message] = field(default_factory=list)

    def answer(self, line: str) -> Iterator[str]:
        """Say something and hear the answer, piece by piece; both are remembered."""
        self._remember(self.ask(line))
        pieces: list[str] = []
        for piece in self._stream():
            pieces.append(piece)
            yield piece
        self.history.append({"role": "assistant", "content": "".join(pieces)})

    def _remember(self, messages: Sequence[Message]) -> None:
        """One system message at the beginning is enough; what no longer fits into the model is forgotten in turns."""
        self.history += [message for message in messages if message["role"] != "system" or not self.history]
        room = self.model.config.max_position_embeddings - self.max_new_tokens
        first = 1 if self.history[0]["role"] == "system" else 0
        while len(prompt_tokens(self.tokenizer, self.history)) > room:
            if len(self.history) <= first + 1:
                self.history.pop()
                raise CastawayError(f"that is too long: with its answer it does not fit into the model's {room} tokens")
            del self.history[first : first + 2]

    def _stream(self) -> Iterator[str]:
        """Generate in a thread; the stop token ends the answer and is not shown."""
        tokens = torch.tensor([prompt_tokens(self.tokenizer, self.history)], device=self.model.device)
        streamer = TextIteratorStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        sampling = {"do_sample": True, "temperature": self.temperature, "top_k": 0} if self.temperature else {}
        thread = Thread(
            target=self._generate,
            args=(streamer,),
            kwargs={
                "input_ids": tokens,
                "attention_mask": torch.ones_like(tokens),
                "max_new_tokens": self.max_new_tokens,
                "eos_token_id": self.tokenizer.eos_token_id,
                "pad_token_id": self.tokenizer.pad_token_id,
                **(sampling or {"do_sample": False}),
            },
        )
        thread.start()
        yield from streamer
        thread.join()

    def _generate(self, streamer: TextIteratorStreamer, **arguments: Any) -> None:
        """Whatever happens, whoever listens is told that it is over."""
        try:
            with torch.inference_mode():
                self.model.generate(streamer=streamer, **arguments)
        finally:
            streamer.end()


def load_chat(folder: Path, ask: Ask, temperature: float, max_new_tokens: int) -> Chat:
    """The model in a folder of plain transformers files.

    Raises:
        CastawayError: there is no model that can be read, or it has no chat template.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise CastawayError(f"the model in {folder} cannot be read: {error}") from None
    if not tokenizer.chat_template:
        raise CastawayError(f"the tokenizer in {folder} has no chat template: it is no model to talk to")
    return Chat(model.eval(), tokenizer, ask, temperature, max_new_tokens)


def load_scorer(root: Path, run: str, tokenizer: Any) -> Scorer:
    """The reward model of a run that has been built.

    Raises:
        CastawayError: it has not.
    """
    data, params = root / "data", read_params(root / "params.yaml")
    if run not in params.tasks:
        raise CastawayError(f"params.yaml has no run {run}; its runs are {', '.join(params.tasks)}")
    base, sft, reward = data / params.tasks[run].base / "base", data / run / "sft", data / run / "reward_model"
    for folder in (base, sft, reward):
        if not folder.is_dir():
            raise CastawayError(f"{folder} does not exist: the score needs what `dvc repro reward_model@{run}` builds")
    from castaway.models.reward import RewardScorer  # and PEFT with it: slow to import

    return RewardScorer.load(reward, base, [sft], tokenizer)


def plain(line: str) -> tuple[Message, ...]:
    """What was typed, as it stands."""
    return ({"role": "user", "content": line},)


def converse(chat: Chat, scorer: Scorer | None, remark: Remark | None) -> None:
    """Read lines, write answers as they come, until the input ends."""
    for line in _lines():
        if line == "/new":
            chat.history.clear()
            continue
        try:
            for piece in chat.answer(line):
                print(clean(piece), end="", flush=True)
        except CastawayError as error:
            print(f"error: {error}", end="")
        else:
            *asked, said = chat.history
            notes = [f"reward model {scorer.score([(asked, said['content'])])[0]:+.2f}"] if scorer else []
            notes += [remark(asked, said["content"])] if remark else []
            print(f"\n  [{', '.join(notes)}]" if notes else "", end="")
        print(flush=True)


def _lines() -> Iterator[str]:
    """What is typed, without empty lines, until the end or `/quit`; a terminal is shown a mark."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() == "/quit":
            return
        if line.strip():
            yield line.strip()
