"""Lets a person play one sailor of MAROONED in the terminal, with scripted sailors or a trained model as the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from castaway.datasets.episodes import write_episode
from castaway.envs.marooned import full
from castaway.envs.marooned.conduct import read
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.players import expert
from castaway.errors import CastawayError
from castaway.rl.rollout import Generation, Policy, play_episodes
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tools.marooned.map import drawn
from castaway.tools.transcript import clean

HELP = "Type an action that is listed under `Legal now` or in the rules; `rules` shows the rules again, `quit` leaves."


def play_game(
    scenario: str, task_id: int, sailor: str | None, model: Path | None, rendering: str, save: Path | None
) -> None:
    """Play one game to its end.

    Args:
        scenario: the name of the scenario.
        task_id: the number that decides the game.
        sailor: the sailor that the person plays; by default the task id chooses one.
        model: folder of a merged model with its tokenizer, which plays the other sailors; None for scripted ones.
        rendering: of the prompts that the model reads, `full` or `compact`.
        save: file to write the episode to; None to write none.

    Raises:
        CastawayError: there is no such scenario, sailor, rendering or model, or the person left the game.
    """
    if rendering not in ("full", "compact"):
        raise CastawayError(f"there is no rendering {rendering!r}: choose full or compact")
    environment = MaroonedEnvironment(scenario, rendering)
    name = sailor or environment.agents[task_id % len(environment.agents)]
    if name not in environment.agents:
        raise CastawayError(f"there is no sailor {name!r}: choose one of {', '.join(environment.agents)}")
    others = _scripted if model is None else _model_policy(model)
    keep = 0 if save is None else 1
    policy = _with_person(name, others)
    [episode] = play_episodes(lambda: environment, [(task_id, "all")], policy, None, keep_snapshots=keep)
    sailors = environment.snapshot()["sailors"]
    traitor = next(one for one in environment.agents if sailors[one]["role"] == "traitor")
    # Success is the crew's, so the traitor has won where there is none.
    end = "won" if episode.outcome.success == (name != traitor) else "lost"
    print(f"\nThe end: {episode.outcome.ending}. {traitor} was the traitor. You have {end}.")
    if save is not None:
        write_episode(save, episode.task_id, episode.seat, episode.outcome, episode.snapshots)
        print(f"{save} holds the episode; `castaway replay {save}` makes a page of it")


def _with_person(name: str, others: Policy) -> Policy:
    """A policy that asks the person to play the sailor `name`, and `others` to play the rest."""
    turns = [0]

    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        found = {prompt.agent: prompt for prompt in prompts}
        rest = [prompt for prompt in prompts if prompt.agent != name]
        answers = dict(zip((prompt.agent for prompt in rest), others(rest), strict=True))
        if name in found:
            if not turns[0]:
                print(full.system_text(found[name].observation), f"\n\n{HELP}")
            turns[0] += 1
            answers[name] = Generation(str(Reply("typed by a person", _ask(found[name]))))
        return [answers[prompt.agent] for prompt in prompts]

    return policy


def _ask(prompt: Prompt) -> str:
    """Ask for an action until a legal one is typed.

    Raises:
        CastawayError: the person left the game.
    """
    print(f"\n{drawn(prompt.observation)}\n{full.user_text(prompt.observation)}")
    while True:
        try:
            typed = input(f"{prompt.agent}> ").strip()
        except EOFError:
            raise CastawayError("the game was left before its end") from None
        if typed == "quit":
            raise CastawayError("the game was left before its end")
        if typed == "rules":
            print(full.system_text(prompt.observation))
            continue
        refusal = read(prompt.observation, typed)[1]
        if refusal is None:
            return typed
        print(clean(refusal.sentence))


def _scripted(prompts: Sequence[Prompt]) -> list[Generation]:
    return [Generation(str(expert(prompt))) for prompt in prompts]


def _model_policy(folder: Path) -> Policy:
    """A trained model as a policy, with sampling as in evaluation and a fixed seed.

    Raises:
        CastawayError: there is no model in the folder.
    """
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model: expected a folder such as data/marooned/merge")
    import torch

    from castaway.models.policy import load_model
    from castaway.models.tokens import ChatTokenizer
    from castaway.rl.actor_critic import ActorCritic
    from castaway.rl.policies import ModelPolicy
    from castaway.rl.sampling import SamplingRules

    actor, tokenizer = ActorCritic(load_model(folder)), ChatTokenizer.load(folder)
    rules = SamplingRules.of(tokenizer, temperature=0.7, max_new_tokens=64, tokens_per_pass=4096)
    return ModelPolicy(actor, tokenizer, rules, torch.Generator().manual_seed(0))
