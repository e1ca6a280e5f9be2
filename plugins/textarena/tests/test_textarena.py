"""The games of TextArena keep the contract, are the same whatever is played beside them, and refuse in one sentence."""

from __future__ import annotations

import random
from pathlib import Path
from random import Random

import numpy
import pytest
from castaway_textarena.__main__ import blocks
from castaway_textarena.catalogue import REFUSED, check
from castaway_textarena.environment import PLAYER, TABLE, TextArenaEnvironment
from castaway_textarena.game import Game
from castaway_textarena.moves import candidates, expanded, legal_moves
from castaway_textarena.negotiation import standing
from castaway_textarena.params import TextArenaParams
from castaway_textarena.served import served_player
from castaway_textarena.tables import write_between
from castaway_textarena.task import TextArena
from castaway_textarena.trial import digest, nothing_raised, own_code_fails, side_by_side

from castaway.config.errors import CastawayError
from castaway.rollout.play import Generation, play_episodes
from castaway.tasks.environment import SELF_PLAY
from castaway.tasks.registry import load_task, read_params, task_class, task_of
from castaway.tools.checker import AT_THE_END, FREE_TEXT, check_environment

README = Path(__file__).parents[1] / "README.md"
PASSING = [
    line.split(" | ")[0].removeprefix("| ")
    for line in README.read_text("utf-8").split("\n")
    if line.endswith("| passes |")
]
"""The games that pass by the README's table; the command that writes it tries them all, longer than here."""
QUICK = ["TicTacToe-v0", "KuhnPoker-v0", "FrozenLake-v0-random", "SimpleNegotiation-v0-short", "Taboo-v0", "PigDice-v0"]


def task(game: str, **more: object) -> TextArena:
    return TextArena(TextArenaParams.model_validate({"game": game, "rendering": "compact", **more}))


def test_at_least_thirty_games_pass() -> None:
    assert len(PASSING) >= 30


@pytest.mark.parametrize("game", QUICK)
def test_games_keep_the_contract(game: str) -> None:
    assert AT_THE_END in check_environment(task(game).make, range(2))


def test_free_text_is_noted() -> None:
    assert FREE_TEXT in check_environment(task("Taboo-v0").make, [0])
    assert FREE_TEXT not in check_environment(task("TicTacToe-v0").make, [0])


@pytest.mark.parametrize("game", PASSING[::4])
def test_what_passes_is_the_same_side_by_side_and_survives_random_texts(game: str) -> None:
    def make() -> TextArenaEnvironment:
        return TextArenaEnvironment(game, rendering="compact", turns=12)

    assert (own_code_fails(make, 1), side_by_side(make), nothing_raised(make, 60)) == ("", "", "")


def test_a_game_leaves_no_trace_in_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    random.seed(7)
    numpy.random.seed(7)
    before = random.getstate(), numpy.random.get_state()[1].tolist()
    for game in ("RushHour-v0", "SimpleNegotiation-v0"):
        environment = TextArenaEnvironment(game)
        environment.reset(3, TABLE)
        environment.step({})
    assert (random.getstate(), numpy.random.get_state()[1].tolist()) == before
    assert capsys.readouterr().out == ""


def test_an_id_is_one_episode_and_others_are_others() -> None:
    assert digest("KuhnPoker-v0") == digest("KuhnPoker-v0")
    boards = set()
    environment = TextArenaEnvironment("FrozenLake-v0-random")
    for task_id in range(20):
        environment.reset(task_id, TABLE)
        boards.add(environment.prompts()[0].observation.board)
    assert len(boards) > 15


@pytest.mark.parametrize("game", ["Wordle-v0", "Codenames-v0", "Debate-v0", "BabyAiText-v0", "NoSuchGame-v0"])
def test_what_cannot_be_played_is_refused_in_one_sentence(game: str) -> None:
    with pytest.raises(CastawayError, match=game) as refused:
        check(game)
    assert "\n" not in str(refused.value)


def test_nine_games_download_word_lists() -> None:
    assert sum("word list" in reason for reason in REFUSED.values()) == 9


def test_patterns_by_hand() -> None:
    assert list(expanded("[{Hit|Stand}]")) == ["[Hit]", "[Stand]"]
    assert list(expanded("[{0-1} {1-2}]")) == ["[0 1]", "[0 2]", "[1 1]", "[1 2]"]


def test_the_legal_moves_are_those_that_the_game_takes() -> None:
    game = Game("TicTacToe-v0", 0)
    assert len(candidates(game)) == len(legal_moves(game)) == 9
    assert game.step("[4]") and "[4]" not in legal_moves(game)
    assert not game.step("[4]"), "taken"
    assert game.step("[0]"), "a second chance after an invalid move"


def test_two_invalid_moves_lose_as_textarena_has_it() -> None:
    environment = TextArenaEnvironment("TicTacToe-v0")
    environment.reset(0, TABLE)
    environment.step({PLAYER: "nonsense"})
    assert not environment.done
    assert environment.step({PLAYER: "nonsense"}) == {PLAYER: -1.0, "rival 1": 1.0}
    assert environment.outcome().details["invalid_moves"] == 2
    assert "correct format" in environment.outcome().ending


