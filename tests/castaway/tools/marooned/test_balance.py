"""The table of who wins against whom."""

import pytest

from castaway.envs.marooned.conduct import refuse
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.scripted import Saboteur, Script, Worker
from castaway.metrics.intervals import Interval
from castaway.tools.marooned.balance import MATCHES, Ended, Match, balance_table, in_band, play_match
from castaway.tools.marooned.traitors import BlindVoter, Framer, HunchVoter, Poisoner


def play(scenario: str, seed: int, traitor: Script, crew: Script, days: int = 3) -> Game:
    """A game of which every action was legal."""
    game = Game(load_scenario(scenario), seed)
    while not game.over and game.world.day <= days:
        chosen = {}
        for sailor in game.world.living:
            seen = game.observation(sailor.name)
            chosen[sailor.name] = (traitor if sailor.role == "traitor" else crew)(seen).action
            assert refuse(seen, chosen[sailor.name]) is None
        game.step(chosen)
    return game


def test_the_same_games_give_the_same_table_in_any_number_of_processes() -> None:
    one, two = balance_table("skiff", 4), balance_table("skiff", 4, processes=2)
    assert one == two
    assert all(match.name in one for match in MATCHES)


def test_a_game_is_reported_as_it_ended() -> None:
    [ended] = play_match("skiff", "waiters, idle traitor", 1)
    assert ended == Ended(crew_won=False, ending="the last day was over", days=3, progress=0.0)


def test_a_band_is_held_or_missed_by_the_share_itself() -> None:
    match = Match("x", [], lambda random: Worker(), low=0.4, high=0.6)
    assert in_band(match, Interval(0.6, 0.5, 0.7))
    assert not in_band(match, Interval(0.61, 0.5, 0.7))
    assert not in_band(match, Interval(0.39, 0.3, 0.5))
    chance = Match("y", [], lambda random: Worker(), chance=0.2)
    assert in_band(chance, Interval(0.22, 0.19, 0.25)) and in_band(chance, Interval(0.0, 0.0, 0.01))
    assert not in_band(chance, Interval(0.3, 0.25, 0.35))


def test_the_poisoner_poisons_the_framer_frames_and_the_blind_agree() -> None:
    games = [play("skiff", seed, Poisoner(), Worker()) for seed in range(8)]
    assert any(sailor.poisoner for game in games for sailor in game.world.sailors.values())
    game = play("skiff", 1, Framer(), Worker(), days=1)
    assert any(sailor.framed for sailor in game.world.sailors.values())
    assert any("ejected" in clue.text for clue in play("skiff", 1, BlindVoter(), BlindVoter()).world.clues)
    hunted = [play("skiff", seed, Saboteur(), HunchVoter()) for seed in range(8)]
    assert sum(game.world.ending == "the traitor was ejected" for game in hunted) > 4


@pytest.mark.parametrize("traitor", [Poisoner(), Framer()])
def test_they_play_by_the_rules_on_the_published_island_too(traitor: Script) -> None:
    play("classic", 3, traitor, Worker(), days=2)
