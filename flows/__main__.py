"""The command of the flows: one stage, the whole pipeline, or what is known about either.

python -m flows STAGE[@TASK]                 run one stage, as dvc.yaml does
python -m flows pipeline [TARGET...]         build side by side: DVC decides what runs, this decides when and where
python -m flows setup                        create the GPU slots on the Prefect server
python -m flows lineage TASK[/STAGE]         which runs made an artifact, back to the base model
python -m flows lineage sync                 tag runs with the hashes of what they made
python -m flows closure [--write]            compare the code that dvc.yaml lists with what the stages import
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from castaway.errors import CastawayError

# Only standard modules are imported here, and the others inside the commands: a mistake in params.yaml has to be told
# before seconds are spent on importing torch, DVC, Prefect and MLflow.


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; the exit status is 2 for a mistake that the user can mend."""
    options = parser().parse_intermixed_args(arguments)
    try:
        return int(COMMANDS.get(options.command, run_stage)(options))
    except CastawayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The command line; what is not a command is the name of a stage."""
    usage = (__doc__ or "").partition("\n")
    top = argparse.ArgumentParser("python -m flows", description=usage[0], epilog=usage[2], formatter_class=_Plain)
    top.add_argument("command", metavar="STAGE[@TASK] | pipeline | setup | lineage | closure")
    top.add_argument("targets", nargs="*", metavar="TARGET", help="stages to build, or what to tell the lineage of")
    top.add_argument(
        "--force", action="store_true", help="pipeline: run every stage of the walk, even if nothing changed"
    )
    top.add_argument(
        "--teacher", metavar="WEIGHTS", help="pipeline: a folder or Hugging Face model to serve for the stages that ask"
    )
    top.add_argument("--write", action="store_true", help="closure: write the code dependencies into dvc.yaml")
    return top


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keep the lines of the epilog as they are."""


def run_stage(options: argparse.Namespace) -> int:
    """`python -m flows sft@marooned`."""
    from flows.stage import main as run

    if options.targets:
        raise CastawayError(f"one stage at a time: give {options.command} alone, or `pipeline` with several")
    run(options.command)
    return 0


def run_pipeline(options: argparse.Namespace) -> int:
    """`python -m flows pipeline [TARGET...] [--force] [--teacher WEIGHTS]`."""
    from flows.pipeline import main as run

    return run(options.targets, force=options.force, teacher=options.teacher)


def run_setup(options: argparse.Namespace) -> int:
    """`python -m flows setup`."""
    from flows.slots import main as run

    return run()


def run_lineage(options: argparse.Namespace) -> int:
    """`python -m flows lineage TASK[/STAGE]`, `python -m flows lineage sync`."""
    from flows.lineage import main as run

    return run(options.targets)


def run_closure(options: argparse.Namespace) -> int:
    """`python -m flows closure [--write]`."""
    from flows.closure import main as run
    from flows.environment import find_root

    return run(find_root(), write=options.write)


COMMANDS = {"pipeline": run_pipeline, "setup": run_setup, "lineage": run_lineage, "closure": run_closure}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
