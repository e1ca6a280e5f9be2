"""Twenty games of OpenSpiel as one text environment.

- Agents: `player`. The task id selects the game, the player's place in it, and the seeds; see
  `castaway.envs.openspiel.ids`.
- Seats: the kind of opponents, `random`, or `mcts-N` for a tree search with N simulations; they move within `step`. In
  the seat `self` the opponents are agents too (`rival 1` is the next after the player) and get prompts.
- Prompts: the state as the player may see it, and a menu of moves; see `castaway.envs.openspiel.prompting`.
- Actions: the number of a move, or its name; the idle action `0` draws a random move. See
  `castaway.envs.openspiel.menu`.
- Reward: the result of the game from 0 to 1 (0.5 for a draw) when the game ends, and 0 before.
- End: when the game ends. A game in which the player never had to move is started again with other random numbers.
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
"""The opponents as agents; no game of the catalogue has more than four players."""


class OpenSpielEnvironment(TextEnvironment):
    """The environment; it holds one game at a time. See the module docstring."""

    name = "openspiel"
    idle = BY_LOT

    def __init__(self, seats: Sequence[str] = ("random",), rendering: Rendering = "full") -> None:
        """Make an environment for one player against the opponents that `seats` names.

        Raises:
            ValueError: a seat is neither `self` nor an opponent.
        """
        self._rendering = rendering
        self.rules = MenuRules()
        self.seats = tuple(seats)
        self.agents = (PLAYER, *RIVALS) if SELF_PLAY in seats else (PLAYER,)
        self._described = {seat: opponent_named(seat) for seat in seats if seat != SELF_PLAY}

    def reset(self, task_id: int, seat: str) -> None:
        """Start the game of `task_id`.

        Raises:
            ValueError: the id is negative or the seat unknown.
        """
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._seat = seat
        self._lot = Random(f"lot {task_id}")
        self._episode = episode_of(task_id)
        self._loaded = load_variant(self._episode.played, self._episode.variant)
        self._attempts = count()
        self._deal()

    def _deal(self) -> None:
        """Start a game and play up to the first move of an agent; a game that ends before that is started again."""
        self._moves = 0
        for attempt in self._attempts:
            self._chance = Random(f"{self._episode.chance_seed} {attempt}")
            self._opponents = self._scripted(Random(f"{self._episode.opponent_seed} {attempt}"))
            self._state = self._loaded.new_initial_state()
            self._advance()
            if not self.done:
                return

    def _scripted(self, random: Random) -> dict[int, Opponent]:
        """Place in the game to the opponent that moves within `step`; empty in self-play."""
        if self._seat == SELF_PLAY:
            return {}
        places = [place for place in range(self._loaded.num_players()) if place != self._episode.seat]
        return {place: make_opponent(self._described[self._seat], self._loaded, random) for place in places}

    def _advance(self) -> None:
        """Play chance events and scripted opponents until an agent is to move or the game is over."""
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
        """The prompt of the player, or in self-play of the agent that is to move; empty once the game is over."""
        if self.done:
            return ()
        observation = self._observation()
        agent = self._agent(observation.seat)
        role = PLAYER if agent == PLAYER else "rival"
        return (Prompt(agent, role, messages(observation), observation, rival=agent != PLAYER),)

    def _agent(self, place: int) -> str:
        """The agent at a place in the game; the opponents are numbered from the player on."""
        return (PLAYER, *RIVALS)[(place - self._episode.seat) % self._loaded.num_players()]

    def _observation(self) -> Observation:
        """The observation of the agent that is to move."""
        episode, place = self._episode, self._state.current_player()
        return observe(episode.played, episode.variant, place, self._state, self._rendering)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Make the move of the agent that is to move, and play on to the next one.

        Raises:
            ValueError: the episode is over.
        """
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        observation = self._observation()
        agent = self._agent(observation.seat)
        typed = actions.get(agent, self.idle)
        if typed == self.idle or self.rules.refusal(observation, typed) is not None:
            number = self._lot.choice(observation.numbers)
        else:
            number = observation.numbers[self.rules.legal_actions(observation).index(typed)]
        self._state.apply_action(number)
        self._moves += agent == PLAYER
        self._advance()
        # Possible in self-play only: an opponent moved first, and the game ended before the player's turn.
        if self._state.is_terminal() and not self._moves:
            self._deal()
        return self._pay()

    def _pay(self) -> dict[str, float]:
        """Reward by agent: its result once the game is over, otherwise 0."""
        places = range(self._loaded.num_players()) if self.done else ()
        results = {self._agent(place): self._result(place) for place in places}
        return {agent: results.get(agent, 0.0) for agent in self.agents}

    def _result(self, place: int) -> float:
        most = largest_return(self._loaded)
        return self._episode.played.result(self._state.returns(), place, most)

    def play_out(self, name: str) -> Played:
        """Let `random` or `mcts-N` play the episode to its end in the place of the player, and return the result."""
        play = make_opponent(opponent_named(name), self._loaded, Random(f"{name} {task_id_of(self._episode)}"))
        while not self.done:
            observation = self._observation()
            place = observation.numbers.index(play(self._state))
            self.step({PLAYER: self.rules.legal_actions(observation)[place]})
        return Played(task_id_of(self._episode), self._seat, self.outcome(), self._moves, 0)

    @property
    def done(self) -> bool:
        """Whether the game is over."""
        return bool(self._state.is_terminal())

    def outcome(self) -> Outcome:
        """Success means that the player reached the aim of the game."""
        episode, returns = self._episode, self._state.returns()
        success, result = episode.played.success(returns, episode.seat), self._result(episode.seat)
        ending = "won" if success else "drawn" if result == 0.5 else "not won"
        details = {"score": result, "return": float(returns[episode.seat]), "length": float(self._moves)}
        return Outcome(success, f"{episode.played.name} {ending}", details)

    def snapshot(self) -> dict[str, Any]:
        """The complete state, hidden cards included."""
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
