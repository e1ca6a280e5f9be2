"""A model as a person names it: a folder of transformers, a folder with an adapter, or what a stage made of a run."""

import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.params import Params
from castaway.config.sections import MergeParams
from castaway.tasks.registry import read_params

CHAINS = {
    "base": ("base",),
    "sft": ("base", "sft"),
    "ppo": ("base", "sft", "ppo"),
    "correction_sft": ("base", "sft", "correction_sft"),
    "merge": ("merge",),
}
"""The folders of a stage's policy: a model, and adapters in the order in which they were trained."""
MODEL, ADAPTER = "config.json", "adapter_config.json"
TOLERANCES = {False: 1e-6, True: 1e-2}  # of float32 and of bfloat16, as in params.yaml and in the profiles


@dataclass(frozen=True)
class Weights:
    """A model's folder, and the adapters on it in the order in which they were trained."""

    base: Path
    adapters: tuple[Path, ...] = ()


def params_with(root: Path, run: str) -> Params:
    """The parameters of the repository; CastawayError if they have no such run."""
    params = read_params(root / "params.yaml")
    if run not in params.tasks:
        raise CastawayError(f"params.yaml has no run {run!r}; {did_you_mean(run, list(params.tasks))}")
    return params


def weights_of(name: str, root: Path, base: str = "") -> Weights:
    """What `name` stands for: `STAGE@RUN`, a model's folder, or an adapter's folder with a base, which is named alike.

    An adapter in `data/RUN` needs no base to be named, nor does one whose configuration names a folder.
    """
    stage, at, run = name.partition("@")
    if at and not Path(name).exists():
        return _of_stage(stage, run, root)
    folder = Path(name)
    if (folder / MODEL).is_file():
        if base:
            raise CastawayError(f"{folder} holds a whole model, and a base is for an adapter; leave --base out")
        return Weights(folder)
    if not (folder / ADAPTER).is_file():
        raise CastawayError(f"{folder} holds neither a model ({MODEL}) nor an adapter ({ADAPTER})")
    place = folder.resolve()
    if not base and place.parent.parent == (root / "data").resolve() and place.name in CHAINS:
        return _of_stage(place.name, place.parent.name, root)
    settings = _settings(folder / ADAPTER)
    if (kind := settings.get("task_type") or "CAUSAL_LM") != "CAUSAL_LM":
        raise CastawayError(f"{folder} holds an adapter of the kind {kind}, expected CAUSAL_LM, a language model's")
    named = settings.get("base_model_name_or_path") or ""
    base = base or (named if Path(named).is_dir() else "")
    if not base:
        raise CastawayError(f"{folder} holds an adapter; name the model that it was trained on with --base")
    below = weights_of(base, root)
    return Weights(below.base, (*below.adapters, folder))


def _settings(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError):
        raise CastawayError(f"{path} is damaged: it is no JSON object") from None


def _of_stage(stage: str, run: str, root: Path) -> Weights:
    stage = "correction_sft" if stage == "final" else stage  # as the tables call it
    if stage not in CHAINS:
        raise CastawayError(f"the stage {stage!r} makes no policy; {did_you_mean(stage, list(CHAINS))}")
    params = read_params(root / "params.yaml")
    runs = list(params.bases if stage == "base" else params.tasks)
    if run not in runs:
        raise CastawayError(f"params.yaml has no {stage}@{run}; {did_you_mean(run, runs, f'{stage}@')}")
    start = run if stage == "base" else params.tasks[run].base
    folders = [root / "data" / (start if part == "base" else run) / part for part in CHAINS[stage]]
    for number, folder in enumerate(folders):
        if not (folder / (ADAPTER if number else MODEL)).is_file():
            raise CastawayError(f"{folder} is not built; `dvc repro {stage}@{run}` builds it")
    return Weights(folders[0], tuple(folders[1:]))


def quieten() -> None:
    """Leave out the bars and warnings of libraries, which are about files that a person did not write."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")


def merge_folder(weights: Weights, output: Path, dtype: str) -> str:
    """Merge an adapter into its model, as the stage `merge` does; returns a sentence on what was written."""
    from castaway.models.merging import merge
    from castaway.rollout.trial import ASKED

    if output.exists():
        raise CastawayError(f"{output} exists already; name a folder that does not")
    quieten()
    settings = _settings(weights.base / MODEL)
    halved = (dtype or settings.get("dtype") or settings.get("torch_dtype")) == "bfloat16"
    params = MergeParams(dtype="bfloat16" if halved else "float32", tolerance=TOLERANCES[halved])
    prompts = [[{"role": "user", "content": text}] for text in ASKED]
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=".merge-") as draft:
            made = merge(weights.base, weights.adapters, Path(draft, "model"), prompts, params.dtype, params)
            Path(draft, "model").rename(output)
    except OSError as error:
        raise CastawayError(f"{output} cannot be written: {error.strerror or error}") from None
    return (
        f"{output}: {made['parameters']:,} parameters in {params.dtype}; its next-token distributions differ from the "
        f"adapted model's by {made['divergence']:.2g} nats per token"
    )
