"""Types the hand-written questions into chats with models of STRICTBOT, and counts right levels, facts and loops.

    python -m benchmarks.natural trained=data/strictbot/merge untrained=data/smollm2/base
    python -m benchmarks.natural --rendering compact --answers answers.jsonl tiny=data/strictbot/merge

Each question is asked as `castaway chat --run strictbot` asks it, with its known fact behind a bar, one question a
conversation, with the chat's own temperature and length. The questions are a sealed test set
(tests/castaway/envs/strictbot/natural.yaml): look at answers only when nothing more is to be tuned.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import get_args

from ruamel.yaml import YAML

from benchmarks.folders import named_folder
from castaway.cli.main import CHAT_TEMPERATURE, CHAT_TOKENS
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.renderings import Rendering, language_of
from castaway.metrics.intervals import proportion
from castaway.metrics.markdown import percent, table
from castaway.models.training import seed_everything
from castaway.tasks.reply import parse_reply
from castaway.tools.chat import Chat, load_chat
from castaway.tools.strictbot.view import StrictbotView

QUESTIONS = Path(__file__).parents[1] / "tests" / "castaway" / "envs" / "strictbot" / "natural.yaml"
HEADER = ["model", "right level and fact", "right level", "right fact", "cut: it repeats itself"]


@dataclass(frozen=True)
class Answered:
    """A question, and what a model answered."""

    model: str
    asked: str
    fact: str
    wanted: int
    """The level that the question deserves."""
    answer: str
    produced: int
    """The level of the answer according to the judge; 0 for none."""
    factual: bool
    """Whether the answer contains the fact, word for word."""
    loop: bool
    """Whether the answer was cut because it repeated itself."""


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks.natural", description="Ask the hand-written questions.")
    top.add_argument(
        "models",
        nargs="+",
        type=named_folder,
        metavar="NAME=FOLDER",
        help="a name for the table, and a folder of a model",
    )
    top.add_argument("--rendering", choices=get_args(Rendering), default="full", help="in which the models are asked")
    top.add_argument("--answers", type=Path, help="file for all answers, one JSON object a line")
    asked = top.parse_args()
    rows: list[list[str]] = []
    for name, folder in asked.models:
        found = list(answers(name, folder, asked.rendering))
        rows.append(figures(name, found))
        if asked.answers:
            with asked.answers.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found)
    print(table(HEADER, rows))


def answers(name: str, folder: Path, rendering: Rendering) -> Iterator[Answered]:
    """The answers of the model in `folder` to all questions, in their order."""
    seed_everything(1, threads=1)
    game = StrictbotParams(
        rendering=rendering,
        factual_weight=1.0,
        constructiveness_weight=0.5,
        toxicity_weight=2.0,
        toxicity_model=None,
        inconsistency_weight=1.0,
    )
    chat = load_chat(folder, StrictbotView("strictbot", game).chat_messages, CHAT_TEMPERATURE, CHAT_TOKENS)
    language = language_of(rendering)
    for row in YAML(typ="safe", pure=True).load(QUESTIONS.read_text("utf-8")):
        reply, loop = reply_to(chat, f"{row['asked']} | {row['fact']}")
        # A model that was never shown the format answers without it.
        answer, fact = parse_reply(reply).action or reply, language.prompts.typed(row["fact"])
        (produced,) = language.judge.produced_levels([(answer, fact)])
        says = language.reader.says(answer, fact)
        yield Answered(name, row["asked"], row["fact"], row["level"], reply, produced, says, loop)


def reply_to(chat: Chat, line: str) -> tuple[str, bool]:
    """The reply to a line that begins a new conversation, and whether it was cut because it repeated itself."""
    alone = replace(chat, history=[], cut=0)
    return "".join(alone.answer(line)), alone.cut > 0


def figures(name: str, found: Sequence[Answered]) -> list[str]:
    """A row of the table: shares with their 95 % intervals, and the number of loops."""
    level = [one.produced == one.wanted for one in found]
    fact = [one.factual for one in found]
    both = [one and other for one, other in zip(level, fact, strict=True)]
    return [name, *(share(values) for values in (both, level, fact)), str(sum(one.loop for one in found))]


def share(values: Sequence[bool]) -> str:
    found = proportion(sum(values), len(values))
    return f"{percent(found.value)} ({100 * found.low:.1f}-{100 * found.high:.1f})"


if __name__ == "__main__":
    main()
