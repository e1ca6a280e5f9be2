"""Twenty games of OpenSpiel as one text environment.

- Agents: `player`. The task id says which game it plays, at which of the game's own places, and with which seeds; see
  `castaway.envs.openspiel.ids`.
- Seats: what the opponents are, `random` or `mcts-N` for a tree search with N simulations; they move within `step`. In
  the seat `self` they are agents too, `rival 1` being the next after the player, and prompted when they are to move.
- Prompts: the game's rules on a line, the state as the player may see it, and a menu of numbered moves.
- Actions: the number of a move; `0`, the idle one, draws it by lot. See `castaway.envs.openspiel.menu`.
- Reward: the game's result from 0 to 1, when the game ends and not before; a draw pays one half.
- End: the game's own. A deal in which the player would never have to move is dealt again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

from castaway.envs.openspiel.games import largest_return, load_variant
from castaway.envs.openspiel.ids import episode_of, task_id_of
from castaway.envs.openspiel.menu import BY_LOT, MenuRules
from castaway.envs.openspiel.observation import Observation, Rendering, observe
from castaway.envs.openspiel.opponents import Opponent, make_opponent, opponent_named
from castaway.envs.openspiel.prompting import messages
from castaway.tasks.environment import SELF_PLAY, Outcome, Played, Prompt, TextEnvironment

PLAYER = "player"
RIVALS = ("rival 1", "rival 2", "rival 3")


class OpenSpielEnvironment(TextEnvironment):
    """One game at a time; see the module."""

    name = "openspiel"
    idle = BY_LOT

    def __init__(self, seats: Sequence[str] = ("random",), rendering: Rendering = "full") -> None:
        """A table for one player against the opponents that `seats` names."""
        self._rendering = rendering
        self.rules = MenuRules()
        self.seats = tuple(seats)
        self.agents = (PLAYER, *RIVALS) if SELF_PLAY in seats else (PLAYER,)
        self._described = {seat: opponent_named(seat) for seat in seats if seat != SELF_PLAY}

    def reset(self, task_id: int, seat: str) -> None:
        """Start the game of `task_id`."""
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._seat = seat
        self._lot = Random(f"lot {task_id}")
        self._episode = episode_of(task_id)
        self._loaded = load_variant(self._episode.played, self._episode.variant)
        self._attempts = count()
        self._deal()

    def _deal(self) -> None:
        """A new game, up to the first move of an agent; one that ends before that is dealt again."""
        self._moves = 0
        for attempt in self._attempts:
            self._chance = Random(f"{self._episode.chance_seed} {attempt}")
            self._opponents = self._scripted(Random(f"{self._episode.opponent_seed} {attempt}"))
            self._state = self._loaded.new_initial_state()
            self._advance()
            if not self.done:
                return

    def _scripted(self, random: Random) -> dict[int, Opponent]:
        """The opponents that move within `step`, by their places in the game: in self-play nobody."""
        if self._seat == SELF_PLAY:
            return {}
        places = [place for place in range(self._loaded.num_players()) if place != self._episode.seat]
        return {place: make_opponent(self._described[self._seat], self._loaded, random) for place in places}

    def _advance(self) -> None:
        """Chance and the scripted opponents, until an agent is to move or the game is over."""
        state = self._state
        while not state.is_terminal():
            if state.is_chance_node():
                numbers, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(self._chance.choices(numbers, weights)[0])
            elif state.current_player() in self._opponents:
                state.apply_action(self._opponents[state.current_player()](state))
            else:
                return

    def prompts(self) -> tuple[Prompt, ...]:
        """The player, or in self-play whoever is to move, until the game is over."""
        if self.done:
            return ()
        observation = self._observation()
        agent = self._agent(observation.seat)
        role = PLAYER if agent == PLAYER else "rival"
        return (Prompt(agent, role, messages(observation), observation, rival=agent != PLAYER),)

    def _agent(self, place: int) -> str:
        """Who sits at a place in the game: the rivals are counted from the player on."""
        return (PLAYER, *RIVALS)[(place - self._episode.seat) % self._loaded.num_players()]

    def _observation(self) -> Observation:
        """What the one who is to move knows."""
        episode, place = self._episode, self._state.current_player()
        return observe(episode.played, episode.variant, place, self._state, self._rendering)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Make the move that an agent is to make, and play on to the next one."""
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        observation = self._observation()
        agent = self._agent(observation.seat)
        typed = actions.get(agent, self.idle)
        if typed == self.idle or self.rules.refusal(observation, typed) is not None:
            number = self._lot.choice(observation.numbers)
        else:
            number = observation.numbers[int(typed) - 1]
        self._state.apply_action(number)
        self._moves += agent == PLAYER
        self._advance()
        if self._state.is_terminal() and not self._moves:
            self._deal()
        return self._pay()

    def _pay(self) -> dict[str, float]:
        """Its result to each agent that sits in the game when that is over, else nothing."""
        places = range(self._loaded.num_players()) if self.done else ()
        results = {self._agent(place): self._result(place) for place in places}
        return {agent: results.get(agent, 0.0) for agent in self.agents}

    def _result(self, place: int) -> float:
        most = largest_return(self._loaded)
        return self._episode.played.result(self._state.returns(), place, most)

    def play_out(self, name: str) -> Played:
        """Let an opponent of that name, `random` or `mcts-N`, play the episode to its end in the player's place."""
        play = make_opponent(opponent_named(name), self._loaded, Random(f"{name} {task_id_of(self._episode)}"))
        while not self.done:
            place = self._state.legal_actions().index(play(self._state))
            self.step({PLAYER: str(place + 1)})
        return Played(task_id_of(self._episode), self._seat, self.outcome(), self._moves, 0)

    @property
    def done(self) -> bool:
        """Whether the game is over."""
        return bool(self._state.is_terminal())

    def outcome(self) -> Outcome:
        """Success is the game's own aim."""
        episode, returns = self._episode, self._state.returns()
        success, result = episode.played.success(returns, episode.seat), self._result(episode.seat)
        ending = "won" if success else "drawn" if result == 0.5 else "not won"
        details = {"score": result, "return": float(returns[episode.seat]), "length": float(self._moves)}
        return Outcome(success, f"{episode.played.name} {ending}", details)

    def snapshot(self) -> dict[str, Any]:
        """The whole truth of this moment, hidden cards and all."""
        episode = self._episode
        return {
            "game": episode.played.name,
            "variant": episode.played.variants[episode.variant].name,
            "seat": episode.seat,
            "state": str(self._state),
            "history": list(self._state.history()),
            "returns": [float(amount) for amount in self._state.returns()],
            "done": self.done,
        }
