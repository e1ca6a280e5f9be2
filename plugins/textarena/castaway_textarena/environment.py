"""Any game of TextArena as one text environment.

- Agents: `player`, and in games for several `rival 1` (the next after the player), `rival 2` and so on. The task id
  decides the player's place in the game, and all that chance does.
- Seats: in `table` the others move within `step`, at random or by search; in `self` they are agents too.
- Prompts: what TextArena shows the player that is to move; see `castaway_textarena.observation`.
- Actions: what the player says in the game, brackets included, such as `[4]`. The idle action says nothing that any
  game understands, so it is an invalid move; TextArena gives a second chance after one, and ends most games after two.
- Reward: what TextArena pays, when the game ends; 0 before.
- End: when TextArena ends the game, after `turns` moves of all players, or if TextArena's code fails. In the last two
  cases nobody is paid. A game in which the player never had to move is started again, with other random numbers and the
  player one place earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Literal

from castaway.tasks.environment import HELD_OUT_START, SELF_PLAY, Outcome, Played, Prompt, TextEnvironment
from castaway_textarena.catalogue import is_open, players_of
from castaway_textarena.game import BrokenGame, Game
from castaway_textarena.moves import legal_moves
from castaway_textarena.observation import Observation, Rendering
from castaway_textarena.players import Choose, best_move, random_player
from castaway_textarena.prompting import messages
from castaway_textarena.rules import SILENCE, TextArenaRules

PLAYER, TABLE = "player", "table"
Others = Literal["random", "search"]
"""How the others play in the seat `table`."""
_SEEDS = 3 * HELD_OUT_START
"""The seed of a first game is its task id; one that is started again gets a seed beyond all ids, audits' too."""


