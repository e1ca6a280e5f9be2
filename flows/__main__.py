"""Run one stage or the whole pipeline.

python -m flows STAGE[@RUN]                  run one stage, as dvc.yaml does
python -m flows pipeline [TARGET...]         run all stages that are out of date, independent ones in parallel
python -m flows profile NAME [TARGET...]     build the runs of profiles/NAME.yaml in scratch/NAME, and show the results
python -m flows pages [PORT [PREFECT_PORT]]  serve the pages of MLflow and Prefect on this host, until Ctrl-C
python -m flows lineage sync                 fill MLflow with the runs that git knows
python -m flows lineage check                say what MLflow lacks of the runs that made the outputs
python -m flows promote [RUN...]             register the merged models; the best is the champion, if it passes its gate
python -m flows closure [--write]            compare the dependencies in dvc.yaml with what the stages import and read
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from castaway.errors import CastawayError

# Only light modules are imported at the top; each command imports the rest itself. Importing torch, DVC, Prefect and
# MLflow takes seconds, and a mistake in params.yaml should be reported before that.


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status: 2 for an error that the user can fix, 130 after Ctrl-C."""
    options = parser().parse_intermixed_args(arguments)
    if options.command is None:
        parser().print_help()
        return 0
    try:
        require_use(options)
        return int(COMMANDS.get(options.command, run_stage)(options))
    except CastawayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The command-line parser. A first argument that is no command is taken as the name of a stage."""
    usage = (__doc__ or "").partition("\n")
    top = argparse.ArgumentParser("python -m flows", description=usage[0], epilog=usage[2], formatter_class=_Plain)
    top.add_argument(
        "command", nargs="?", metavar="STAGE[@RUN] | pipeline | profile | pages | lineage | promote | closure"
    )
    top.add_argument("targets", nargs="*", metavar="TARGET", help="a profile, or stages to build")
    top.add_argument("--force", action="store_true", help="pipeline: run every stage, even if nothing changed")
    top.add_argument(
        "--teacher", metavar="WEIGHTS", help="pipeline: folder or Hugging Face model to serve as the teacher"
    )
    top.add_argument(
        "--cache", metavar="GIB", type=_gibibytes, help="with --teacher: its KV cache; default: most of a GPU's memory"
    )
    top.add_argument("--write", action="store_true", help="closure: write the code dependencies into dvc.yaml")
    return top


def require_use(options: argparse.Namespace) -> None:
    """Refuse what the command would ignore.

    Raises:
        CastawayError: an option is another command's, or `closure` has targets.
    """
    for option, command in OPTIONS.items():
        if getattr(options, option) and options.command != command:
            raise CastawayError(f"--{option} is an option of {command}, not of {options.command}; leave it out")
    if options.cache and not options.teacher:
        raise CastawayError("--cache is the memory of the server that --teacher names; give both, or leave it out")
    if options.command == "closure" and options.targets:
        raise CastawayError(f"closure is of all stages; leave {' '.join(options.targets)} out")


def _gibibytes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it is {text!r}, expected a whole number of GiB from 1 on")
    return int(text)


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the epilog."""


def run_stage(options: argparse.Namespace) -> int:
    """`python -m flows sft@marooned`."""
    from flows.environment import start_afresh

    if options.targets:
        raise CastawayError(f"one stage at a time: give {options.command} alone, or `pipeline` with several")
    start_afresh()  # before the modules of the stage are imported, which takes seconds
    from flows.stage import main as run

    run(options.command)
    return 0


def run_pipeline(options: argparse.Namespace) -> int:
    """`python -m flows pipeline [TARGET...] [--force] [--teacher WEIGHTS [--cache GIB]]`."""
    from flows.pipeline import main as run
    from flows.teacher import Weights

    teacher = Weights(options.teacher, options.cache) if options.teacher else None
    return run(options.targets, force=options.force, teacher=teacher)


def run_profile(options: argparse.Namespace) -> int:
    """`python -m flows profile NAME [TARGET...]`."""
    from flows.environment import find_root
    from flows.profile import main as run

    if not options.targets:
        raise CastawayError("name a profile, such as `python -m flows profile demo`")
    return run(find_root(), options.targets[0], options.targets[1:])


def run_pages(options: argparse.Namespace) -> int:
    """`python -m flows pages [MLFLOW_PORT [PREFECT_PORT]]`."""
    from flows.environment import find_root
    from flows.pages import main as run

    if len(options.targets) > 2 or not all(target.isdecimal() for target in options.targets):
        raise CastawayError("pages takes at most two ports, such as `python -m flows pages 5000 4200`")
    ports = [int(target) for target in options.targets] + [5000, 4200][len(options.targets) :]
    return run(find_root(), *ports)


def run_lineage(options: argparse.Namespace) -> int:
    """`python -m flows lineage sync`, `python -m flows lineage check`."""
    from flows.lineage import main as run

    return run(options.targets)


def run_promote(options: argparse.Namespace) -> int:
    """`python -m flows promote [RUN...]`."""
    from flows.registry import main as run

    return run(options.targets)


def run_closure(options: argparse.Namespace) -> int:
    """`python -m flows closure [--write]`."""
    from flows.closure import main as run
    from flows.environment import find_root

    return run(find_root(), write=options.write)


COMMANDS = {
    "pipeline": run_pipeline,
    "profile": run_profile,
    "pages": run_pages,
    "lineage": run_lineage,
    "promote": run_promote,
    "closure": run_closure,
}

OPTIONS = {"force": "pipeline", "teacher": "pipeline", "cache": "pipeline", "write": "closure"}
"""The command that takes an option."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
