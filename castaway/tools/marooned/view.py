"""The view of MAROONED: a page that replays an episode."""

from __future__ import annotations

from collections.abc import Sequence

from castaway.datasets.episodes import Row
from castaway.tools.marooned.replay.page import replay_page
from castaway.tools.view import TaskView


class MaroonedView(TaskView):
    """The view of MAROONED."""

    def page(self, rows: Sequence[Row]) -> str:
        """An HTML page that shows the episode as it was, or as one sailor knew it.

        Raises:
            CastawayError: the episode is not one of MAROONED.
        """
        return replay_page(rows)
