"""The experiments that `experiments.yaml` declares: other parameters of a run, and the seeds to build them with."""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean, explain
from castaway.config.params import STAGE_SECTIONS
from castaway.config.section import Natural, Section
from castaway.config.sections import LAST_BLOCK
from castaway.config.yaml_file import flatten, read_yaml

FILE = "experiments.yaml"
SECTIONS = (*STAGE_SECTIONS, "game")
"""What an experiment may change of a run."""
Overrides = dict[str, Any]
"""Dotted key of params.yaml, as `ppo.learning_rate`, to value."""


class Experiment(Section):
    """One block of `experiments.yaml`: every variant is built with every seed."""

    about: str
    """What is varied, for the heading of the table."""
    seeds: Annotated[list[Natural], Field(min_length=1)]
    stage: Literal["ppo", "evaluate"] = "evaluate"
    """The last stage to build, whose figures are compared. PPO's are of validation: they ask no held-out episode."""
    block: Annotated[int, Field(ge=0, le=LAST_BLOCK)] | None = None
    """The block of held-out ids that seed 1 plays, of `evaluate`: one that was never asked."""
    figure: str = "success_rate"
    """The share that the table shows."""
    policies: list[str] = Field(["sft", "ppo", "final"])
    """Those whose figures are kept, of `evaluate`."""
    set: Overrides = Field({})
    """What all variants change."""
    variants: dict[str, Overrides] = Field({"as shipped": {}}, min_length=1)
    """Name to what it changes."""

    def settings(self, run: str, variant: str, seed: int) -> Overrides:
        """The values that a build of a variant sets, by dotted key: in the block of the run, and the seed of all."""
        block = {} if self.block is None else {"evaluate.block": self.block}
        changed = {**block, **self.set, **self.variants[variant]}
        # DVC takes values that are numbers, words or lists, and no mappings.
        return {"seed": seed, **flatten(changed, f"tasks.{run}")}


def declared(root: Path) -> dict[str, Experiment]:
    """All experiments by address, `NAME@RUN`; a mistake is a CastawayError that names the key."""
    content = read_yaml(root / FILE)
    if not isinstance(content, dict):
        raise CastawayError(f"{FILE} holds no mapping of experiments")
    known = {}
    for address, block in content.items():
        try:
            experiment = Experiment.model_validate(block)
        except ValidationError as error:
            raise CastawayError(f"{FILE}: {explain(Experiment, error, (address,))}") from None
        _check(address, experiment)
        known[address] = experiment
    return known


def _check(address: str, experiment: Experiment) -> None:
    if not re.fullmatch(r"[\w.-]+@[\w-]+", address):
        raise CastawayError(f"{FILE}: {address} is no name, expected NAME@RUN")
    if (experiment.block is None) != (experiment.stage != "evaluate"):
        raise CastawayError(f"{FILE}: {address}.block belongs to the stage evaluate, which needs one")
    for key in (key for changed in (experiment.set, *experiment.variants.values()) for key in changed):
        if key.partition(".")[0] not in SECTIONS or key in ("evaluate.block", "evaluate.audit"):
            raise CastawayError(
                f"{FILE}: {address} sets {key}, expected a key of {', '.join(SECTIONS)}; the seeds and the block have "
                "keys of their own, and no experiment is an audit"
            )


def experiment_of(root: Path, address: str) -> Experiment:
    known = declared(root)
    if address not in known:
        raise CastawayError(f"{FILE} has no {address}; {did_you_mean(address, list(known))}")
    return known[address]


def build_name(address: str, variant: str, settings: Overrides) -> str:
    """What DVC calls the experiment of one build; with other values it is another one."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]
    words = (address.replace("@", "-"), variant, str(settings["seed"]), digest)
    return "-".join(re.sub(r"[^\w.]+", "-", word).strip("-.") for word in words)
