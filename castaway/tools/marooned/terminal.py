"""Lets a person play one sailor of MAROONED in the terminal, with scripted sailors or a trained model as the others."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from castaway.config.errors import CastawayError
from castaway.envs.marooned import full
from castaway.envs.marooned.actions import read
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import expert
from castaway.envs.marooned.state import Place
from castaway.rollout.episodes import write_episode
from castaway.rollout.play import Generation, Policy, play_episodes
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tools.transcript import clean

HELP = "Type an action that is listed under `Legal now` or in the rules; `rules` shows the rules again, `quit` leaves."


def play_game(
    scenario: str, task_id: int, sailor: str | None, model: Path | None, rendering: str, save: Path | None
) -> None:
    environment = MaroonedEnvironment(scenario, rendering)
    name = sailor or environment.agents[task_id % len(environment.agents)]
    if name not in environment.agents:
        raise CastawayError(f"there is no sailor {name!r}: choose one of {', '.join(environment.agents)}")
    policy = _with_person(name, _scripted if model is None else _model_policy(model))
    environment.reset(task_id, "all")
    print(full.system_text(environment.observation(name)), f"\n\n{HELP}")
    [episode] = play_episodes(lambda: environment, [(task_id, "all")], policy, None, keep_snapshots=int(bool(save)))
    sailors = environment.snapshot()["sailors"]
    traitor = next(one for one in environment.agents if sailors[one]["role"] == "traitor")
    # Success is the crew's, so the traitor has won where there is none.
    end = "won" if episode.outcome.success == (name != traitor) else "lost"
    print(f"\nThe end: {episode.outcome.ending}. {traitor} was the traitor. You have {end}.")
    if save is not None:
        write_episode(save, episode.task_id, episode.seat, episode.outcome, episode.snapshots)
        print(f"{save} holds the episode; `castaway replay {save}` makes a page of it")


def _with_person(name: str, others: Policy) -> Policy:
    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        asked = {prompt.agent: prompt for prompt in prompts}
        rest = [prompt for prompt in prompts if prompt.agent != name]
        answers = dict(zip((prompt.agent for prompt in rest), others(rest), strict=True))
        if name in asked:
            answers[name] = Generation(str(Reply("typed by a person", _ask(asked[name]))))
        return [answers[prompt.agent] for prompt in prompts]

    return policy


def _ask(prompt: Prompt) -> str:
    print(f"\n{map_in_sight(prompt.observation)}\n{full.user_text(prompt.observation)}")
    with suppress(EOFError):
        for typed in iter(lambda: input(f"{prompt.agent}> ").strip(), "quit"):
            if typed == "rules":
                print(full.system_text(prompt.observation))
            elif (refusal := read(prompt.observation, typed)[1]) is None:
                return typed
            else:
                print(clean(refusal.sentence))
    raise CastawayError("the game was left before its end")


def _scripted(prompts: Sequence[Prompt]) -> list[Generation]:
    return [Generation(str(expert(prompt))) for prompt in prompts]


def _model_policy(folder: Path) -> Policy:
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model: expected a folder such as data/marooned/merge")
    import torch

    from castaway.models.policy import load_model
    from castaway.models.tokens import ChatTokenizer
    from castaway.rollout.actor_critic import ActorCritic
    from castaway.rollout.policies import ModelPolicy
    from castaway.rollout.sampling import SamplingRules

    actor, tokenizer = ActorCritic(load_model(folder)), ChatTokenizer.load(folder)
    rules = SamplingRules(0.7, 64, tokenizer.stops, tokenizer.pad, 4096)
    return ModelPolicy(actor, tokenizer, rules, torch.Generator().manual_seed(0))


def map_in_sight(observation: Observation) -> str:
    """The tiles in sight, north up: @ you, C camp, digits sailors, letters piles, # sea, . land."""
    here, x, y = observation.place
    level, reach = observation.scenario.levels[here], observation.vision
    # Later marks replace earlier ones on the same tile, so the most important ones come last.
    marks: dict[Place, str] = {pile.place: pile.kind[0] for pile in observation.piles}
    marks[observation.camp] = "C"
    marks |= {place: str(crowd) for place, crowd in Counter(mate.place for mate in observation.mates).items() if place}
    marks[observation.place] = "@"
    lines = ["Map in sight (north up; @ you, C camp, digits sailors, letters piles, # sea):"]
    for row in range(max(0, y - reach), min(level.depth, y + reach + 1)):
        columns = range(x - reach, x + reach + 1)
        lines.append("".join(marks.get((here, one, row), "." if 0 <= one < level.width else "#") for one in columns))
    return "\n".join(lines)
