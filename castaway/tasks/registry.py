"""Environments by name. The module `castaway.envs.NAME.environment` has to offer:

- `make(section)`: a `TextEnvironment` by the task's section of the parameters;
- `expert(prompt)`: a competent player's `Reply`, and `demonstrator(random, carelessness)`: an ordinary player;
- `AIMLESS`: a reasoning that says nothing;
- `SCRIPTED_SEAT`: the seat whose turns scripted text and demonstrations are made of;
- `EVALUATION_SEATS`: the seats that a policy is evaluated in, the main one first;
- `training_ids(section)`: the training ids of what a policy is trained in;
- `curriculum(params)`: what is played in training, as `Stage`s, easy ones first;
- `kind_of(task_id)`: what kind of episode an id is, in a word, for figures by kind;
- `practice(observation, random, count)` and `slip(reply, random)`: text for pretraining the tiny base model.

It may offer:

- `imagine(environment, prompt, random)`: a made-up situation in the place of a played one, for the same text, and for
  preference pairs (`dataset.imagined`);
- `vocabulary()`: words that a base model with `whole_words` has a token for, each;
- `Commission(environment)`: what a served teacher is asked to write for training (`castaway.teacher.writer`); each text
  read has a `prompt`, a `reply` to it, and rows of `pairs` like those of `preference_pairs`;
- `preference_pairs(prompts, count, random)`: (messages, chosen, rejected) rows of its own for the reward model, where
  an answer that suits another situation is not what it should learn from;
- `pair_group(messages, chosen, rejected)`: names by which the reward model's accuracy is told apart, and
  `fits(answers)`: how good (messages, answer) really are, which its scores are correlated with;
- `CURVES`: those details of an outcome whose means are curves of PPO;
- `report(outcomes, truncated)`: further figures of evaluation in the main seat;
- `compare(section, played)`: further figures of evaluation, to be added to those of each policy by its name, and by
  other names for themselves, from what became of the same episodes under each policy;
- `charts(metrics)`: bar charts of the figures of evaluation, by the files' names, as groups of bars and the figure that
  they show (`castaway.metrics.charts`);
- `chat_messages(line)`, a prompt for what somebody typed, and `chat_remark(messages, answer)` on what was answered.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from castaway.config.params import Params
from castaway.tasks.environment import TextEnvironment

TASKS = ("marooned", "openspiel", "strictbot")
"""Every task there is."""


def task_module(task: str) -> Any:
    """The module of a task."""
    return import_module(f"castaway.envs.{task}.environment")


def make_environment(params: Params, task: str) -> TextEnvironment:
    """A new environment of the task, by its section of the parameters."""
    environment: TextEnvironment = task_module(task).make(getattr(params, task))
    return environment
