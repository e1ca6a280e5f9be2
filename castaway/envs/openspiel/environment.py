"""Games of OpenSpiel as one text environment.

- Agents: `player`. The task id selects the game, the player's place in it, and the seeds; see
  `castaway.envs.openspiel.ids`.
- Seats: the kind of opponents, `random`, or `mcts-N` for a tree search with N simulations; they move within `step`. In
  the seat `self` the opponents are agents too (`rival 1` is the next after the player) and get prompts.
- Prompts: the state as the player may see it, and a menu of moves; see `castaway.envs.openspiel.prompting`.
- Actions: the number of a move, or its name; the idle action `0` draws a random move.
- Reward: the result of the game from 0 to 1 (0.5 for a draw) when the game ends, and 0 before.
- End: when the game ends. A game in which the player never had to move is started again with other random numbers.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

from castaway.envs.openspiel.games import Observation, Rendering, largest_return, load_variant, observe
from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.players import BY_LOT, make_opponent, simulations_of
from castaway.envs.openspiel.prompting import MenuRules, messages
from castaway.tasks.environment import SELF_PLAY, Outcome, Played, Prompt, TextEnvironment

PLAYER = "player"
RIVALS = ("rival 1", "rival 2", "rival 3")  # the opponents as agents; no game has more than four players


class OpenSpielEnvironment(TextEnvironment):
    name = "openspiel"
    idle = BY_LOT

    def __init__(self, seats: Sequence[str] = ("random",), rendering: Rendering = "full") -> None:
        self._rendering = rendering
        self.rules = MenuRules()
        self.seats = tuple(seats)
        self.agents = (PLAYER, *RIVALS) if SELF_PLAY in seats else (PLAYER,)
        self._simulations = {seat: simulations_of(seat) for seat in seats if seat != SELF_PLAY}

    def reset(self, task_id: int, seat: str) -> None:
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
        seats = range(self._loaded.num_players())
        others = [seat for seat in seats if seat != self._episode.seat and self._seat != SELF_PLAY]
        for attempt in self._attempts:
            self._chance = Random(f"{self._episode.chance_seed} {attempt}")
            random = Random(f"{self._episode.opponent_seed} {attempt}")
            simulations = self._simulations.get(self._seat, 0)
            self._opponents = {seat: make_opponent(simulations, self._loaded, random) for seat in others}
            self._state = self._loaded.new_initial_state()
            self._advance()
            if not self.done:
                return

    def _advance(self) -> None:
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
        if self.done:
            return ()
        observation = self._observation()
        agent = self._agent(observation.seat)
        role = PLAYER if agent == PLAYER else "rival"
        return (Prompt(agent, role, messages(observation), observation, opponent=agent != PLAYER),)

    def _agent(self, place: int) -> str:
        return (PLAYER, *RIVALS)[(place - self._episode.seat) % self._loaded.num_players()]

    def _observation(self) -> Observation:
        episode, place = self._episode, self._state.current_player()
        return observe(episode.played, episode.variant, place, self._state, self._rendering)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
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
        seat, count = self._episode.seat, self._loaded.num_players()
        results: list[float] = [self._result((seat + at) % count) for at in range(count)] if self.done else []
        return dict.fromkeys(self.agents, 0.0) | dict(zip(self.agents, results, strict=False))

    def _result(self, place: int) -> float:
        return self._episode.played.result(self._state.returns(), place, largest_return(self._loaded))

    def play_out(self, name: str, task_id: int, seat: str) -> Played:
        """Let `random` or `mcts-N` play an episode in the place of the player, and return the result."""
        self.reset(task_id, seat)
        play = make_opponent(simulations_of(name), self._loaded, Random(f"{name} {task_id}"))
        while not self.done:
            observation = self._observation()
            place = observation.numbers.index(play(self._state))
            self.step({PLAYER: self.rules.legal_actions(observation)[place]})
        return Played(task_id, seat, self.outcome(), self._moves, 0)

    @property
    def done(self) -> bool:
        return bool(self._state.is_terminal())

    def outcome(self) -> Outcome:
        episode, returns = self._episode, self._state.returns()
        success, result = episode.played.success(returns, episode.seat), self._result(episode.seat)
        ending = "won" if success else "drawn" if result == 0.5 else "not won"
        details = {"score": result, "return": float(returns[episode.seat]), "length": float(self._moves)}
        return Outcome(success, f"{episode.played.name} {ending}", details)

    def snapshot(self) -> dict[str, Any]:
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
