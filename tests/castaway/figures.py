"""Figures and an episode as the stages write them, made up."""

import json
from pathlib import Path
from typing import Any


def policy(success: float, invalid: float = 0.1) -> dict[str, Any]:
    figures: dict[str, Any] = {"episodes": 300, "traitor_episodes": 100, "turns": 9000, "traitor_turns": 800}
    rates = {"success_rate": success, "invalid_rate": invalid, "mean_return": 12.34, "traitor_success_rate": 0.5}
    for name, value in rates.items():
        figures |= {name: value, f"{name}_low": value - 0.05, f"{name}_high": value + 0.05}
    return figures


EVALUATE = {
    "final": policy(0.8, 0.01),
    "base": policy(0.1, 0.3),
    "sft": policy(0.4),
    "ppo": policy(0.75),
    "demonstrators": policy(0.5, 0.0),
}
REWARD_MODEL = {
    "held_out_accuracy": 0.93,
    "held_out_accuracy_low": 0.9,
    "held_out_accuracy_high": 0.95,
    "answer_only_accuracy": 0.5,
    "prompt_only_accuracy": 0.52,
    "held_out_pairs": 400,
}
MOMENTS: list[dict[str, Any]] = [
    {"task_id": 1_000_000_000, "seat": "crew", "success": True, "ending": "the ship was finished"},
    {
        "day": 1,
        "turn": 2,
        "sailors": {"Alice": {"role": "colonist"}, "Eve": {"role": "traitor"}},
        "said": {
            "Alice": {
                "text": "REASONING: go\nACTION: MOVE NORTHEAST\x1b[2J",
                "action": "WAIT",
                "valid": False,
                "penalty": -0.75,
                "critique": "MOVE is typed MOVE <direction>.",
            }
        },
        "ship": {"hull": 0},
        "clues": [{"text": "old"}],
        "messages": [],
    },
    {
        "said": {},
        "actions": {"Alice": "WAIT", "Eve": "SAY hello"},
        "ship": {"hull": 34},
        "clues": [{"text": "old"}, {"text": "Bob died of hunger."}],
        "messages": [{"speaker": "Eve", "text": "hello"}],
    },
]


def save(path: Path, content: object) -> None:
    """Write a text as it is, and all else as JSON, with the folder that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
