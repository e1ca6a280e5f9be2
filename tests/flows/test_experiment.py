"""Declared experiments: what is wrong is told before anything is built, and a real one is built to its table."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from castaway.config.errors import CastawayError
from castaway.config.experiments import FILE, declared
from castaway.metrics import ledger
from castaway.metrics.experiments import experiment_path
from castaway.tasks.registry import read_params
from castaway.tools.experiment_builds import planned
from tests.castaway.command import castaway
from tests.flows.conftest import ROOT, Repository

PIPELINE = """\
stages:
  evaluate:
    matrix: {run: [strictbot]}
    cmd: python -m flows evaluate@${item.run}
    deps: [stages/evaluate.py]
    params: [seed, ppo, evaluate, tasks.strictbot.ppo, tasks.strictbot.evaluate]
    outs: [data/strictbot/evaluate, data/strictbot/figures/evaluate.json, data/strictbot/runs/evaluate.json]
    metrics: [data/strictbot/metrics/evaluate.json: {cache: false}]
"""
BODY = """
from castaway.tasks.intervals import proportion

def run(context):
    params = context.params
    rloo = params.ppo.advantage.estimator == "rloo"
    if params.seed == 2 and rloo and not (context.original / "scratch/luck").exists():
        raise RuntimeError("no luck")
    won = 100 + 10 * params.seed + (50 if rloo else 0)
    assert params.ppo.rollout.group_size == (4 if rloo else 1) and params.ppo.replay.share == 0.0
    figures = {**proportion(won, 200).entries("success_rate"), **proportion(2, 200).entries("invalid_rate")}
    return {policy: figures for policy in ("base", "sft", "ppo", "final")}
"""
DECLARED = """\
tiny@strictbot:
  about: Estimators
  seeds: [1, 2]
  block: BLOCK
  policies: [ppo]
  set: {ppo.replay.share: 0.0}
  variants:
    as shipped: {}
    estimator, rloo: {ppo.advantage: {estimator: rloo}, ppo.rollout.group_size: 4}
"""


@pytest.mark.slow
def test_an_experiment_is_built_to_its_table(repository: Callable[[str], Repository], empty_store: Path) -> None:
    made = repository(PIPELINE)
    made.write("stages/evaluate.py", BODY)
    made.write(FILE, DECLARED.replace("BLOCK", "70"))
    made.commit()
    shutil.copy(empty_store, made.root)
    command = ("flows", "experiment", "tiny@strictbot")
    first = made.run(*command)
    assert first.returncode == 2 and "estimator-rloo-2" in first.stderr.splitlines()[-1]
    made.write("scratch/luck", "")
    again = made.run(*command)
    assert again.returncode == 0, again.stderr
    # Three builds were kept, and the one that failed is the only one that runs.
    assert "estimator-rloo-2" in again.stdout.partition(" ...")[0]
    assert again.stdout.count(" ...\n") == 1

    # 110, 120, 160 and 170 of 200; the t interval of two seeds is 12.7 standard errors wide.
    heading, _, *rows = castaway("results", "tiny@strictbot", at=made.root).stdout.splitlines()
    assert heading.startswith("Estimators: success rate, held-out blocks 70, 71, at commit ")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells[0] == ["variant", "policy", "seed 1", "seed 2", "mean (95 %)", "above as shipped"]
    assert cells[2][2:] == ["55.0 % (48.1 to 61.7)", "60.0 % (53.1 to 66.5)", "57.5 % (25.7 to 89.3)", "-"]
    assert cells[3][-2:] == ["82.5 % (50.7 to 100.0)", "+25.0 (+25.0 to +25.0)"] and len(cells) == 4
    shown = castaway("results", "tiny@strictbot", "--figure", "invalid_rate", at=made.root).stdout
    assert "| 1.0 % (1.0 to 1.0)" in shown

    # The ledger knows what was asked, so other weights cannot ask it again.
    rows = ledger.read(made.root / "data/strictbot/metrics/ledger.json")
    assert sorted(row["block"] for row in rows) == [70, 70, 71, 71]
    made.write(FILE, DECLARED.replace("BLOCK", "70").replace("[1, 2]", "[1]").replace("share: 0.0", "share: 0.1"))
    made.commit()
    refused = made.run(*command)
    assert refused.returncode == 2 and "block 70 of the held-out ids of strictbot was asked on" in refused.stderr


@pytest.mark.slow
def test_the_shipped_experiments_are_valid_and_change_something() -> None:
    params = read_params(ROOT / "params.yaml")
    for address, experiment in declared(ROOT).items():
        run = address.partition("@")[2]
        builds = planned(ROOT, address, experiment.model_copy(update={"seeds": experiment.seeds[:1]}))
        assert len({json.dumps(settings) for _, settings in builds.values()}) == len(experiment.variants), address
        own = params.for_run(run)
        for variant, changed in experiment.variants.items():
            differs = [key for key, value in changed.items() if at(own, key) != value]
            assert differs or not changed, f"{address}, {variant}"


def test_published_figures_are_of_declared_variants() -> None:
    """Those of `hints` and `traitors`, and rates that are no longer tried, were measured by code of earlier commits."""
    for address, experiment in declared(ROOT).items():
        path = experiment_path(ROOT, address)
        known = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else {}
        assert set(known) <= {*experiment.variants, "no corrections", "sft, 1e-3", "dpo, 1e-3"}, address


@pytest.mark.parametrize(
    ("address", "change", "told"),
    [
        ("tiny", {}, "tiny is no name, expected NAME@RUN"),
        ("tiny@strictbot", {"sees": [1]}, "did you mean tiny@strictbot.seeds?"),
        ("tiny@strictbot", {"block": None}, "tiny@strictbot.block belongs to the stage evaluate, which needs one"),
        ("tiny@strictbot", {"set": {"evaluate.audit": True}}, "sets evaluate.audit, .*no experiment is an audit"),
        ("tiny@strictbot", {"set": {"threads": 2}}, "sets threads, expected a key of"),
        ("tiny@chess", {}, "params.yaml has no run chess; it has marooned"),
        ("tiny@strictbot", {"variants": {"odd": {"ppo.rollout.group_size": 7}}}, "tiny@strictbot, odd: .*group_size"),
    ],
)
def test_a_mistake_is_told_before_anything_is_built(
    address: str, change: dict[str, Any], told: str, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    block = {"about": "x", "seeds": [1, 2], "block": 70, **change}
    (tmp_path / FILE).write_text(json.dumps({address: block}), "utf-8")
    with pytest.raises(CastawayError, match=told):
        planned(tmp_path, address, declared(tmp_path)[address])


def at(params: Any, key: str) -> Any:
    """The value of a dotted key."""
    for name in key.split("."):
        params = getattr(params, name)
    return params
