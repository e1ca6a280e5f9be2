"""OpenSpiel for people: bar charts of the games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from castaway.envs.openspiel.task import OpenSpiel
from castaway.tools.view import Chart, TaskView


class OpenSpielView(TaskView):
    """Twenty games."""

    def charts(self, metrics: Mapping[str, Any]) -> dict[str, Chart]:
        """How often each player has success in each game, a chart for each kind of opponents."""
        main, *others = OpenSpiel.evaluation_seats
        prefixes = {main: "", **{seat: f"{seat}_" for seat in others}}
        return {f"games_{seat}.svg": (metrics["games"], f"{prefix}success_rate") for seat, prefix in prefixes.items()}
