"""README and docs: links lead somewhere, files that are named exist, and every command is understood by its program.

What stands there to be typed is parsed by the program that it calls, and run where that only reads.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.castaway.command import castaway

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

GENERATED = {"docs/images/learning.svg"}
"""Made by `make images`; it may be missing in a clone that has built nothing."""

READS = re.compile(r"castaway (params|profile|results( \w+)?( --all)?|lineage [\w/]+( --json)?|openspiel id \d+)")
"""Commands that write nothing and are cheap: they are run, and must end with exit status 0."""
WRITES = re.compile(r"castaway .*--write (\S+\.md)")
"""Commands that write to a page: they are run on a copy of it."""
OTHERS = {".", "cd", "export", "git", "pip", "prefect", "python3"}
"""Programs of others, which are not asked."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`((?:castaway|dvc|git|make|mlflow|pip|prefect|python) [^`]+)`")
PATH = re.compile(r"`((?:benchmarks|castaway|docs|flows|setup|stages|tests)/[\w./*]+)`")


def pages() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", PAGES, ids=NAMES)


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def prose(page: Path) -> str:
    """The page without blocks of code."""
    return FENCE.sub("", text_of(page))


def commands(page: Path) -> Iterator[str]:
    """What stands there to be typed: lines of shell blocks, and commands in the running text."""
    blocks = [body.replace("\\\n", " ") for language, body in FENCE.findall(text_of(page)) if language == "sh"]
    lines = [re.split(r"(?:^|\s+)#", line)[0].strip() for block in blocks for line in block.split("\n")]
    yield from filter(None, lines)
    yield from (" ".join(command.split()) for command in INLINE.findall(prose(page)))


COMMANDS = sorted({command for page in PAGES for command in commands(page)})

# Links ---------------------------------------------------------------------------------------------------------------


@pages()
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page)) + re.findall(r'<img src="([^"]+)"', prose(page))
    for target in targets:
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        name = linked.relative_to(ROOT).as_posix()
        assert linked.exists() or name in GENERATED, f"{target} does not exist"
        if anchor:
            assert anchor in anchors(linked), f"{target}: {name} has no such heading"


@pages()
def test_files_that_are_named_exist(page: Path) -> None:
    """Names in capitals stand for others: `castaway/envs/TASK/rubric.txt`."""
    named = [path for path in PATH.findall(prose(page)) if not re.search(r"[A-Z]{4}", path)]
    assert [path for path in named if not list(ROOT.glob(path.rstrip("/")))] == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# Commands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_understood(command: str) -> None:
    words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word) or command.startswith("make")]
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "castaway":
        of_castaway(rest)
    elif program == "make":
        of_make(rest)
    elif program == "dvc":
        from dvc.cli.parser import get_main_parser

        get_main_parser().parse_args(rest)
    elif program == "pytest":
        assert [path for path in rest if not (ROOT / path).exists()] == []
    elif rest[:2] == ["-m", "flows"]:
        from flows.__main__ import parser

        parser().parse_args(rest[2:])
    elif rest[:1] == ["-m"] and program == "python":
        of_module(rest[1], rest[2:])
    else:
        assert program in OTHERS, f"nobody knows {program}"


@pytest.mark.parametrize("command", [command for command in COMMANDS if READS.fullmatch(command)])
def test_it_runs(command: str) -> None:
    done = castaway(*shlex.split(command)[1:])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", [command for command in COMMANDS if WRITES.fullmatch(command)])
def test_it_writes(command: str, tmp_path: Path) -> None:
    _, *words, name = shlex.split(command)
    shutil.copy(ROOT / name, tmp_path / "page.md")
    done = castaway(*words, str(tmp_path / "page.md"))
    assert done.exit_code == 0, done.output


def of_castaway(words: list[str]) -> None:
    """The command and its options exist, and take what follows."""
    import typer

    from castaway.tools.cli.main import app

    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    if words[:1] == ["--help"]:
        return
    assert not getattr(command, "commands", {}), f"{words[:1]} is no command"
    # Parsed, with what it requires, and not run.
    command.make_context("castaway", list(words))


def of_make(words: list[str]) -> None:
    """Targets are in the Makefile; variables there, or in the scripts that it starts."""
    text = (ROOT / "Makefile").read_text("utf-8")
    scripts = "".join(path.read_text("utf-8") for path in ROOT.glob("setup/*.py"))
    for word in words:
        name, assigned, _ = word.partition("=")
        known = re.search(rf"\b{name}\b", text + scripts) if assigned else re.search(rf"^{name}:", text, re.MULTILINE)
        assert known, f"the Makefile has no {name}"


def of_module(module: str, words: list[str]) -> None:
    """A benchmark: the module exists, and its code or that of another one knows the options."""
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
    code = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
    assert [word for word in words if word.startswith("--") and f'"{word}"' not in code] == []