class TextArenaEnvironment(TextEnvironment):
    """The environment; it holds one game at a time. See the module docstring."""

    name = "textarena"
    idle = SILENCE

    def __init__(
        self,
        game: str,
        players: int | None = None,
        rendering: Rendering = "full",
        others: Others = "random",
        turns: int = 200,
        depth: int = 2,
    ) -> None:
        """Make an environment for one game.

        Args:
            game: TextArena's name of it, such as `TicTacToe-v0`.
            players: how many play; by default the usual number.
            rendering: how the prompts are written.
            others: how the others play in the seat `table`.
            turns: after so many moves of all players a game is cut short.
            depth: how many moves a search looks ahead.

        Raises:
            CastawayError: the game cannot be played here, or not by so many.
        """
        self._name, self._players = game, players or players_of(game)
        self._rendering, self._others, self._turns, self._depth = rendering, others, turns, depth
        self.rules = TextArenaRules()
        self.agents = (PLAYER, *(f"rival {number}" for number in range(1, self._players)))
        self.seats = (TABLE, SELF_PLAY) if self._players > 1 else (TABLE,)
        Game(game, 0, self._players)

    def reset(self, task_id: int, seat: str) -> None:
        """Start the game of `task_id`.

        Raises:
            ValueError: the id is negative or the seat unknown.
        """
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._task_id, self._seat, self._seed = task_id, seat, task_id
        self._place = Random(f"place {task_id}").randrange(self._players)
        self._deal()

    def _deal(self) -> None:
        """Start a game and play up to the first move of an agent; a game that ends before that is started again."""
        while True:
            self._game = Game(self._name, self._seed, self._players)
            self._said: tuple[str, ...] = ()
            self._count = self._own = self._invalid = 0
            self._broken = ""
            self._others_play = self._choice(self._others, Random(f"others {self._seed}"))
            self._advance()
            if not self.done:
                frozen = self._game.frozen()
                self._first = self._game.thawed(frozen), frozen, self._said
                return
            self._change_places()

    def _change_places(self) -> None:
        """Prepare another deal, in which the player moves earlier, at the latest after a round first."""
        self._seed += _SEEDS
        self._place = (self._place - 1) % self._players

    def rewind(self) -> None:
        """Go back to the first move of an agent; the others may move differently than before."""
        first, frozen, self._said = self._first
        self._game = first.thawed(frozen)
        self._count, self._own, self._invalid, self._broken, self._seen = len(self._said), 0, 0, "", None

    def _choice(self, kind: Others, random: Random) -> Choose:
        return random_player(random) if kind == "random" else lambda seen: best_move(seen, self._depth)

    def _advance(self) -> None:
        """Let the others move until an agent is to move or the game is over."""
        self._seen: Observation | None = None
        while not self.done and self._seat == TABLE and self._game.player != self._place:
            self.say(self._others_play(self._observation()))

    def say(self, text: str) -> bool:
        """Let whoever is to move say a text, legal or not; returns whether TextArena took it as a valid move.

        A text that TextArena's code fails on counts as silence. If it fails on silence too, the game is broken.
        """
        self._seen = None
        self._count += 1
        for said in dict.fromkeys((text, SILENCE)):
            try:
                taken = self._game.step(said)
            except BrokenGame as error:
                self._broken = str(error)
                continue
            self._broken = ""
            self._said += (said,)
            return taken and said == text
        return False

    def prompts(self) -> tuple[Prompt, ...]:
        """The prompt of the player, or in self-play of the agent that is to move; empty once the game is over."""
        if self.done:
            return ()
        seen = self._observation()
        agent = self._agent(seen.player)
        role = PLAYER if agent == PLAYER else "rival"
        return (Prompt(agent, role, messages(seen), seen, opponent=agent != PLAYER),)

    def _agent(self, place: int) -> str:
        """The agent at a place in the game; the others are numbered from the player on."""
        return self.agents[(place - self._place) % self._players]

    def _observation(self) -> Observation:
        """The observation of the player that is to move; it lasts until somebody moves."""
        if self._seen is None:
            game = self._game
            self._seen = Observation(
                game=self._name,
                player=game.player,
                shown=game.shown(game.player),
                legal=legal_moves(game),
                played=(self._seed, self._players, self._said) if is_open(self._name) else None,
                rendering=self._rendering,
            )
        return self._seen

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Let the agent that is to move say its action, and play on to the next one.

        Raises:
            ValueError: the episode is over.
        """
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        seen = self._observation()
        agent = self._agent(seen.player)
        typed = actions.get(agent, self.idle)
        taken = self.say(self.idle if self.rules.refusal(seen, typed) else typed)
        if agent == PLAYER:
            self._own += 1
            self._invalid += not taken
        self._advance()
        # Possible in self-play only: the others moved first, and the game ended before the player's turn.
        if not self._own and not self.prompts():
            self._change_places()
            self._deal()
        return {self._agent(place): self._paid(place) for place in range(self._players)}

    def _paid(self, place: int) -> float:
        return float(self._game.rewards.get(place, 0.0)) if self._game.done else 0.0

    def play_out(self, kind: Others) -> Played:
        """Let a player that is not trained play the episode to its end, in the place of `player`."""
        choose = self._choice(kind, Random(f"{kind} {self._task_id}"))
        while not self.done:
            self.step({self._agent(self._game.player): choose(self._observation())})
        return Played(self._task_id, self._seat, self.outcome(), self._own, self._invalid)

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self._game.done or bool(self._broken) or self._count >= self._turns

    def outcome(self) -> Outcome:
        """Success is the whole reward in a game for one player, and more than nothing in a game for several."""
        paid = self._paid(self._place)
        success = paid >= 1 if self._players == 1 else paid > 0
        ending = self._game.reason if self._game.done else self._broken or "cut short"
        details = {"reward": paid, "invalid_moves": float(self._invalid), "length": float(self._own)}
        return Outcome(success, ending[:200] or "ended", details)

    def snapshot(self) -> dict[str, Any]:
        """What was said in the game, and what each player was shown last; the rest follows from the task id.

        No key is `said`: saved episodes have the agents' replies there.
        """
        return {
            "game": self._name,
            "seed": self._seed,
            "place": self._place,
            "dialogue": list(self._said),
            "shown": [[text for _, text, _ in self._game.shown(place)[-3:]] for place in range(self._players)],
            "rewards": [self._paid(place) for place in range(self._players)],
            "done": self.done,
        }
