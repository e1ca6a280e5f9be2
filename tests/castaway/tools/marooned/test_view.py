"""The data behind the page of a replay."""

import pytest

from castaway.config.errors import CastawayError
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tools.marooned.view import replay_data
from tests.castaway.tools.marooned.episodes import played


@pytest.mark.parametrize("seat", ["crew", "traitor", "all"])
def test_an_episode_is_played_again_as_it_was(seat: str) -> None:
    rows = played(11, seat, {})
    data = replay_data(rows)
    assert data["known"] is not None
    assert all(len(known) == len(rows) - 1 for known in data["known"].values())
    environment = MaroonedEnvironment("skiff", "compact")
    environment.reset(11, seat)
    own = environment.observation("Alice")
    assert data["known"]["Alice"][0]["place"] == list(own.place)
    assert {name: mate["place"] for name, mate in data["known"]["Alice"][0]["mates"].items()} == {
        mate.name: list(mate.place) if mate.place else None for mate in own.mates
    }


@pytest.mark.parametrize("seat", ["crew", "all", "self"])
def test_an_episode_of_all_verbs_and_few_turns_is_played_again_too(seat: str) -> None:
    rows = played(12, seat, {}, turns=5, repertoire="whole")
    assert len(rows) == 7 and replay_data(rows)["known"] is not None


def test_changes_of_piles_add_up() -> None:
    rows = played(5, "all", {})
    piles: dict[str, object] = {}
    for moment, saved in zip(replay_data(rows)["moments"], rows[1:], strict=True):
        piles |= moment["piles"]
        piles = {id: pile for id, pile in piles.items() if pile is not None}
        assert piles == saved["piles"]


def test_what_is_no_episode_of_marooned_is_refused() -> None:
    rows = played(5, "all", {})
    with pytest.raises(CastawayError, match="no episode of MAROONED"):
        replay_data(rows[:1])
    with pytest.raises(CastawayError, match="no episode of MAROONED"):
        replay_data([rows[0], {"said": {}}])
    rows[1]["ship"] = {"raft": 0}
    with pytest.raises(CastawayError, match="no scenario"):
        replay_data(rows)
