"""Writes what an evaluation asked into the ledger of its run (`castaway.metrics.ledger`)."""

from __future__ import annotations

from datetime import datetime

from castaway.config.params import Params
from castaway.metrics import ledger
from castaway.tasks.environment import held_out_block
from flows import records
from flows.declared import Declared
from flows.environment import main_root


def record(stage: Declared, params: Params, began: datetime, revision: str) -> None:
    """Add the evaluation to the ledger of the original repository, also from a copy that an experiment works in.

    Args:
        stage: the stage `evaluate` of a run.
        params: with the overrides of the run applied.
        began: when it began.
        revision: the commit that it ran with.
    """
    row = ledger.Asking(
        block=held_out_block(params.evaluate.block, params.seed),
        seed=params.seed,
        asked=began.isoformat(timespec="seconds"),
        revision=revision,
        stage_key=stage.inputs.stage_key,
        weights=stage.inputs.data,
    )
    folder = records.metrics_path(main_root(stage.root), stage.run, stage.name).parent
    ledger.add(folder / ledger.FILE, [row])
