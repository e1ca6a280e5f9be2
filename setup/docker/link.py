"""Links packages of the Python that runs this into a virtual environment, so that they are not installed a second time.

`python link.py ENVIRONMENT/bin/python NAME...` links what each of these packages has installed, and its metadata, by
which pip, uv and `setup/install.py` know that it is there. What they need in turn is not linked. It needs nothing but
Python's standard library.
"""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def main(python: str, *names: str) -> None:
    """Link the packages into the environment of `python`."""
    folder = Path(subprocess.check_output([python, "-I", "-c", WHERE], text=True).strip())
    for name in names:
        try:
            package = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed for {sys.executable}; link it from a Python that has it.")
        # Files beside the packages, such as those in bin, are left out.
        tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
        for top in sorted(tops):
            (folder / top).symlink_to(Path(str(package.locate_file(top))).resolve())


if __name__ == "__main__":
    main(*sys.argv[1:])
