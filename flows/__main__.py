"""Run one stage or the whole pipeline.

python -m flows STAGE[@RUN]                  run one stage, as dvc.yaml does
python -m flows pipeline [TARGET...]         run all stages that are out of date, independent ones in parallel
python -m flows profile NAME [TARGET...]     build the runs of profiles/NAME.yaml in scratch/NAME, and show the results
python -m flows experiment NAME@RUN          build what experiments.yaml declares under that name, and show the results
python -m flows ui [PORT [PREFECT_PORT]]     the pages of MLflow and Prefect, from which builds can be started
python -m flows lineage sync                 fill MLflow with the runs that git knows
python -m flows lineage check                say what MLflow lacks of the runs that made the outputs
python -m flows promote [RUN...]             register the merged models; the best is the champion, if it passes its gate
"""

import argparse
import sys
from collections.abc import Sequence

from castaway.config.errors import CastawayError
from castaway.processes.environment import prepare

# Only light modules are imported at the top; each command imports the rest itself. Importing torch, DVC, Prefect and
# MLflow takes seconds, and a mistake in params.yaml should be reported before that.


COMMANDS = ("pipeline", "profile", "experiment", "ui", "lineage", "promote")
OF_PIPELINE = ("force", "teacher", "cache")  # options that no other command takes


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status: 2 for an error that the user can fix, 130 after Ctrl-C."""
    prepare()
    options = parser().parse_intermixed_args(arguments)
    if options.command is None:
        parser().print_help()
        return 0
    try:
        return run(options.command, options.targets, options)
    except CastawayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The command-line parser. A first argument that is no command is taken as the name of a stage."""
    about, _, commands = (__doc__ or "").partition("\n")
    top = argparse.ArgumentParser(
        "python -m flows",
        description=about,
        epilog=commands,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the line breaks
    )
    top.add_argument("command", nargs="?", metavar=f"STAGE[@RUN] | {' | '.join(COMMANDS)}")
    top.add_argument("targets", nargs="*", metavar="TARGET", help="a profile, an experiment, or stages to build")
    top.add_argument("--force", action="store_true", help="pipeline: run every stage, even if nothing changed")
    top.add_argument(
        "--teacher", metavar="WEIGHTS", help="pipeline: folder or Hugging Face model to serve as the teacher"
    )
    top.add_argument(
        "--cache", metavar="GIB", type=_gibibytes, help="with --teacher: its KV cache; default: most of a GPU's memory"
    )
    return top


def _gibibytes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it is {text!r}, expected a whole number of GiB from 1 on")
    return int(text)


def run(command: str, targets: Sequence[str], options: argparse.Namespace) -> int:
    """Import what a command needs, run it, and return its exit status."""
    from castaway.processes.environment import find_root, importing, start_afresh

    if command != "pipeline" and (unused := [name for name in OF_PIPELINE if getattr(options, name)]):
        raise CastawayError(f"--{unused[0]} is an option of pipeline, not of {command}; leave it out")
    if options.cache and not options.teacher:
        raise CastawayError("--cache is the memory of the server that --teacher names; give both, or leave it out")
    match command:
        case "pipeline":
            with importing():
                from flows import driver
                from flows.teacher import Weights

            teacher = Weights(options.teacher, options.cache) if options.teacher else None
            return driver.main(targets, force=options.force, teacher=teacher)
        case "profile":
            from flows import profile

            if not targets:
                raise CastawayError("name a profile, such as `python -m flows profile demo`")
            return profile.main(find_root(), targets[0], targets[1:])
        case "experiment":
            from castaway.tools import experiment_builds

            if len(targets) != 1:
                raise CastawayError("name one experiment, such as `python -m flows experiment ablation@marooned`")
            return experiment_builds.main(find_root(), targets[0])
        case "ui":
            from flows import ui

            if len(targets) > 2 or not all(target.isdecimal() for target in targets):
                raise CastawayError("ui takes at most two ports, such as `python -m flows ui 5000 4200`")
            ports = [int(port) for port in targets] + [5000, 4200][len(targets) :]
            return ui.main(find_root(), *ports)
        case "lineage":
            from castaway.tracking import lineage

            return lineage.main(targets)
        case "promote":
            from castaway.tracking import registry

            return registry.main(targets)
    if targets:
        raise CastawayError(f"one stage at a time: give {command} alone, or `pipeline` with several")
    from flows import preload, stage

    if (status := preload.fork([command])) is not None:
        return status
    start_afresh()  # before the modules of the stage are imported, which takes seconds

    stage.main(command)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
