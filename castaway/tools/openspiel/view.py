"""The view of OpenSpiel: bar charts of the games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from castaway.envs.openspiel.task import OpenSpiel
from castaway.tools.view import Chart, TaskView


class OpenSpielView(TaskView):
    """The view of OpenSpiel."""

    def charts(self, metrics: Mapping[str, Any]) -> dict[str, Chart]:
        """The success rates of all players in each game, one chart for each kind of opponent."""
        main, *others = OpenSpiel.evaluation_seats
        prefixes = {main: "", **{seat: f"{seat}_" for seat in others}}
        return {f"games_{seat}.svg": (metrics["games"], f"{prefix}success_rate") for seat, prefix in prefixes.items()}
