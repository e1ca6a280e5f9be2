"""The ids that a stage draws from."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.tables import EPISODES, Tables, tables_named
from castaway.errors import CastawayError
from castaway.tasks.environment import HELD_OUT_START, ids_in_a_row
from castaway.tasks.registry import read_params

ROOT = Path(__file__).parents[4]
EVERY = [(game, variant) for game in range(len(GAMES)) for variant in range(len(GAMES[game].variants))]
some_tables = st.lists(st.sampled_from(EVERY), min_size=1, unique=True)


@given(some_tables, st.data())
def test_every_place_holds_an_id_of_the_tables_and_no_other_holds_it(
    tables: list[tuple[int, int]], data: st.DataObject
) -> None:
    ids = Tables(tables)
    one, other = (data.draw(st.integers(0, len(ids) - 1)) for _ in range(2))
    episode = episode_of(ids[one])
    assert (episode.game, episode.variant) in tables and ids[one] < HELD_OUT_START and ids[one] in ids
    assert (ids[one] == ids[other]) == (one == other)


@given(some_tables, st.integers(0, 2 * HELD_OUT_START - 1))
def test_an_id_is_held_if_its_table_is_one(tables: list[tuple[int, int]], task_id: int) -> None:
    episode = episode_of(task_id)
    held = task_id in Tables(tables)
    assert not held or (task_id < HELD_OUT_START and (episode.game, episode.variant) in tables)
    assert "a text" not in Tables(tables) and -1 not in Tables(tables)


@given(some_tables)
def test_it_is_a_sequence(tables: list[tuple[int, int]]) -> None:
    ids = Tables(tables)
    assert len(ids) == EPISODES * len(tables)
    assert ids[-1] == ids[len(ids) - 1] and ids[3:9:2] == [ids[3], ids[5], ids[7]]
    with pytest.raises(IndexError):
        ids[len(ids)]


def test_neighbours_go_through_all_tables_and_seats() -> None:
    ids = tables_named(["tic_tac_toe", "kuhn_poker three players", "nim"])
    seen = [episode_of(task_id) for task_id in ids[:12]]
    assert [(one.played.name, one.variant) for one in seen[:4]] == [
        ("tic_tac_toe", 0),
        ("kuhn_poker", 1),
        ("nim", 0),
        ("nim", 1),
    ]
    assert [one.seat for one in seen[1::4]] == [0, 1, 2]


def test_every_game_and_variant_can_be_named() -> None:
    names = [f"{game.name} {variant.name}" for game in GAMES for variant in game.variants]
    assert tables_named(names).tables == tuple(EVERY)
    assert tables_named([game.name for game in GAMES]).tables == tuple(EVERY)
    assert tables_named(["nim", "nim 1 2 3"]).tables == tables_named(["nim"]).tables


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(CastawayError, match="there is no game 'chess', expected one of tic_tac_toe, "):
        tables_named(["nim", "chess"])
    with pytest.raises(CastawayError, match="hex has no variant '4x4', expected one of 3x3, 5x5, 7x7"):
        tables_named(["hex 4x4"])


@pytest.mark.parametrize(
    ("key", "stage", "said"),
    [
        ("games", "hard", "tasks.openspiel.game.hard.games is wrong: there is no game 'chess', expected one of tic_"),
        ("unseen", "", "tasks.openspiel.game.unseen is wrong: there is no game 'chess', expected one of tic_"),
    ],
)
def test_params_yaml_names_the_wrong_game(tmp_path: Path, key: str, stage: str, said: str) -> None:
    yaml = YAML()
    params = yaml.load((ROOT / "params.yaml").read_text("utf-8"))
    game = params["tasks"]["openspiel"]["game"]
    (game[stage] if stage else game)[key] = ["chess"]
    with (tmp_path / "params.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(params, file)
    with pytest.raises(CastawayError) as refused:
        read_params(tmp_path / "params.yaml")
    assert said in str(refused.value)


def test_neighbours_from_a_place_among_all_training_ids() -> None:
    assert ids_in_a_row(range(HELD_OUT_START), 200_000_000, 3) == [200_000_000, 200_000_001, 200_000_002]
    assert ids_in_a_row(range(1000), 200_000_000, 3) == [200, 201, 202]
