"""The stage key against DVC's own run-cache, and the ancestry of what was built, in a real repository."""

from collections.abc import Callable

import pytest

from castaway.errors import CastawayError
from flows import declared, lineage
from flows.records import write_json
from tests.flows.conftest import Repository

PIPELINE = """\
stages:
  base:
    cmd: mkdir -p data/base/deep data/runs && cp seed.txt data/base/deep/weights && echo '{}' > data/runs/base.json
    deps: [seed.txt]
    params: [seed, base]
    outs: [data/base]
    metrics:
      - data/runs/base.json: {cache: false}
  sft:
    foreach: ${tasks}
    do:
      cmd: mkdir -p data/${key} && cat data/base/deep/weights > data/${key}/sft
      deps: [data/base, code]
      params: [sft.learning_rate, threads]
      outs: ["data/${key}/sft"]
"""


@pytest.fixture
def built(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    made.write("seed.txt", "1")
    made.write("code/a.py", "a = 1")
    made.write("code/b.py", "b = 1")
    done = made.run("dvc", "repro")
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("address", ["base", "sft@marooned"])
def test_the_stage_key_is_the_name_of_dvcs_cache_entry(built: Repository, address: str) -> None:
    key = declared.load(built.root, address).inputs.stage_key
    assert (built.root / ".dvc/cache/runs" / key[:2] / key).is_dir()
    assert lineage.locked_stages(built.root)[address].key == key


def test_the_stage_key_follows_inputs_and_nothing_else(built: Repository) -> None:
    def key() -> str:
        return declared.load(built.root, "sft@marooned").inputs.stage_key

    first = key()
    built.write("code/__pycache__/a.pyc", "byte code")
    built.change("params.yaml", "threads: 1", "threads: 1  # a comment")
    assert key() == first
    built.write("code/b.py", "b = 2")
    second = key()
    assert second != first
    built.change("params.yaml", "threads: 1", "threads: 2")
    assert key() not in (first, second)


def test_inputs_are_named_with_dvcs_hashes(built: Repository) -> None:
    inputs = declared.load(built.root, "sft@marooned").inputs
    locked = lineage.locked_stages(built.root)
    assert inputs.data == {"data/base": locked["base"].outs["data/base"]}
    assert set(inputs.dependencies) == {"data/base", "code"}
    assert set(inputs.params) == {"sft.learning_rate", "threads"}
    assert declared.load(built.root, "base").output_hashes() == {"data/base": locked["base"].outs["data/base"]}


def test_a_missing_input_is_told(built: Repository) -> None:
    (built.root / "seed.txt").unlink()
    with pytest.raises(CastawayError, match=r"base needs seed\.txt, which does not exist; run `dvc repro base`"):
        _ = declared.load(built.root, "base").inputs


def test_an_unknown_stage_is_told(built: Repository) -> None:
    with pytest.raises(CastawayError, match="no stage sfd@marooned; did you mean sft@marooned"):
        declared.load(built.root, "sfd@marooned")


def test_the_ancestry_names_runs_hashes_and_commits(built: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    stages = lineage.locked_stages(built.root)
    record = {"run_id": "abc123", "stage_key": stages["base"].key, "revision": "0123456789abcdef+dirty", "began": "now"}
    write_json(built.root / "data/runs/base.json", record)
    write_json(built.root / "data/marooned/runs/sft.json", {"run_id": "def456", "stage_key": "of something else"})

    assert lineage.main(["marooned"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("data/marooned/sft  md5 " + stages["sft@marooned"].outs["data/marooned/sft"])
    assert "run def456" in first
    assert "the record is for other inputs" in first
    assert f"data/base  md5 {stages['base'].outs['data/base']}  run abc123  commit 0123456789+dirty  now" in second

    assert lineage.main(["marooned/sft"]) == 0
    assert lineage.main(["base"]) == 0
    with pytest.raises(CastawayError, match="no stage or run marooned/ppo"):
        lineage.main(["marooned/ppo"])


def test_nothing_built_is_told(repository: Callable[[str], Repository]) -> None:
    made = repository(PIPELINE)
    with pytest.raises(CastawayError, match=r"there is no dvc\.lock"):
        lineage.locked_stages(made.root)


def test_what_was_built_again_alone_is_no_ancestor(built: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """The new base model is not what the old sft was trained from, though it lies in the same place."""
    old = lineage.locked_stages(built.root)["base"].outs["data/base"]
    built.write("seed.txt", "2")
    assert built.run("dvc", "repro", "--single-item", "base").returncode == 0
    write_json(built.root / "data/runs/base.json", {"run_id": "new", "stage_key": "x"})
    assert lineage.main(["marooned/sft"]) == 0
    told = capsys.readouterr().out
    assert f"data/base  md5 {old}  made before the one that is there now; run unknown" in told
    assert "run new" not in told
    assert built.run("dvc", "repro", "--single-item", "sft@marooned").returncode == 0
    assert lineage.main(["marooned/sft"]) == 0
    told = capsys.readouterr().out
    assert "made before" not in told
    assert "run new" in told
