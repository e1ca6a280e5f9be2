"""Tells in one sentence why a package cannot be used, where an import would end in the middle of some other package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement


def demand(package: str) -> None:
    """Compare what a package requires with what is installed.

    Raises:
        ImportError: the package or one that it requires is missing, or has a version that it cannot be used with.
    """
    advice = "install castaway-verifiers in an environment of its own, as its README says"
    try:
        wanted = [Requirement(line) for line in requires(package) or ()]
    except PackageNotFoundError:
        raise ImportError(f"{package} is not installed; {advice}") from None
    for one in wanted:
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(one.name)
        except PackageNotFoundError:
            raise ImportError(
                f"{package} {version(package)} needs {one.name}, which is not installed; {advice}"
            ) from None
        if not one.specifier.contains(found, prereleases=True):
            raise ImportError(
                f"{package} {version(package)} needs {one.name}{one.specifier}, and {found} is installed; {advice}"
            )
