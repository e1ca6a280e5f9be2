"""A task id and its episode say the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import player_count
from castaway.envs.openspiel.ids import CHANCE_SEEDS, Episode, episode_of, task_id_of
from castaway.tasks.environment import HELD_OUT_START, is_held_out

OPPONENTS = 555
"""Every game has at least as many seeds of its opponents."""


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    game = draw(st.integers(0, len(GAMES) - 1))
    variant = draw(st.integers(0, len(GAMES[game].variants) - 1))
    return Episode(
        game,
        variant,
        draw(st.integers(0, player_count(GAMES[game], variant) - 1)),
        draw(st.integers(0, CHANCE_SEEDS - 1)),
        draw(st.integers(0, OPPONENTS - 1)),
        draw(st.integers(0, 3)),
    )


@given(st.integers(0, 10**12))
def test_every_id_is_one_episode(task_id: int) -> None:
    assert task_id_of(episode_of(task_id)) == task_id


@given(episodes())
def test_every_episode_has_one_id(episode: Episode) -> None:
    assert episode_of(task_id_of(episode)) == episode


@given(episodes())
def test_an_id_is_held_out_unless_its_split_is_the_first(episode: Episode) -> None:
    assert is_held_out(task_id_of(episode)) == (episode.split > 0)


@given(episodes(), episodes())
def test_training_and_evaluation_draw_from_different_streams(one: Episode, other: Episode) -> None:
    training, held_out = replace(one, split=0), replace(other, split=1)
    assert training.chance_seed != held_out.chance_seed
    assert training.opponent_seed != held_out.opponent_seed


@given(st.integers(0, 10**12))
def test_ids_in_a_row_go_through_all_games(task_id: int) -> None:
    start = task_id - task_id % len(GAMES)
    assert {episode_of(start + step).game for step in range(len(GAMES))} == set(range(len(GAMES)))


def test_a_thousand_ids_in_a_row_hold_many_deals_and_every_board() -> None:
    seen = [episode_of(task_id) for task_id in range(1000)]
    kuhn = [episode for episode in seen if episode.played.name == "kuhn_poker"]
    assert {(episode.variant, episode.seat) for episode in kuhn} == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)}
    assert len({episode.chance_seed for episode in kuhn}) > 15


@given(episodes())
def test_a_deal_does_not_depend_on_who_plays_it(episode: Episode) -> None:
    other = replace(episode, seat=0, opponent=0)
    assert other.chance_seed == episode.chance_seed
    assert (other.opponent_seed == episode.opponent_seed) == (other == episode)


def test_known_ids_mean_what_they_have_always_meant() -> None:
    assert episode_of(0) == Episode(0, 0, 0, 0, 0)
    assert episode_of(2) == Episode(2, 0, 0, 0, 0)
    assert episode_of(123_456_789) == Episode(9, 0, 1, 8806, 102)
    assert episode_of(HELD_OUT_START + 17) == Episode(17, 0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("episode", "sentence"),
    [
        (Episode(20, 0, 0, 0, 0), "there is no game 20: it is a number from 0 to 19"),
        (Episode(0, 1, 0, 0, 0), "there is no variant 1: it is a number from 0 to 0"),
        (Episode(0, 0, 2, 0, 0), "there is no seat 2: it is a number from 0 to 1"),
        (Episode(0, 0, 0, 10_000, 0), "there is no seed of chance 10000: it is a number from 0 to 9999"),
        (Episode(0, 0, 0, 0, 10**6), "no task id has the opponents' seed 1000000 in the split 0"),
        (Episode(0, 0, 0, 0, -1), "no task id has the opponents' seed -1 in the split 0"),
    ],
)
def test_what_no_id_says_is_refused(episode: Episode, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        task_id_of(episode)


def test_a_negative_id_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no episode -1"):
        episode_of(-1)
