"""README and docs: short enough, with links that lead somewhere, and with commands that exist.

Every command that stands there is in one of the tables below, which say how it is checked. A new one has to be added.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

GENERATED = {"docs/images/dag.svg", "docs/images/learning.svg", "docs/images/replay.png"}
"""Made by `make images`; they may be missing in a clone that has built nothing."""

RUN = {
    "castaway lineage marooned",
    "castaway lineage strictbot",
    "castaway lineage marooned/ppo --json",
    "castaway params",
    "castaway profile",
    "castaway results",
    "castaway task id 123456789",
    "python -m flows closure",
}
"""Cheap: run here, and must end with exit status 0."""

WRITE = {
    "castaway results --headline --write README.md",
    "castaway results --write docs/results.md",
    "castaway rules --write docs/marooned.md",
}
"""Run here on a copy of the page that they write to."""

PARSED = {
    "castaway balance": "minutes",
    "castaway balance --scenario skiff --episodes 500": "minutes",
    "castaway chat --run strictbot": "asks a person; tests/castaway/tools/test_chat.py",
    "castaway chat --run strictbot --score": "asks a person; tests/castaway/tools/test_chat.py",
    "castaway compare": "depends on the experiments; tests/castaway/tools/test_experiments.py",
    "castaway compare --json": "depends on the experiments; tests/castaway/tools/test_experiments.py",
    "castaway compare HEAD~1 now --run strictbot": "needs history; tests/castaway/tools/test_experiments.py",
    "castaway configure": "asks a person; tests/castaway/tools/profiles/test_files.py",
    "castaway doctor": "asks servers; tests/castaway/tools/doctor/test_report.py",
    "castaway episode data/marooned/evaluate/final/EPISODE.jsonl": "needs a build; tests/castaway/cli/test_main.py",
    "castaway openenv": "a server; tests/castaway/integrations/test_openenv.py",
    "castaway openenv --scenario skiff": "a server; tests/castaway/integrations/test_openenv.py",
    "castaway play --model data/marooned/merge": "asks a person, needs a build",
    "castaway play --sailor Bob": "asks a person; tests/castaway/tools/marooned/test_terminal.py",
    "castaway profile qwen2.5-3b": "plays; tests/castaway/cli/test_main.py",
    "castaway diff": "depends on the tree; tests/castaway/tools/test_differences.py",
    "castaway diff HEAD~5:strictbot strictbot": "needs history; tests/castaway/tools/test_differences.py",
    "castaway lineage strictbot --html lineage.html": "writes a file; tests/castaway/tools/lineage",
    "castaway diff strictbot strictbot-small --json": "needs both runs; tests/castaway/tools/test_differences.py",
    "castaway profile qwen2.5-3b --write": "changes the repository; tests/castaway/cli/test_main.py",
    "castaway push strictbot you/strictbot": "needs a build; tests/castaway/tools/test_publish.py",
    "castaway push strictbot you/strictbot --yes": "uploads; tests/castaway/tools/test_publish.py",
    "castaway replay EPISODE.jsonl": "needs a build; tests/castaway/cli/test_main.py",
    "castaway replay data/marooned/evaluate/final/EPISODE.jsonl": "needs a build; tests/castaway/cli/test_main.py",
    "castaway report strictbot": "writes a file; tests/castaway/tools/report",
    "castaway task check NAME": "any name",
    "castaway task check lights": "needs the package of the line before",
    "castaway task new NAME --to FOLDER": "any name",
    "castaway task new lights --to plugins/lights": "writes into the repository",
    "castaway teacher bench": "a server; tests/castaway/cli/test_teacher.py",
    "castaway teacher check": "a server; tests/castaway/cli/test_teacher.py",
    "castaway teacher serve FOLDER_OR_NAME": "a server; tests/vllm/test_serve.py",
    "python -m benchmarks.search strictbot ppo.learning_rate=1e-4:1e-2:log ppo.epochs=1:4:int --trials 20": (
        "hours; tests/benchmarks/test_search.py"
    ),
    "dvc exp run --queue -S seed=1,2,3": "hours; tests/flows/test_sweeps.py",
    "dvc exp run --temp": "forty minutes; tests/flows/test_sweeps.py",
    "dvc exp run --temp -S seed=2": "forty minutes",
    "dvc exp run -S 'tasks.openspiel.game.hard.opponents=[random,self]' merge@openspiel": "forty minutes",
    "dvc exp run -S tasks.strictbot.ppo.learning_rate=2e-4": "three minutes",
    "dvc exp run -S tasks.marooned.ppo.steps=30": "forty minutes",
    "dvc exp show": "DVC's own",
    "dvc metrics diff": "DVC's own",
    "dvc params diff": "DVC's own",
    "dvc plots show": "DVC's own",
    "dvc pull": "needs a remote",
    "dvc push": "needs a remote",
    "dvc queue start --jobs 1": "needs a queue; tests/flows/test_sweeps.py",
    "dvc remote add -d store /path/or/url": "changes the repository",
    "dvc remote add store s3://BUCKET/PATH": "changes the repository",
    "dvc repro": "forty minutes; tests/test_whole_pipeline.py",
    "dvc repro -s -f sft@marooned": "forty minutes; tests/test_whole_pipeline.py",
    "dvc repro evaluate@strictbot_longer": "forty minutes",
    "dvc repro merge@lights evaluate@lights": "minutes",
    "dvc repro merge@openspiel": "forty minutes",
    "dvc repro sft@marooned": "minutes; tests/test_whole_pipeline.py",
    "dvc status": "DVC's own; tests/test_whole_pipeline.py",
    "make demo": "minutes; tests/flows/test_profile.py",
    "make lock": "needs the network",
    "make lock UPGRADE=1": "needs the network",
    "make images": "needs a build and a browser; tests/castaway/tools/test_images.py",
    "make repro": "forty minutes; tests/test_whole_pipeline.py",
    "make repro PROFILE=sizes": "an hour; tests/flows/test_profile.py",
    "make repro PROFILE=smollm2": "hours; tests/test_families.py",
    'make repro PROFILE=smollm2 TARGETS="evaluate@strictbot merge@strictbot"': "hours; tests/test_families.py",
    'make repro PROFILE=smollm2-bfloat16 TARGETS="evaluate@strictbot merge@strictbot"': "hours; tests/test_families.py",
    "make repro TARGETS=sft@marooned": "minutes",
    "make setup": "downloads",
    "make setup UV_TORCH_BACKEND=cpu": "downloads",
    "make setup-vllm": "downloads",
    "make test": "this",
    "make test-all": "half an hour; this",
    "make test-nf4": "downloads; tests/nf4",
    "make test-plugins": "downloads; the tests of plugins/*",
    "make test-vllm": "downloads vLLM; tests/vllm",
    "make ui": "servers; tests/flows/test_pages.py",
    "make ui ROOT=scratch/demo PORT=5001 PREFECT_PORT=4201": "servers; tests/flows/test_pages.py",
    "python -m benchmarks.ablation 1 2 3 --task openspiel": "hours",
    "python -m benchmarks.corrections 1 --task marooned": "minutes; tests/test_whole_pipeline.py",
    "python -m benchmarks.hints 1 2 3 --task marooned": "hours; tests/benchmarks/test_hints.py",
    "python -m benchmarks.imitation 1 2 3 --task marooned": "minutes of training; tests/benchmarks/test_imitation.py",
    "python -m benchmarks.memory": "minutes; tests/castaway/tools/profiles/test_memory.py",
    "python -m benchmarks.players": "minutes",
    "python -m benchmarks.profiles sizes": "needs a build; tests/benchmarks/test_profiles.py",
    "python -m benchmarks.profiles sizes --task openspiel --seeds 2 3 --block 21": "hours",
    "python -m benchmarks.profiles smollm2-bfloat16": "needs a build; tests/benchmarks/test_profiles.py",
    "python -m benchmarks.real_model FOLDER --rounds 2": "minutes",
    "python -m benchmarks.seeds 2 3": "hours; tests/benchmarks/test_seeds.py",
    "python -m benchmarks.traitors": "minutes; tests/benchmarks/test_traitors.py",
    "python -m benchmarks.tokens FOLDER": "needs a tokenizer; tests/benchmarks/test_tokens.py",
    "python -m flows closure --write": "changes the repository; tests/flows/test_closure.py",
    "python -m flows lineage sync": "needs MLflow's store; tests/flows/test_tracking.py",
    "python -m flows lineage check": "needs MLflow's store; tests/flows/test_registry.py",
    "python -m flows promote": "needs MLflow's store; tests/flows/test_registry.py",
    "python -m flows promote marooned": "needs MLflow's store; tests/flows/test_registry.py",
    "python -m flows pipeline": "forty minutes; tests/flows/test_pipeline.py",
    "python -m flows pipeline merge@marooned --force": "forty minutes; tests/flows/test_pipeline.py",
    "python -m flows pipeline --teacher FOLDER_OR_NAME --cache 16": "a server; tests/flows/test_teacher.py",
    "python -m flows pipeline ppo@marooned": "forty minutes; tests/flows/test_pipeline.py",
    "python -m flows profile smollm2": "hours; tests/flows/test_profile.py",
    "python -m flows ppo@marooned": "minutes; tests/test_together.py",
    "python -m flows sft@marooned": "minutes; tests/flows/test_stage.py",
}
"""Only parsed: the command knows these words and options. The reason may name the test that runs it."""

BY_HAND = {
    ". .venv/bin/activate",
    ".venv/bin/pip install --no-deps -e .",
    ".venv/bin/pip install --require-hashes --no-deps -r setup/torch.lock -r setup/requirements.lock",
    "export ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell",
    "git clone <your clone URL> castaway && cd castaway",
    "git clone https://github.com/ggml-org/llama.cpp && pip install -r "
    "llama.cpp/requirements/requirements-convert_hf_to_gguf.txt",
    "pip install 'castaway[open]'",
    "pip install 'dvc[s3]'",
    "prefect gcl delete castaway-HOST-cuda-0",
    "prefect work-pool create --type process mi300x",
    "prefect deploy --all",
    "CASTAWAY_CLONE=$PWD prefect worker start --pool mi300x --limit 1",
    "pip install -e plugins/lights",
    "pip install FOLDER",
    "python llama.cpp/convert_hf_to_gguf.py data/RUN/merge --outfile RUN.gguf",
    "python3 -m venv .venv",
    "RECORD_HASHES=1 pytest tests/test_whole_pipeline.py",
}
"""Other people's programs: typed by hand, not checked here."""

