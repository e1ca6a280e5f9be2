"""How a task is shown to people: a chat, charts, and a page of an episode.

A task can provide its own subclass of `TaskView`, by an entry point of the group `castaway.views` with the name of the
task. No stage depends on views, so that a change in a view makes no stage run again. Pages are single HTML files
without requests to any host; text of models is escaped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from castaway.config.errors import CastawayError
from castaway.config.section import Section
from castaway.rollout.episodes import Row
from castaway.tasks.environment import Message
from castaway.tasks.registry import task_class
from castaway.tools.transcript import clean, happenings, heading_of, in_heading, last_turn, title

GROUP = "castaway.views"
ITEMS = 60  # entries of a list that are shown at most
LONGEST = 20_000  # characters of one moment that are shown, so that a page stays small

Chart = tuple[Mapping[str, Any], str]
"""The groups of bars and the name of the figure to draw: the arguments of `castaway.tools.charts.grouped_bars`."""
State = Callable[[Row], Iterable[str]]  # the lines about a moment itself, above those about what happened in it


class Unanswered(CastawayError):
    """Why a typed line gets no answer, in a friendly sentence: it is no mistake."""


class TaskView:
    """How a task is shown to people; the methods here are the defaults."""

    chats: bool = False  # whether one can talk to a model of this task
    one_turn: bool = False  # whether each line of a chat is an episode of its own, as where an episode is one question
    facts: Path | None = None  # file or folder with what a user knows; only where `looks_up`
    looks_up: bool = False  # whether a chat looks up what is known

    def __init__(self, task: str, game: Section | None = None) -> None:
        self.task = task
        self.game = game

    def chat_messages(self, line: str) -> tuple[Message, ...]:
        """The prompt for a typed line; used if `chats`. A line of which no prompt can be made is a CastawayError.

        Example: `return ({"role": "user", "content": f"question: {line}"},)`. By default the line as it is.
        """
        return ({"role": "user", "content": line},)

    def chat_source(self, line: str) -> str:
        """What the prompt for a line was made from, shown above the reply; by default nothing."""
        return ""

    def chat_fault(self, messages: Sequence[Message], answer: str) -> bool:
        """Whether an answer is not fit to be shown and is to be drawn again; asked where a chat is `one_turn`."""
        return False

    def chat_remark(self, messages: Sequence[Message], answer: str) -> str:
        """A remark shown next to the reward model's score of an answer, for example `"level 2"`; by default empty."""
        return ""

    def charts(self, metrics: Mapping[str, Any]) -> dict[str, Chart]:
        """Bar charts of the metrics of evaluation, by file name. By default none.

        Example: `return {"games.svg": (metrics["games"], "success_rate")}`.
        """
        return {}

    def brief(self, rows: Sequence[Row]) -> list[str]:
        """What happened in a saved episode, for the end of a build, in a few lines; by default its last turn."""
        return last_turn(rows)

    def state(self, moment: Row) -> Iterable[str]:
        """Lines about a moment of a saved episode, such as a board; by default the plain values of its snapshot."""
        return values(moment)

    def page(self, rows: Sequence[Row]) -> str:
        """A saved episode as one HTML file, by default one that steps through its moments."""
        return render("episode.html.jinja", replay=replay_of(rows, self.state))


def view_of(task: str, game: Section | None = None) -> TaskView:
    """The view of a task: its own, or the default one; a chat needs the `game` section of its run."""
    task_class(task)  # only for its error: without it, an unknown task would get the default view
    for point in entry_points(group=GROUP, name=task):
        view = point.load()
        if not (isinstance(view, type) and issubclass(view, TaskView)):
            raise CastawayError(f"the view of {task} is {point.value}, which is not a subclass of {__name__}.TaskView")
        return view(task, game)
    return TaskView(task, game)


# The page of an episode of any task ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    title: str
    state: str  # the task's own picture of it
    happened: str  # what was asked, replied and executed
    valid: bool  # whether each reply in it was a legal action


@dataclass(frozen=True)
class Replay:
    heading: str
    success: bool
    moments: Sequence[Moment]


def values(moment: Row) -> Iterator[str]:
    """The values of a snapshot that are text, numbers, or lists of these."""
    for name, value in moment.items():
        if name in in_heading(moment) or value in ("", None):
            continue
        if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
            value = ", ".join(map(str, [*value[:ITEMS], *(["..."] if len(value) > ITEMS else [])]))
        if isinstance(value, str | int | float):
            words = clean(str(value)).rstrip("\n")
            # A board has to begin at the beginning of a line.
            yield f"{name}:\n{words}" if "\n" in words else f"{name}: {words}"


def replay_of(rows: Sequence[Row], state: State = values) -> Replay:
    """The replay of an episode in the form that `castaway.rollout.episodes.read_episode` returns."""
    head, *moments = rows
    success = bool(head.get("success"))
    replayed = []
    for moment, following in pairwise(moments):
        lines = "\n".join(line.removeprefix("  ") for line in happenings(moment, following))
        valid = all(bool(said.get("valid")) for said in moment["said"].values())
        replayed.append(Moment(title(moment), _cut("\n".join(state(moment))), _cut(lines), valid))
    end = f"{'success' if success else 'failure'}, {clean(str(head.get('ending', '')))}"
    last = _cut("\n".join(state(moments[-1]))) if moments else ""
    return Replay(heading_of(head), success, [*replayed, Moment("The end", last, end, success)])


def _cut(text: str) -> str:
    return f"{text[:LONGEST]}\n[the rest is in the file]" if len(text) > LONGEST else text


def render(template: str, **content: Any) -> str:
    """A page made of a template in `castaway/tools`; what is put into it is escaped, but for what is `Markup`."""
    maker = Environment(
        loader=FileSystemLoader([Path(__file__).parent / "templates", Path(__file__).parent / "marooned"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return maker.get_template(template).render(**content)
