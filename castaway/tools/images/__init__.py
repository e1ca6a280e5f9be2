"""The three pictures of the README, drawn from what is in the repository: `castaway images`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tools.images.dag import dag_of
from castaway.tools.images.learning import learning_picture, read_panels
from castaway.tools.images.screenshot import episode_to_show, replay_picture

PICTURED = "marooned"
"""The task whose episodes have a page."""


def draw_images(root: Path, params: Params, to: Path) -> Iterator[Path]:
    """Write `dag.svg`, `learning.svg` and `replay.png` into the folder, and yield each path when it is there.

    Raises:
        CastawayError: something to draw from is missing, or a file cannot be written.
    """
    yield _write(to / "dag.svg", dag_of(root / "dvc.yaml").encode())
    yield _write(to / "learning.svg", learning_picture(read_panels(root, list(params.tasks))).encode())
    run = next((name for name, one in params.tasks.items() if one.task == PICTURED), PICTURED)
    episode = episode_to_show(root / "data" / run / "evaluate" / "final")
    yield _write(to / "replay.png", replay_picture(episode))


def _write(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise CastawayError(f"{path} cannot be written: {error.strerror}") from None
    return path
