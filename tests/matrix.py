"""What classes of transformers give: `python -m tests.matrix [NAME...]` goes through all, and writes docs/models.md.

Each is a small random model in a folder, as people bring one, which runs through all stages in OpenSpiel. Its prompts
are longer than the windows of its layers. With names it only prints their rows.
"""

import io
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import torch
import transformers

from castaway.config.errors import CastawayError
from castaway.metrics.markdown import table
from castaway.models.trial import REMEDY
from tests.castaway.models.classes import CLASSES, FURTHER, WINDOW, model_of
from tests.castaway.rollout.test_classes import differences
from tests.families import FAMILIES, tokenizer_of
from tests.miniature import ROOT, edited
from tests.test_families import STAGES, built, texts, update, write_params

PAGE = ROOT / "docs" / "models.md"
ONE_UPDATE = {
    "ppo": {"steps": 1, "epochs": 1, "minibatch_turns": 1000, "rollout": {"max_new_tokens": 40}},
    "evaluate": {"best_of": 1, "further_episodes": 1},
}
"""The clip fraction of a step of one minibatch is that from before the first update."""
RUN = "openspiel"
ABOUT = f"""\
# Classes of models

Written by `python -m tests.matrix` with transformers {transformers.__version__}: a small random model of each class, in
float32 on a CPU, with windows of {WINDOW} tokens if it has any. *Drawn* and *scored* are the largest differences, in
nats, between log-probabilities of replies as they are sampled, or read for training, and those of a plain transformers
pass over each row. *Clipped* is PPO's clip fraction before the first update. `castaway model check FOLDER` reports the
same for a model's own weights, and the stage `base` ends with it.
"""


def row_of(name: str, root: Path) -> list[str]:
    """The class; drawn, scored and clipped; and that it ran through all stages, or why it was refused."""
    model = model_of(name)
    kind = type(model).__name__
    try:
        with redirect_stdout(io.StringIO()):  # what the trial finds
            clipped = clip_fraction(name, root)
    except CastawayError as error:  # of the trial in `base`
        return [kind, "-", "-", "-", f"refused: {_reason(error)}"]
    drawn, scored = differences(model)
    return [kind, f"{drawn:.0e}", f"{scored:.0e}", f"{clipped:g}", f"all {len(STAGES)} stages"]


def _reason(error: CastawayError) -> str:
    """Why a model cannot be trained, without its name and the remedy."""
    return str(error).partition(f"; {REMEDY}")[0].partition(". ")[0].partition("cannot be trained: ")[2]


def clip_fraction(name: str, root: Path) -> float:
    """Run a model of a class through all stages; returns PPO's clip fraction before the first update."""
    torch.set_num_threads(1)
    tokenizer = tokenizer_of(FAMILIES["qwen2"], texts())
    ids = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "eos")}
    model = model_of(name, vocab_size=len(tokenizer), bos_token_id=None, **ids)
    model.save_pretrained(root / "model")
    tokenizer.save_pretrained(root / "model")
    write_params(root, "model", "float32", {RUN: 100})
    with edited(root / "params.yaml") as params:
        update(params, ONE_UPDATE)
        update(params["tasks"][RUN], {"game": {"rendering": "compact"}, "ppo": {"rollout": {"max_new_tokens": 40}}})
    curves: list[Mapping[str, float]] = []
    built(root, RUN, log=lambda step, values: curves.append(values))
    return next(values["clip_fraction"] for values in curves if "clip_fraction" in values)


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    rows: list[list[str]] = []
    for name in names or (*CLASSES, *FURTHER):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row_of(name, Path(folder)))
        print(*rows[-1], sep=" | ", flush=True)
    if not names:
        header = ["class", "drawn", "scored", "clipped", "result"]
        PAGE.write_text(f"{ABOUT}\n{table(header, rows, figures=False)}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
