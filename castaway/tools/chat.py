"""Chat with a trained model, using its own chat template and stop token; the reply is shown while it is generated.

    castaway chat --run strictbot

Each line of input, from a terminal or a pipe, is one turn. `/new` starts a new conversation; `/quit` or the end of the
input ends the program.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from transformers import AutoModelForCausalLM, StoppingCriteriaList, TextIteratorStreamer
from transformers.utils import logging

from castaway.errors import CastawayError
from castaway.models.scorer import Scorer
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Message
from castaway.tasks.registry import read_params
from castaway.tools.loops import LoopStop
from castaway.tools.transcript import clean

Ask = Callable[[str], tuple[Message, ...]]
"""Makes a task's prompt from a typed line: an optional system message and a user message."""
Remark = Callable[[Sequence[Message], str], str]
"""Makes a remark on a reply, given the conversation before it; it is shown beside the score."""


CUT = " ... (cut: it repeats itself)"
"""Shown after an answer that was cut."""


@dataclass(slots=True)
class Chat:
    """A conversation with one model."""

    model: Any
    tokenizer: ChatTokenizer
    ask: Ask
    temperature: float
    """0 always takes the most likely token."""
    max_new_tokens: int
    one_turn: bool = False
    """Whether each line starts a new conversation."""
    history: list[Message] = field(default_factory=list)
    cut: int = 0
    """Number of answers that were cut because they repeated themselves."""

    def answer(self, line: str) -> Iterator[str]:
        """Yield the reply to a line, piece by piece; both become part of the history.

        Raises:
            CastawayError: the line is too long for the model.
        """
        self._remember(self.ask(line))
        pieces: list[str] = []
        for piece in self._stream():
            pieces.append(piece)
            yield piece
        self.history.append({"role": "assistant", "content": "".join(pieces)})

    def _remember(self, messages: Sequence[Message]) -> None:
        """Append the messages, without a second system message; delete the oldest turns if the history is too long."""
        self.history += [message for message in messages if message["role"] != "system" or not self.history]
        room = self.model.config.max_position_embeddings - self.max_new_tokens
        first = 1 if self.history[0]["role"] == "system" else 0
        while len(self.tokenizer.prompt(self.history)) > room:
            if len(self.history) <= first + 1:
                self.history.pop()
                raise CastawayError(f"that is too long: with its answer it does not fit into the model's {room} tokens")
            # A question and its reply go together.
            del self.history[first : first + 2]

    def _stream(self) -> Iterator[str]:
        """Generate in a thread, and yield text as it comes, without the stop token."""
        tokens = torch.tensor([self.tokenizer.prompt(self.history)], device=self.model.device)
        streamer = TextIteratorStreamer(self.tokenizer.tokenizer, skip_prompt=True, skip_special_tokens=True)
        sampling = {"do_sample": True, "temperature": self.temperature, "top_k": 0} if self.temperature else {}
        loop = LoopStop(tokens.shape[1])
        thread = Thread(
            target=self._generate,
            args=(streamer,),
            kwargs={
                "input_ids": tokens,
                "attention_mask": torch.ones_like(tokens),
                "max_new_tokens": self.max_new_tokens,
                "eos_token_id": sorted(self.tokenizer.stops),
                "pad_token_id": self.tokenizer.pad,
                "stopping_criteria": StoppingCriteriaList([loop]),
                **(sampling or {"do_sample": False}),
            },
        )
        thread.start()
        yield from streamer
        thread.join()
        if loop.stopped:
            self.cut += 1
            yield CUT

    def _generate(self, streamer: TextIteratorStreamer, **arguments: Any) -> None:
        """Generate; the streamer is ended in any case, as its reader would otherwise wait for ever after an error."""
        try:
            with torch.inference_mode():
                self.model.generate(streamer=streamer, **arguments)
        finally:
            streamer.end()


def load_chat(folder: Path, ask: Ask, temperature: float, max_new_tokens: int) -> Chat:
    """A conversation with the model in a folder of plain transformers files, without bars and warnings of libraries.

    Raises:
        CastawayError: the folder has no readable model, or its tokenizer has no chat template.
    """
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    try:
        tokenizer = ChatTokenizer.load(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise CastawayError(f"the model in {folder} cannot be read: {error}") from None
    return Chat(model.eval(), tokenizer, ask, temperature, max_new_tokens)


def load_scorer(root: Path, run: str, tokenizer: ChatTokenizer) -> Scorer:
    """The reward model of a run.

    Raises:
        CastawayError: there is no such run, or its reward model has not been built.
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
    """The typed line as a user message, unchanged."""
    return ({"role": "user", "content": line},)


def converse(chat: Chat, scorer: Scorer | None, remark: Remark | None) -> None:
    """Read lines and print the replies while they are generated, until the input ends."""
    for line in _lines():
        if line == "/new" or chat.one_turn:
            chat.history.clear()
        if line == "/new":
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
    if chat.cut:
        print(f"answers cut because they repeated themselves: {chat.cut}", file=sys.stderr)


def _lines() -> Iterator[str]:
    """The lines of standard input without empty ones, until its end or `/quit`; a terminal shows a `>` before each."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() == "/quit":
            return
        if line.strip():
            yield line.strip()