DIALECT = re.compile(
    r"\b(harvests?|lessons?|kin|bury|buried|speakers?|made[ -]up|imagined|borne|mended?)\b", re.IGNORECASE
)
"""Words that the project has plain ones for: batch, sample, policy, synthetic, ..."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {"sh", "text", "yaml", "python"}
INDENTED = re.compile(r"^(?: {4}|\t)(.+)$", re.MULTILINE)
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
    """What stands there to be typed: lines of shell blocks and of indented ones, and commands in the running text."""
    blocks = [body for language, body in FENCE.findall(text_of(page)) if language == "sh"]
    lines = [line for block in blocks for line in block.split("\n")] + INDENTED.findall(prose(page))
    yield from filter(None, (re.split(r"(?:^|\s+)#", line)[0].strip() for line in lines))
    yield from (" ".join(command.split()) for command in INLINE.findall(prose(page)))


# Sizes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "lines"), [("README.md", 150), ("docs/glossary.md", 30)])
def test_it_is_short(name: str, lines: int) -> None:
    assert len(text_of(ROOT / name).splitlines()) <= lines


def test_the_table_of_the_readme_is_short() -> None:
    table = text_of(README).partition("<!-- headline -->\n")[2].partition("<!-- /headline -->")[0]
    assert 1 <= len(table.strip().splitlines()) - 2 <= 9


@pages()
def test_no_figure_is_left_open(page: Path) -> None:
    assert re.findall(r"\{\{\w+\}\}", text_of(page)) == []


# Links ---------------------------------------------------------------------------------------------------------------


@pages()
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page)) + re.findall(r'<img src="([^"]+)"', prose(page))
    for target in targets:
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        name = found.relative_to(ROOT).as_posix()
        assert found.exists() or name in GENERATED, f"{target} does not exist"
        if anchor:
            assert anchor in anchors(found), f"{target}: {name} has no such heading"


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


@pages()
def test_blocks_of_code_say_what_they_are(page: Path) -> None:
    assert {language for language, _ in FENCE.findall(text_of(page))} <= LANGUAGES


@pages()
def test_every_command_is_in_a_table(page: Path) -> None:
    assert sorted(set(commands(page)) - (RUN | WRITE | set(PARSED) | BY_HAND)) == []


def test_the_tables_hold_nothing_else() -> None:
    written = {command for page in PAGES for command in commands(page)}
    assert sorted((RUN | WRITE | set(PARSED) | BY_HAND) - written) == []


@pytest.mark.parametrize("command", sorted(RUN))
def test_it_runs(command: str) -> None:
    done = started(shlex.split(command))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", sorted(WRITE))
def test_it_writes(command: str, tmp_path: Path) -> None:
    *words, name = shlex.split(command)
    copy = tmp_path / "page.md"
    shutil.copy(ROOT / name, copy)
    done = started([*words, str(copy)])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", sorted(PARSED))
def test_it_is_understood(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "castaway":
        of_castaway(words)
    elif program == "make":
        of_make(words)
    elif program == "dvc":
        from dvc.cli.parser import get_main_parser

        get_main_parser().parse_args(words)
    elif words[1] == "flows":
        from flows.__main__ import parser

        parser().parse_args(words[2:])
    else:
        of_module(words[1], words[2:])


@pytest.mark.parametrize("reason", sorted(set(PARSED.values())))
def test_the_test_that_a_reason_names_exists(reason: str) -> None:
    for name in re.findall(r"tests/\S+\.py", reason):
        assert (ROOT / name).is_file()


def of_castaway(words: list[str]) -> None:
    """The command and its options exist, and take what follows."""
    import typer

    from castaway.cli.main import app

    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    assert not getattr(command, "commands", {}), f"{words[:1]} is no command"
    # Parsed, with what it requires, and not run.
    command.make_context("castaway", list(words))


def of_make(words: list[str]) -> None:
    """Targets are in the Makefile; variables there, or in the scripts that it starts."""
    text = (ROOT / "Makefile").read_text("utf-8")
    scripts = "".join(path.read_text("utf-8") for path in ROOT.glob("setup/*.py"))
    for word in words:
        name, assigned, _ = word.partition("=")
        found = re.search(rf"\b{name}\b", text + scripts) if assigned else re.search(rf"^{name}:", text, re.MULTILINE)
        assert found, f"the Makefile has no {name}"


def of_module(module: str, words: list[str]) -> None:
    """A benchmark: the module exists, and its help mentions the options."""
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
    options = [word for word in words if word.startswith("--")]
    if options:
        shown = started(["python", "-m", module, "--help"]).stdout
        assert [option for option in options if option not in shown] == []


def started(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run in the root of the repository, with the programs of this environment first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # Whatever clone the environment was installed from, the code is this one's.
    variables = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120, check=False)


# Words ---------------------------------------------------------------------------------------------------------------


@pages()
def test_it_is_written_in_plain_words(page: Path) -> None:
    words = re.sub(r"`[^`]*`", "", prose(page))
    assert DIALECT.findall(words) == []
