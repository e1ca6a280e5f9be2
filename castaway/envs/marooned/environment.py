"""MAROONED as a text environment.

- Agents: the five sailors of the scenario.
- Seats: `crew` (the four colonists, against the scripted saboteur), `traitor` (against the scripted crew), `all` (every
  sailor), `self` (the crew, with an odd id the traitor, against sailors that an earlier policy plays).
- Prompts: one for each living sailor of the seat in every turn, in the configured rendering.
- Actions: those of `castaway.envs.marooned.actions`; `WAIT` is the idle action.
- Reward: per sailor, as the scenario defines it.
- End: the crew wins by finishing the ship or ejecting the traitor; the traitor wins when the days are over or too few
  sailors are alive.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from castaway.envs.marooned import compact, full
from castaway.envs.marooned.actions import WAIT, Action, read
from castaway.envs.marooned.decisions import Script
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scenario import Repertoire, load_scenario
from castaway.envs.marooned.scripted import role_script
from castaway.envs.marooned.state import Sailor
from castaway.envs.marooned.teaching import MaroonedRules
from castaway.tasks.environment import SELF_PLAY, Message, Outcome, Prompt, TextEnvironment

SAVED = ("role", "energy", "ate", "poisoned_on", "alive", "ejected")  # of each sailor, as it is, in a snapshot


class MaroonedEnvironment(TextEnvironment):
    name = "marooned"
    seats = ("crew", "traitor", "all", SELF_PLAY)
    idle = "WAIT"

    def __init__(
        self, scenario: str, rendering: str, turns: int | None = None, repertoire: Repertoire = "core"
    ) -> None:
        self.scenario = load_scenario(scenario, turns, repertoire)
        self.agents = tuple(self.scenario.crew)
        self.rules = MaroonedRules(sentences=rendering == "full")
        self._roles: tuple[str, ...] = ("colonist", "traitor")
        self._rendering: Any = {"compact": compact, "full": full}[rendering]

    def reset(self, task_id: int, seat: str) -> None:
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._game = Game(self.scenario, task_id)
        self._seat = seat
        own = ("traitor" if task_id % 2 else "crew") if seat == SELF_PLAY else seat
        self._roles = {"crew": ("colonist",), "traitor": ("traitor",), "all": ("colonist", "traitor")}[own]
        self._scripts: dict[str, Script] = {
            sailor.name: role_script(sailor.role)
            for sailor in self._game.world.sailors.values()
            if seat != SELF_PLAY and sailor.role not in self._roles
        }
        self._last: dict[str, str] = {}
        self._asked: tuple[Prompt, ...] | None = None

    def prompts(self) -> tuple[Prompt, ...]:
        if self.done:
            return ()
        if self._asked is None:
            self._asked = tuple(self.prompt_of(self._game.observation(sailor.name)) for sailor in self._speakers())
        return self._asked

    def _speakers(self) -> list[Sailor]:
        return [sailor for sailor in self._game.world.living if sailor.name not in self._scripts]

    def prompt_of(self, observation: Observation) -> Prompt:
        messages: tuple[Message, ...] = (
            {"role": "system", "content": self._rendering.system_text(observation)},
            {"role": "user", "content": self._rendering.user_text(observation)},
        )
        opponent = observation.role not in self._roles
        return Prompt(observation.name, observation.role, messages, observation, opponent)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        rewards, later = self._play(actions), dict.fromkeys(self.agents, 0.0)
        while not self.done and not self._speakers():  # nobody that the caller plays is alive
            for name, amount in self._play({}).items():
                later[name] += amount
        return {name: amount + later[name] for name, amount in rewards.items()}

    def _play(self, actions: Mapping[str, str]) -> dict[str, float]:
        chosen: dict[str, Action] = {}
        for sailor in self._game.world.living:
            if sailor.name in self._scripts:
                chosen[sailor.name] = self._scripts[sailor.name](self._game.observation(sailor.name)).action
            else:
                action, _ = read(self._game.observation(sailor.name), actions.get(sailor.name, self.idle))
                chosen[sailor.name] = action or WAIT
        self._last = {name: str(action) for name, action in chosen.items()}
        self._asked = None
        return self._game.step(chosen)

    @property
    def done(self) -> bool:
        return self._game.over

    def outcome(self) -> Outcome:
        """Success means that the side of the seat has won; for `all`, the crew.

        In `all` what one side loses the other wins: the score is 1, so that no such episode is replayed as a failure.
        """
        world = self._game.world
        side = "traitor" if self._roles == ("traitor",) else "crew"
        details = {"days": float(world.day), "progress": world.progress, "alive": float(len(world.living))}
        details |= {"score": 1.0} if self._seat == "all" else {}
        return Outcome(world.winner == side, world.ending, details)

    def snapshot(self) -> dict[str, Any]:
        world = self._game.world
        return {
            "day": world.day,
            "turn": world.turn,
            "weather": "",  # of saved episodes: there is none any more
            "sailors": {
                sailor.name: {
                    **{name: getattr(sailor, name) for name in SAVED},
                    "place": list(sailor.place),
                    "backpack": dict(sorted(sailor.backpack.items())),
                }
                for sailor in world.sailors.values()
            },
            "piles": {pile.id: [*pile.place, pile.amount] for pile in world.piles.values()},
            "store": dict(sorted(world.store.items())),
            "ship": dict(world.ship),
            "vote": asdict(world.vote) if world.vote else None,
            "clues": [asdict(clue) for clue in world.clues],
            "messages": [asdict(message) for message in world.messages],
            "actions": self._last,
            "winner": world.winner,
            "ending": world.ending,
        }

    def observation(self, agent: str) -> Observation:
        return self._game.observation(agent)
