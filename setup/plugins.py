"""Makes an environment for a plug-in: its own packages in front of those of .venv, which stay as they are.

    .venv/bin/python setup/plugins.py plugins/textarena

The environment is the folder `.venv` of the plug-in. If one of its packages comes in another version than the lock has,
the plug-in does not fit beside Castaway, and that is said in one sentence.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(folder: Path) -> int:
    """Make or update the environment of the plug-in in `folder`; returns the exit status."""
    home = folder / ".venv"
    if not (home / "bin/python").exists():
        venv.create(home, with_pip=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (own / "castaway.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n", "utf-8")
    install = [str(home / "bin/python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", str(folder)]
    if status := subprocess.run(install).returncode:
        return status
    locked = dict(re.findall(r"^([\w.-]+)==([^\s;+]+)", (ROOT / "setup/requirements.lock").read_text("utf-8"), re.M))
    for found in distributions(path=[str(own)]):
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        if name in locked and name not in ("pip", "setuptools") and found.version.split("+")[0] != locked[name]:
            print(
                f"{folder} needs {name} {found.version}, Castaway {locked[name]}: it has to be built in its own clone",
                file=sys.stderr,
            )
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