def test_the_search_solves_lakes_and_sees_lost_moves() -> None:
    lakes = task("FrozenLake-v0-random", search_depth=12)
    environment = lakes.make()
    for task_id in range(900_000_000, 900_000_020):
        environment.reset(task_id, TABLE)
        assert environment.play_out("search").outcome.success
    environment.reset(3, TABLE)
    seen = environment.prompts()[0].observation
    values = {move: environment.rules.blunder(seen, move) for move in seen.legal}
    assert "" in values.values()


def test_the_known_players_beat_random_ones() -> None:
    for game in ("KuhnPoker-v0", "SimpleNegotiation-v0-short"):
        environment, won = task(game).make(), 0
        for task_id in range(900_000_000, 900_000_060):
            environment.reset(task_id, TABLE)
            won += environment.play_out("search").outcome.success
        assert won > 36


def test_a_trader_knows_what_it_has_after_a_trade() -> None:
    environment = task("SimpleNegotiation-v0").make()
    for task_id in range(40):
        environment.reset(task_id, SELF_PLAY)
        for action in ("[Offer: 1 Wheat -> 1 Ore]", "[Accept]"):
            prompt = environment.prompts()[0]
            environment.step({prompt.agent: action})
        prompt = environment.prompts()[0]
        held = environment._game.env.state.game_state["player_resources"][prompt.observation.player]
        assert standing(prompt.observation).held == held


@pytest.mark.parametrize("game", ["KuhnPoker-v0", "TicTacToe-v0", "SimpleNegotiation-v0-short"])
def test_self_play_asks_another_policy_for_the_others(game: str) -> None:
    asked: dict[bool, int] = {False: 0, True: 0}
    choice = Random(0)

    def policy(prompts: list) -> list[Generation]:
        asked[prompts[0].opponent] += len(prompts)
        return [Generation(f"REASONING: so\nACTION: {choice.choice(p.observation.legal)}") for p in prompts]

    episodes = play_episodes(task(game).make, [(i, SELF_PLAY) for i in range(8)], policy, None, opponent=policy)
    assert asked[False] and asked[True]
    assert all({one.agent for one in episode.trajectories} == {PLAYER} for episode in episodes)
    paid = [sum(turn.reward for turn in episode.trajectories[0].turns) for episode in episodes]
    assert paid == [episode.outcome.details["reward"] for episode in episodes]


def test_a_saved_episode_holds_what_all_have_said() -> None:
    def policy(prompts: list) -> list[Generation]:
        return [Generation(f"REASONING: so\nACTION: {p.observation.legal[0]}") for p in prompts]

    (episode,) = play_episodes(task("TicTacToe-v0").make, [(0, TABLE)], policy, None, keep_snapshots=1)
    *moments, last = episode.snapshots
    assert len(last["dialogue"]) > len(moments)
    replies = [moment["said"][PLAYER]["action"] for moment in moments]
    assert [text for text in last["dialogue"] if text in replies] == replies


def test_the_entry_point_gives_the_task() -> None:
    assert task_class("textarena") is TextArena
    assert load_task("textarena", TextArenaParams(game="Nim-v0")).make().agents == (PLAYER, "rival 1")


def test_a_served_demonstrator_needs_an_address() -> None:
    with pytest.raises(CastawayError, match="expected a URL and a model"):
        served_player(None)


def test_tables_are_written_between_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- games -->\nold\n<!-- /games -->\nb\n", "utf-8")
    write_between(page, "games", "new")
    assert page.read_text("utf-8") == "a\n<!-- games -->\nnew\n<!-- /games -->\nb\n"
    with pytest.raises(CastawayError, match="no marks"):
        write_between(page, "results", "new")


def test_blocks_are_written_once_and_fit_params_yaml(tmp_path: Path) -> None:
    page = tmp_path / "params.yaml"
    page.write_text((Path(__file__).parents[3] / "params.yaml").read_text("utf-8"), "utf-8")
    blocks("PigDice-v0-short", page)
    params = read_params(page)
    assert task_of(params, "ta_pigdice_v0_short").make().agents == (PLAYER, "rival 1")
    with pytest.raises(CastawayError, match="has a block ta_pigdice_v0_short already"):
        blocks("PigDice-v0-short", page)


def test_a_game_in_which_all_are_out_does_not_hang() -> None:
    # Three invalid moves put a player out, a valid one passes the turn on, and TextArena never ends the game.
    environment = TextArenaEnvironment("PublicGoodsGame-v0")
    environment.reset(0, TABLE)
    for text in ["no number"] * 8 + ["no number", "no number", "no number", "[5]"] * 6:
        if not environment.done:
            environment.say(text)
    assert environment.done
    assert environment.outcome().ending.endswith("RuntimeError: all players are out, and the game does not end")
