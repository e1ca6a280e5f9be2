"""MAROONED as a task: its `game` section in `params.yaml`, its players, and its pretraining text for a tiny base model.

The scripted games of the pretraining text rarely get far, so many states hardly occur in it: a finished sail over a
broken hull, for example, or strong evidence during an open vote. A policy meets such states once it has learned to win;
so some situations are synthetic. And from played turns alone a small model learns slowly where in a prompt to look; the
further replies show it.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Literal, Self

from pydantic import model_validator

from castaway.config.section import Fraction, PositiveInteger, Section
from castaway.envs.marooned.actions import Action
from castaway.envs.marooned.affairs import HUNGRY, suspect
from castaway.envs.marooned.compact import bringable, heading, lurker, nearest_pile, ready_components
from castaway.envs.marooned.decisions import REST, Decision, ballot, fetch, go_to_camp
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.full import in_words
from castaway.envs.marooned.observation import Mate, Observation, phase_at
from castaway.envs.marooned.scenario import Repertoire
from castaway.envs.marooned.scripted import AIMLESS, beside_work, demonstrator, expert
from castaway.envs.marooned.state import Clue
from castaway.envs.marooned.state import Message as Said
from castaway.tasks.environment import SELF_PLAY, CurriculumStage, Prompt, TextEnvironment
from castaway.tasks.reply import Reply, labelled, markdown, reason_only, unlabelled
from castaway.tasks.task import Player, Task

AT_CAMP = 0.3  # share of the synthetic states with the sailor at the camp, where ship and store matter most
COMPANY = 0.5  # share of those with another sailor at the camp too: building takes two
DISCUSSIONS = 0.3  # share of the synthetic states in which a vote can be called: there is one such turn in a day
CLUES = 0.3  # share of the synthetic states with evidence against a sailor, and of those with an unseen sabotage


class MaroonedParams(Section):
    """The scenario, its rendering, and how often the policy plays the traitor."""

    scenario: Literal["skiff", "classic"]
    rendering: Literal["compact", "full"]
    traitor_share: Fraction
    """Share of the training episodes in which the policy plays the traitor against a scripted crew."""
    all_share: Fraction = 0.0
    """Share in which it plays all sailors, each with its own prompt and pay."""
    self_share: Fraction = 0.0
    """Share in which it plays the crew or the traitor against earlier policies (`ppo.self_play`). In what the shares
    leave it plays the crew against the scripted traitor."""
    turns: PositiveInteger | None = None
    """Budget of turns, after which the traitor has prevented the ship as on the last day; null: none."""
    repertoire: Repertoire = "core"
    """What scripts play: `core`, what the game turns on; `whole`, all verbs, talk and poison among them."""

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if (total := self.traitor_share + self.all_share + self.self_share) > 1:
            raise ValueError(f"traitor_share, all_share and self_share add up to {total:g}, expected at most 1")
        return self


class Marooned(Task[MaroonedParams]):
    name = "marooned"
    game_model = MaroonedParams
    evaluation_seats = ("crew", "traitor")
    scripted_seat = "all"
    aimless = AIMLESS
    makes_synthetic = True

    def make(self) -> MaroonedEnvironment:
        game = self.game
        return MaroonedEnvironment(game.scenario, game.rendering, game.turns, game.repertoire)

    def expert(self, prompt: Prompt) -> Reply:
        return self._in_words(expert(prompt))

    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        play = demonstrator(random, random_action_rate)
        return lambda prompt: self._in_words(play(prompt))

    def _in_words(self, reply: Reply) -> Reply:
        return replace(reply, reasoning=in_words(reply.reasoning)) if self.game.rendering == "full" else reply

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """A single stage, in which each seat has its share of the episodes, and the crew's what is left."""
        game = self.game
        shares = {"traitor": game.traitor_share, "all": game.all_share, SELF_PLAY: game.self_share}
        seats = [seat for seat, share in shares.items() for _ in range(round(episodes * share))][:episodes]
        return (CurriculumStage("all", self.training_ids(), (*seats, *["crew"] * (episodes - len(seats)))),)

    def situation(self, prompt: Prompt) -> str:
        """The role, and whether it is a turn to vote in: one in seven is, and there is seldom reason to.

        In the whole repertoire what the expert does: on a long way most sailors walk or wait.
        """
        if self.game.repertoire == "whole":
            return f"{prompt.role} {self.expert(prompt).action.partition(' ')[0]}"
        return f"{prompt.role} {'votes' if prompt.observation.phase.vote else 'works'}"

    def practice(self, observation: Observation, random: Random, count: int) -> list[Reply]:
        """At most `count` replies with different aims, in random order. They need not be legal or good."""
        piles = [nearest_pile(observation, {kind}) for kind in observation.scenario.resources]
        wishes = [fetch(observation, pile) for pile in piles if pile]
        # The prompt always shows what is carried and what can be built: these replies fit it away from the camp too.
        carried = list(bringable(observation).items())[:1]
        wishes += [Decision(Action("DEPOSIT", (kind, str(amount))), "store") for kind, amount in carried]
        aim, verb = ("unseen", "SABOTAGE") if observation.role == "traitor" else ("ready", "BUILD")
        wishes += [Decision(Action(verb, (name,)), aim) for name in ready_components(observation)[:1]]
        named = dict.fromkeys((lurker(observation), suspect(observation, least=1)))
        wishes += filter(None, (ballot(observation, name) for name in named))
        wishes += [due] if (due := beside_work(observation)) != REST else []
        if heading(observation.place, observation.camp) != "here":
            wishes.append(go_to_camp(observation))
        random.shuffle(wishes)
        return [wish.reply for wish in wishes[:count]]

    def slip(self, reply: Reply, random: Random) -> str:
        return random.choice(FORMAT_ERRORS)(reply)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        assert isinstance(environment, MaroonedEnvironment)
        return environment.prompt_of(synthetic_observation(prompt.observation, random))


