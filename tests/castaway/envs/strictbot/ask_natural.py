"""Types the hand-written questions into chats with models of STRICTBOT, and counts right levels and facts.

    python -m tests.castaway.envs.strictbot.ask_natural trained=data/strictbot/merge untrained=data/smollm2/base
    python -m tests.castaway.envs.strictbot.ask_natural --rendering compact tiny=data/strictbot/merge

Each question is asked as `castaway chat --run strictbot` asks it, with its known fact behind a bar, one question a
conversation, with the chat's own temperature and length. The questions are a sealed test set
(natural.yaml): look at answers only when nothing more is to be tuned.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml import YAML

from castaway.envs.strictbot.language import Rendering, language_of
from castaway.envs.strictbot.question_bank import LEVEL_OF
from castaway.envs.strictbot.rewards import StrictbotParams
from castaway.metrics.markdown import table, with_interval
from castaway.models.training import seed_everything
from castaway.tasks.intervals import proportion
from castaway.tasks.reply import parse_reply
from castaway.tools.chat import load_chat
from castaway.tools.cli.main import CHAT_TEMPERATURE, CHAT_TOKENS
from castaway.tools.strictbot.view import StrictbotView

QUESTIONS = Path(__file__).with_name("natural.yaml")
HEADER = ["model", "right level and fact", "right level", "right fact"]


def main(
    models: Annotated[list[str], typer.Argument(metavar="NAME=FOLDER", help="Names for the table, and models.")],
    rendering: Annotated[Rendering, typer.Option(help="Of the prompts.")] = "full",
    answers: Annotated[Path | None, typer.Option(help="File for all answers, one JSON object a line.")] = None,
) -> None:
    """Ask the hand-written questions."""
    rows = []
    for name, folder in (text.split("=", 1) for text in models):
        answered = [{"model": name, **one} for one in asked(Path(folder), rendering)]
        rows.append([name, *figures(answered)])
        if answers:
            with answers.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in answered)
    print(table(HEADER, rows))


def asked(folder: Path, rendering: Rendering) -> Iterator[dict[str, Any]]:
    """What the model in `folder` answers to each question, with the level wanted and the level produced (0: none)."""
    seed_everything(1, threads=1)
    game = StrictbotParams.model_construct(rendering=rendering)  # a chat pays no rewards
    chat = load_chat(folder, StrictbotView("strictbot", game).chat_messages, CHAT_TEMPERATURE, CHAT_TOKENS)
    language = language_of(rendering)
    for row in YAML(typ="safe", pure=True).load(QUESTIONS.read_text("utf-8")):
        chat.history.clear()
        reply = "".join(chat.answer(f"{row['asked']} | {row['fact']}"))
        # A model that was never shown the format answers without it.
        said, fact = parse_reply(reply).action or reply, language.prompts.typed(row["fact"])
        (produced,) = language.judge.produced_levels([(said, fact)])
        yield {
            "asked": row["asked"],
            "fact": row["fact"],
            "wanted": LEVEL_OF[row["kind"]],
            "answer": reply,
            "produced": produced,
            "factual": language.reader.says(said, fact),
        }


def figures(answered: Sequence[dict[str, Any]]) -> list[str]:
    """The cells of a model: shares with their 95 % intervals."""
    level = [one["produced"] == one["wanted"] for one in answered]
    fact = [one["factual"] for one in answered]
    both = [one and other for one, other in zip(level, fact, strict=True)]
    return [with_interval(proportion(sum(values), len(values))) for values in (both, level, fact)]


if __name__ == "__main__":
    typer.run(main)
