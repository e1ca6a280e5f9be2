"""MAROONED for people: a page that replays a game."""

from __future__ import annotations

from collections.abc import Sequence

from castaway.datasets.episodes import Row
from castaway.tools.marooned.replay.page import replay_page
from castaway.tools.view import TaskView


class MaroonedView(TaskView):
    """Five sailors on an island."""

    def page(self, rows: Sequence[Row]) -> str:
        """The whole game, as it was or as one sailor knew it.

        Raises:
            CastawayError: the episode is not one of MAROONED.
        """
        return replay_page(rows)
