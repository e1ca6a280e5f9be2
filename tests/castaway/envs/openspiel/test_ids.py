"""Task ids: each is one episode, a stage draws those of its games, and some games are for evaluation alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.errors import CastawayError
from castaway.envs.openspiel.games import GAMES, player_count
from castaway.envs.openspiel.ids import CHANCE_SEEDS, EPISODES, Episode, Tables, episode_of, tables_named, task_id_of
from castaway.envs.openspiel.task import OpenSpiel
from castaway.tasks.environment import HELD_OUT_START, held_out_ids, is_held_out
from castaway.tasks.registry import task_of
from tests.shipped import PARAMS

EVERY = [(game, variant) for game in range(len(GAMES)) for variant in range(len(GAMES[game].variants))]
some_tables = st.lists(st.sampled_from(EVERY), min_size=1, unique=True)
OPPONENTS = 500
"""Every game has at least as many seeds of its opponents."""


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    game = draw(st.integers(0, len(GAMES) - 1))
    variant = draw(st.integers(0, len(GAMES[game].variants) - 1))
    most = (player_count(GAMES[game], variant) - 1, CHANCE_SEEDS - 1, OPPONENTS - 1, 3)
    return Episode(game, variant, *(draw(st.integers(0, one)) for one in most))


@given(st.integers(0, 10**12))
def test_every_id_is_one_episode(task_id: int) -> None:
    assert task_id_of(episode_of(task_id)) == task_id


@given(episodes(), episodes())
def test_every_episode_has_one_id_and_held_out_ones_have_streams_of_their_own(one: Episode, other: Episode) -> None:
    assert episode_of(task_id_of(one)) == one
    assert is_held_out(task_id_of(one)) == (one.split > 0)
    training, held_out = replace(one, split=0), replace(other, split=1)
    assert training.chance_seed != held_out.chance_seed
    assert training.opponent_seed != held_out.opponent_seed


@given(episodes())
def test_a_deal_does_not_depend_on_who_plays_it(episode: Episode) -> None:
    other = replace(episode, seat=0, opponent=0)
    assert other.chance_seed == episode.chance_seed
    assert (other.opponent_seed == episode.opponent_seed) == (other == episode)


def test_known_ids_mean_what_they_have_always_meant() -> None:
    with pytest.raises(ValueError, match="there is no episode -1"):
        episode_of(-1)
    assert episode_of(0) == Episode(0, 0, 0, 0, 0)
    assert episode_of(2) == Episode(2, 0, 0, 0, 0)
    assert episode_of(123_456_789) == Episode(9, 0, 1, 8806, 102)
    assert episode_of(HELD_OUT_START + 17) == Episode(17, 0, 0, 0, 0, 1)
    assert episode_of(900_000_003) == Episode(20, 0, 1, 1, 0)
    assert episode_of(HELD_OUT_START - 1).game == 20


@pytest.mark.parametrize("parts", [(0, 0, 2, 0, 0), (0, 0, 0, CHANCE_SEEDS, 0), (0, 0, 0, 0, 10**6)])
def test_what_no_id_says_is_refused(parts: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no task id stands for Episode"):
        task_id_of(Episode(*parts))


@given(some_tables, st.data())
def test_every_place_holds_an_id_of_the_tables_and_no_other_holds_it(
    tables: list[tuple[int, int]], data: st.DataObject
) -> None:
    ids = Tables(tables)
    one, other = (data.draw(st.integers(0, len(ids) - 1)) for _ in range(2))
    episode = episode_of(ids[one])
    assert (episode.game, episode.variant) in tables and ids[one] < HELD_OUT_START and ids[one] in ids
    assert (ids[one] == ids[other]) == (one == other)


@given(some_tables)
def test_it_is_a_sequence(tables: list[tuple[int, int]]) -> None:
    ids = Tables(tables)
    assert len(ids) == EPISODES * len(tables)
    assert ids[-1] == ids[len(ids) - 1] and ids[3:9:2] == [ids[3], ids[5], ids[7]]
    with pytest.raises(IndexError):
        ids[len(ids)]
    assert "a text" not in ids and -1 not in ids


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(CastawayError, match="there is no game 'chess', expected one of tic_tac_toe, "):
        tables_named(["nim", "chess"])
    with pytest.raises(CastawayError, match="hex has no variant '4x4', expected one of 3x3, 5x5, 7x7"):
        tables_named(["hex 4x4"])


def task_with(*unseen: str) -> OpenSpiel:
    return OpenSpiel(task_of(PARAMS, "openspiel").game.model_copy(update={"unseen": [*unseen]}))


def test_the_ids_are_of_the_named_variants_in_turn() -> None:
    ids = held_out_ids(task_with("nim 1 2 3", "hex 5x5").unseen_ids(), 4, 8)
    found = [episode_of(task_id) for task_id in ids]
    assert [(one.played.name, one.played.variants[one.variant].name) for one in found] == [
        ("nim", "1 2 3"), ("hex", "5x5")
    ] * 4  # fmt: skip
    assert all(one.split for one in found) and len({*ids}) == 8


@pytest.mark.parametrize("name", ["nim 1 3 5 7", "nim"])
def test_what_is_trained_is_not_unseen(name: str) -> None:
    with pytest.raises(CastawayError, match=r"game\.unseen names a variant of nim that a stage"):
        task_with(name).unseen_ids()