def synthetic_observation(observation: Observation, random: Random) -> Observation:
    scenario = observation.scenario
    ship = {name: random.choice((0, 100, random.randint(1, 99))) for name in scenario.components}
    # With a finished ship the game would be over.
    if min(ship.values()) == 100:
        ship[random.choice(list(ship))] = random.randint(0, 99)
    useful = [*scenario.materials, *scenario.food]
    store = {kind: random.randint(1, 2 * scenario.gather_amount) for kind in useful if random.random() < 0.5}
    carried = random.choice(useful)
    at_camp = random.random() < AT_CAMP
    turn = _synthetic_turn(observation, random)
    made = replace(
        observation,
        turn=turn,
        phase=phase_at(scenario, turn)[0],
        place=observation.camp if at_camp else observation.place,
        mates=_with_visitor(observation, random) if at_camp and random.random() < COMPANY else observation.mates,
        energy=random.randint(1, scenario.energy.most),
        backpack=random.choice((observation.backpack, {}, {carried: random.randint(1, scenario.backpack)})),
        ate=random.random() < 0.5,
        store=dict(sorted(store.items())),
        ship=ship,
        clues=_clues(observation, random),
    )
    return _in_company(made, random) if scenario.repertoire == "whole" else made


def _in_company(observation: Observation, random: Random) -> Observation:
    """The observation with one of the things that the whole repertoire turns on, or with none of them."""
    scenario, chosen = observation.scenario, random.choice(observation.mates)
    herbs, poison = ({kind: random.randint(1, 3)} for kind in (scenario.antidote_type, scenario.poison_type))
    stairs = [level for level in scenario.levels if level in scenario.levels[observation.place[0]].stairs]
    heard = Said(observation.day, observation.turn - 1, chosen.name, "", random.choice((HUNGRY, "Eve broke the ship.")))
    beside = replace(chosen, status="alive", place=observation.place)
    match random.randrange(10):
        case 0:  # somebody is ill
            return _with(observation, replace(beside, symptoms="early"), random.choice((herbs, {})))
        case 1:  # the sailor itself is
            carried = {**observation.backpack, **random.choice((herbs, {}))}
            return replace(observation, symptoms="early", backpack=carried, sos_sent=random.random() < 0.5)
        case 2:  # it has been accused
            carried = {**observation.backpack, **random.choice((poison, {}))}
            return replace(observation, accused=observation.phase.vote, backpack=carried)
        case 3:  # it has heard something
            return replace(_with(observation, beside, random.choice(({"apple": 3}, {}))), messages=(heard,))
        case 4 | 5:  # it is alone with somebody, and may have poison
            away = replace(observation, mates=tuple(replace(mate, place=None) for mate in observation.mates))
            return _with(away, beside, random.choice((poison, {})))
        case 6 if stairs:
            return replace(observation, stair=(random.choice(stairs), 0, 0))
        case 7 if observation.role == "traitor":
            return replace(observation, note=f"You poisoned {chosen.name}.")
    return observation


def _with(observation: Observation, mate: Mate, carried: dict[str, int]) -> Observation:
    mates = tuple(mate if one.name == mate.name else one for one in observation.mates)
    return replace(observation, mates=mates, backpack={**observation.backpack, **carried})


def _synthetic_turn(observation: Observation, random: Random) -> int:
    days = range(1, observation.scenario.turns_per_day + 1)
    discussions = [turn for turn in days if phase_at(observation.scenario, turn)[0].vote]
    return random.choice(discussions) if discussions and random.random() < DISCUSSIONS else observation.turn


def _with_visitor(observation: Observation, random: Random) -> tuple[Mate, ...]:
    chosen = random.choice(observation.mates)
    come = replace(chosen, place=observation.camp if chosen.status == "alive" else None)
    return tuple(come if mate is chosen else mate for mate in observation.mates)


def _clues(observation: Observation, random: Random) -> tuple[Clue, ...]:
    """Evidence against a random sailor, with the strength of planted or of true evidence; or against nobody."""
    day, turn = observation.day, max(1, observation.turn - 1)
    clues = [Clue(day, turn, "sabotage", "", 0, "The ship was broken by somebody.")] if random.random() < CLUES else []
    if random.random() < CLUES:
        strength = random.choice((random.randint(*observation.scenario.evidence.framing), 90, 95))
        about = random.choice([observation.name, *(mate.name for mate in observation.mates)])
        clues.append(Clue(day, turn, "sabotage", about, strength, f"{about} was seen"))
    return tuple(clues)


def _invented(reply: Reply) -> str:
    verb, _, rest = reply.action.partition(" ")
    words = {"MOVE": "MOVING", "GATHER": "COLLECT", "WAIT": "CHECK_STATUS", "DEPOSIT": "STORE", "BUILD": "REPAIR"}
    return labelled(reply.reasoning, f"{words.get(verb, 'LOOK')} {rest}").rstrip()


FORMAT_ERRORS: tuple[Callable[[Reply], str], ...] = (
    _invented,
    lambda reply: labelled(reply.reasoning, reply.action.lower()),
    lambda reply: labelled(reply.reasoning, reply.action.replace(" ", "")),
    markdown,
    unlabelled,
    reason_only,
)
