"""The repository, and the parameters as they are shipped."""

from pathlib import Path

from castaway.tasks.registry import read_params

ROOT = Path(__file__).parents[1]
PARAMS = read_params(ROOT / "params.yaml")
