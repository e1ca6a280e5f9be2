"""Chat with a trained model, using its own chat template and stop token; the reply is shown while it is generated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList, TextIteratorStreamer

from castaway.config.errors import CastawayError
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Message
from castaway.tasks.registry import read_params
from castaway.tools.transcript import clean
from castaway.tools.view import TaskView, Unanswered
from castaway.tools.weights import quieten

if TYPE_CHECKING:
    from castaway.models.reward import RewardScorer

Ask = Callable[[str], tuple[Message, ...]]
"""Makes a task's prompt from a typed line: an optional system message and a user message."""
Faulty = Callable[[Sequence[Message], str], bool]
"""Whether a reply to a conversation is not fit to be shown."""
DRAWS, LEAST = 2, 0.3  # how often a reply is drawn until one is fit, and the temperature from the second time on
CUT = " ... (cut: it repeats itself)"
LONGEST = 16  # largest number of tokens of the piece that is repeated
TIMES, TOKENS = 4, 12  # a piece is a loop when it stands there this often in a row, and makes up this many tokens


@dataclass(slots=True)
class Chat:
    model: Any
    tokenizer: ChatTokenizer
    ask: Ask
    temperature: float  # 0 always takes the most likely token
    max_new_tokens: int
    one_turn: bool = False  # whether each line starts a new conversation
    faulty: Faulty | None = None  # whether a reply is not fit to be shown; if given, replies are shown when complete
    history: list[Message] = field(default_factory=list)
    cut: int = 0  # number of answers that were cut because they repeated themselves

    def answer(self, line: str) -> Iterator[str]:
        """Yield the reply to a line, piece by piece; both become part of the history."""
        self._remember(self.ask(line))
        pieces: list[str] = []
        for piece in self._checked(self.faulty) if self.faulty else self._stream(self.temperature):
            pieces.append(piece)
            yield piece
        self.cut += pieces[-1:] == [CUT]
        self.history.append({"role": "assistant", "content": "".join(pieces)})

    def _checked(self, faulty: Faulty) -> Iterator[str]:
        """A whole reply, one that is fit to be shown."""
        for draw in range(DRAWS):
            *_, cut = pieces = list(self._stream(max(self.temperature, LEAST) if draw else self.temperature))
            if cut != CUT and not faulty(self.history, "".join(pieces)):
                yield "".join(pieces)
                return
        self.history.pop()
        raise Unanswered("I cannot put that into words; please ask it in another way.")

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

    def _stream(self, temperature: float) -> Iterator[str]:
        tokens = torch.tensor([self.tokenizer.prompt(self.history)], device=self.model.device)
        streamer = TextIteratorStreamer(self.tokenizer.tokenizer, skip_prompt=True, skip_special_tokens=True)
        sampled = {"do_sample": True, "temperature": temperature, "top_k": 0}
        loop = LoopStop(tokens.shape[1])
        arguments = {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "max_new_tokens": self.max_new_tokens,
            "eos_token_id": sorted(self.tokenizer.stops),
            "pad_token_id": self.tokenizer.pad,
            "stopping_criteria": StoppingCriteriaList([loop]),
            **(sampled if temperature else {"do_sample": False}),
        }
        thread = Thread(target=self._generate, args=(streamer,), kwargs=arguments)
        thread.start()
        yield from streamer
        thread.join()
        if loop.stopped:
            yield CUT

    def _generate(self, streamer: TextIteratorStreamer, **arguments: Any) -> None:
        """Generate; the streamer is ended in any case, as its reader would otherwise wait for ever after an error."""
        try:
            with torch.inference_mode():
                self.model.generate(streamer=streamer, **arguments)
        finally:
            streamer.end()


def load_chat(folder: Path, ask: Ask, temperature: float, max_new_tokens: int) -> Chat:
    """A conversation with the model in a folder of plain transformers files, without bars and warnings of libraries."""
    quieten()
    try:
        tokenizer = ChatTokenizer.load(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise CastawayError(f"the model in {folder} cannot be read: {error}") from None
    return Chat(model.eval(), tokenizer, ask, temperature, max_new_tokens)


def load_scorer(root: Path, run: str, tokenizer: ChatTokenizer) -> RewardScorer:
    from castaway.models.reward import RewardScorer  # and PEFT with it: slow to import

    data, base = root / "data", read_params(root / "params.yaml").tasks[run].base
    reward, start, sft = data / run / "reward_model", data / base / "base", data / run / "sft"
    for folder in (reward, start, sft):
        if not folder.is_dir():
            raise CastawayError(f"{folder} does not exist: the score needs what `dvc repro reward_model@{run}` builds")
    return RewardScorer.load(reward, start, [sft], tokenizer)


def converse(chat: Chat, scorer: RewardScorer | None, view: TaskView) -> None:
    """Read lines and print the replies, until the input ends; with a scorer each one's score and the view's remark."""
    for line in _lines():
        if line == "/new" or chat.one_turn:
            chat.history.clear()
        if line == "/new":
            continue
        try:
            if source := view.chat_source(line):
                print(f"  [{clean(source)}]", flush=True)
            for piece in chat.answer(line):
                print(clean(piece), end="", flush=True)
        except Unanswered as excuse:
            print(clean(str(excuse)), end="")
        except CastawayError as error:
            print(f"error: {error}", end="")
        else:
            *asked, said = chat.history
            if scorer:
                score, remark = scorer.score([(asked, said["content"])])[0], view.chat_remark(asked, said["content"])
                print(f"\n  [reward model {score:+.2f}{', ' if remark else ''}{remark}]", end="")
        print(flush=True)
    if chat.cut:
        print(f"answers cut because they repeated themselves: {chat.cut}", file=sys.stderr)


def _lines() -> Iterator[str]:
    prompt = "> " if sys.stdin.isatty() else ""
    with suppress(EOFError):
        while (line := input(prompt).strip()) != "/quit":
            if line:
                yield line


def loops(tokens: Sequence[int]) -> bool:
    """Whether the tokens end in a piece that is repeated, at least `TIMES` times and over at least `TOKENS` tokens."""
    for size in range(1, LONGEST + 1):
        count = max(TIMES, -(-TOKENS // size))
        end = list(tokens[-size * count :])
        if len(end) == size * count and end == end[:size] * count:
            return True
    return False


class LoopStop(StoppingCriteria):
    """Stops `generate` when an answer repeats itself, and remembers that it did."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self.stopped = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **_: Any) -> Any:
        self.stopped = loops(input_ids[0, self._prompt :].tolist())
        return torch.full((len(input_ids),), self.stopped, dtype=torch.bool, device=input_ids.device)
