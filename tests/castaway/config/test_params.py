"""Whatever is wrong with params.yaml is told in one line that names the key."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params

ROOT = Path(__file__).parents[2]
SHIPPED = (ROOT / "params.yaml").read_text(encoding="utf-8")


def changed(key: str, value: str | None) -> str:
    """The shipped file with one dotted key set to a YAML text, or removed."""
    yaml = YAML()
    content = yaml.load(SHIPPED)
    *sections, name = key.split(".")
    section = content
    for part in sections:
        section = section[part]
    if value is None:
        del section[name]
    else:
        section[name] = YAML(typ="safe", pure=True).load(value)
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


WRONG_VALUES = [
    ("ppo.learning_rate", "fast", "'fast'", "a number greater than 0"),
    ("ppo.learning_rate", "0", "0", "a number greater than 0"),
    ("ppo.learning_rate", ".nan", "nan", "a number greater than 0"),
    ("ppo.learning_rate", ".inf", "inf", "a number greater than 0"),
    ("ppo.learning_rate", "true", "true", "a number greater than 0"),
    ("ppo.steps", "12.5", "12.5", "a whole number greater than 0"),
    ("ppo.steps", "-1", "-1", "a whole number greater than 0"),
    ("ppo.steps", "null", "null", "a whole number greater than 0"),
    ("ppo.clip_range", "[0.2]", "[0.2]", "a number greater than 0"),
    ("ppo.lora.rank", "'16'", "'16'", "a whole number greater than 0"),
    ("sft.lora", "16", "16", "a section with the keys rank, alpha"),
    ("sft", "fast", "'fast'", "a section with the keys epochs"),
    ("seed", "true", "true", "a whole number of at least 0"),
    ("seed", "-3", "-3", "a whole number of at least 0"),
    ("threads", "0", "0", "a whole number greater than 0"),
    ("device", "tpu", "'tpu'", "one of 'cpu', 'cuda', 'mi300x'"),
    ("marooned.scenario", "raft", "'raft'", "one of 'skiff', 'classic'"),
    ("dataset.carelessness", "1.5", "1.5", "of at least 0 and of at most 1"),
    ("base.vocabulary", "12", "12", "of at least 300"),
    ("base.model", "''", "''", "a non-empty text"),
    ("base.revision", "abc", "'abc'", "null for tiny"),
    ("base.heads", "3", "3", "a multiple of heads"),
    ("bases.games.episodes", "180", "180", "section with a whole number greater than 0 for each"),
    ("bases.games.episodes.marooned", "0", "0", "a whole number greater than 0"),
    ("bases.games.attention", "full", "'full'", "one of 'drawn', 'copying'"),
    ("openspiel.easy.threshold", "60", "60", "of at least 0 and of at most 1"),
    ("openspiel.easy.games", "[]", "[]", "a non-empty list"),
    ("openspiel.hard.opponents", "[random, mcts-1]", "'mcts-1'", "random, self, or mcts-N with 2 simulations or more"),
    ("ppo.self_play.size", "0", "0", "a whole number greater than 0"),
    ("openspiel.hard.floor", "0.5", "0.5", "at most the threshold (0.4)"),
    ("ppo.replay.mastery", "0", "0", "a whole number greater than 0"),
    ("tasks", "marooned", "'marooned'", "a non-empty section with a text for each"),
    ("tasks", "{}", "{}", "a non-empty section"),
    ("ppo.sampler", "there", "'there'", "one of 'here', 'vllm'"),
    ("overrides.marooned.ppo", "12", "12", "a section"),
]


def refusal(text: str | bytes, folder: Path) -> str:
    path = folder / "params.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CastawayError) as caught:
        read_params(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "params.yaml" in message
    return message


def test_the_shipped_file_is_right() -> None:
    params = read_params(ROOT / "params.yaml")
    assert isinstance(params, Params)
    assert set(Params.model_fields) == set(YAML(typ="safe").load(SHIPPED))


@pytest.mark.parametrize(("key", "value", "shown", "expectation"), WRONG_VALUES)
def test_a_wrong_value_is_named(key: str, value: str, shown: str, expectation: str, tmp_path: Path) -> None:
    message = refusal(changed(key, value), tmp_path)
    named = "base.hidden_size" if key == "base.heads" else key  # the rule between the two names the first
    assert f"{named} is " in message
    assert shown in message
    assert expectation in message


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("ppo.stepz", "ppo.stepz is unknown, did you mean ppo.steps?"),
        ("evaluation", "evaluation is unknown, did you mean evaluate?"),
        ("zebra", "zebra is unknown, expected one of tasks, seed"),
        ("sft.lora.zebra", "sft.lora.zebra is unknown, expected one of rank, alpha"),
    ],
)
def test_an_unknown_key_is_named_with_its_neighbour(key: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(changed(key, "1"), tmp_path)


@pytest.mark.parametrize("key", ["ppo.steps", "ppo.lora", "sft.lora.alpha", "seed", "evaluate", "threads"])
def test_a_missing_key_is_named(key: str, tmp_path: Path) -> None:
    assert f"{key} is missing, expected a" in refusal(changed(key, None), tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ppo.sampler", "vllm", "ppo.importance_cap is null, expected a number if sampler is vllm"),
        ("ppo", "{steps: 0}", "with overrides.marooned, ppo.steps is 0, expected a whole number greater than 0"),
        ("sft", "{stepz: 0}", "with overrides.marooned, sft.stepz is unknown"),
        ("ppo", "{kl_in: loss}", "with overrides.marooned, ppo.kl_estimator is 'k1'"),
    ],
)
def test_rules_between_keys_hold_with_what_a_task_sets(key: str, value: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(changed(key if "." in key else f"overrides.marooned.{key}", value), tmp_path)


def test_a_task_sets_keys_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(changed("overrides.marooned.ppo", "{steps: 3, lora: {rank: 2, alpha: 4}}"), encoding="utf-8")
    shipped = read_params(path)
    changed_ppo = shipped.ppo.model_copy(update={"steps": 3, "lora": shipped.ppo.lora.__class__(rank=2, alpha=4)})
    assert shipped.for_task("marooned").ppo == changed_ppo
    assert shipped.for_task("marooned").sft == shipped.sft and shipped.for_task("") == shipped


def test_an_unknown_task_is_named(tmp_path: Path) -> None:
    assert "tasks.atlantis is unknown, expected one of 'marooned'" in refusal(
        changed("tasks", "{atlantis: games}"), tmp_path
    )


def test_every_task_that_is_built_needs_text_for_the_base_model(tmp_path: Path) -> None:
    found = refusal(changed("bases.games.episodes", "{openspiel: 3}"), tmp_path)
    assert "bases.games.episodes.marooned is missing, expected a whole number" in found


def test_a_task_starts_from_a_base_model_that_is_described(tmp_path: Path) -> None:
    assert "tasks.marooned is 'boats', expected one of bases: games" in refusal(
        changed("tasks", "{marooned: boats}"), tmp_path
    )


def test_many_mistakes_stay_one_line(tmp_path: Path) -> None:
    message = refusal(changed("ppo", "{}"), tmp_path)
    assert "ppo.steps is missing" in message
    assert message.endswith("more")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("seed: 1\n", "seed: 1\nseed: 2\n", "seed is given twice"),
        ("  kind: rules\n", "  kind: rules\n  kind: rules\n", "kind is given twice"),
        ("seed: 1\n", "seed: [1\n", "'seed: [1'"),
        ("seed: 1\n", "seed: 'one\n", '"seed: \'one"'),
        ("seed: 1\n", "\tseed: 1\n", "'seed: 1'"),
        ("seed: 1\n", "seed: 1: 2\n", "'seed: 1: 2'"),
        ("seed: 1\n", "seed: *captain\n", "captain"),
        ("seed: 1\n", "seed: !!python/name:os.system\n", "python/name"),
        ("seed: 1\n", "seed: \x00\n", "line 4"),
        ("seed: 1\n", "1: seed\n", "1 is not a name"),
    ],
)
def test_a_broken_file_is_refused_at_its_line(before: str, after: str, words: str, tmp_path: Path) -> None:
    top = "tasks: [marooned]\nteacher:\n  kind: rules\nseed: 1\n"
    assert before in top
    assert words in refusal(top.replace(before, after), tmp_path)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert "is empty" in refusal("", tmp_path)
    assert "is empty" in refusal("# nothing but a comment\n", tmp_path)
    assert "holds a list" in refusal("- seed\n- device\n", tmp_path)
    assert "UTF-8" in refusal(b"seed: \xff\xfe\n", tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match=r"params\.yaml does not exist"):
        read_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").mkdir()
    with pytest.raises(CastawayError, match=r"params\.yaml cannot be read"):
        read_params(tmp_path / "params.yaml")


def test_yaml_is_read_as_version_1_2(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(changed("merge.tolerance", "1e-4"), encoding="utf-8")
    assert read_params(path).merge.tolerance == 1e-4


def test_a_whole_number_will_do_where_a_number_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(changed("sft.epochs", "2"), encoding="utf-8")
    assert read_params(path).sft.epochs == 2.0


@pytest.mark.parametrize("key", ["ppo.learning_rate", "seed", "marooned.scenario", "merge.dtype", "threads"])
def test_the_command_refuses(key: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(changed(key, "{wrong: 1}"), encoding="utf-8")
    (tmp_path / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "flows", "ppo@marooned"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"params.yaml: {key} is " in done.stderr
