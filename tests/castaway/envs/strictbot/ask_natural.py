"""Types the hand-written questions into chats with models of STRICTBOT, and counts right levels and facts.

    python -m tests.castaway.envs.strictbot.ask_natural --rendering compact tiny=data/strictbot/merge

They are a sealed test set; each is a chat of its own, as `castaway chat --run strictbot`, with its fact behind a bar.
"""

from pathlib import Path
from typing import Annotated

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


def main(
    models: Annotated[list[str], typer.Argument(metavar="NAME=FOLDER", help="Names for the table, and models.")],
    rendering: Annotated[Rendering, typer.Option(help="Of the prompts.")] = "full",
) -> None:
    """Ask the hand-written questions, and print shares with their 95 % intervals."""
    rows = [[name, *shares(Path(folder), rendering)] for name, folder in (text.split("=", 1) for text in models)]
    print(table(["model", "right level and fact", "right level", "right fact"], rows))


def shares(folder: Path, rendering: Rendering) -> list[str]:
    seed_everything(1, threads=1)
    game = StrictbotParams.model_construct(rendering=rendering)  # a chat pays no rewards
    chat = load_chat(folder, StrictbotView("strictbot", game).chat_messages, CHAT_TEMPERATURE, CHAT_TOKENS)
    language, right = language_of(rendering), list[tuple[bool, bool, bool]]()
    for row in YAML(typ="safe", pure=True).load(QUESTIONS.read_text("utf-8")):
        chat.history.clear()
        reply = "".join(chat.answer(f"{row['asked']} | {row['fact']}"))
        # A model that was never shown the format answers without it.
        said, fact = parse_reply(reply).action or reply, language.prompts.typed(row["fact"])
        (produced,) = language.judge.produced_levels([(said, fact)])
        level, factual = produced == LEVEL_OF[row["kind"]], language.reader.says(said, fact)
        right.append((level and factual, level, factual))
    return [with_interval(proportion(sum(one), len(one))) for one in zip(*right, strict=True)]


if __name__ == "__main__":
    typer.run(main)
