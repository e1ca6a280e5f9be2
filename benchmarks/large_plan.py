"""A plan of PPO's step with Llama 3.1 8B on the GPUs of `profiles/llama3.1-8b.yaml`: tokens, seconds, bytes, by part.

    python -m benchmarks.large_plan

Nothing was measured on a GPU. Lengths are those of MAROONED's classic island, played by the expert with as many tables
as the profile has; rounds are played in lockstep, and what passes share is what the library's own trees merge. Peaks
are the vendor's, and which part of them is reached is assumed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from random import Random

from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.models.rows import in_passes, trees_of
from castaway.processes.hardware import GIBIBYTE
from castaway.tasks.registry import read_params, task_of
from castaway.tools.memory import KNOWN, LETTERS, Sizes, peak, prompt_tokens, served

PROFILE = Path(__file__).parents[1] / "profiles" / "llama3.1-8b.yaml"
RUN = "marooned"


@dataclass(frozen=True)
class Gpu:
    """A GPU, by its vendor's figures."""

    name: str
    products: float  # operations a second, dense, in bfloat16
    bandwidth: float  # bytes a second of its memory
    memory: float  # bytes


MI300X = Gpu("MI300X", 1307e12, 5.3e12, 192e9)
PRODUCTS, READING = 0.4, 0.6
"""Shares of the peaks that are reached: of products in long passes, and of the bandwidth while tokens are drawn."""
INVALID = 0.1  # share of the turns that the rules find invalid, and that a model is asked about
BACKWARD = 3  # passes forward that one with a backward pass costs under checkpointing, if most weights are frozen

Turn = tuple[list[int], int]
"""The tokens of a prompt, and the number of those of its reply."""


def trace(params: Params, tables: int, turns: int) -> list[list[Turn]]:
    """The rounds of a step of so many turns at least; one step before it is left out, in which all games begin."""
    task, pieces, ids = task_of(params, RUN), dict[str, int](), count(1)
    games = [task.make() for _ in range(tables)]
    for game in games:
        game.reset(next(ids), "all")
    steps: list[list[list[Turn]]] = [[], []]
    for rounds in steps:
        while sum(map(len, rounds)) < turns:
            rounds.append([])
            for game in games:
                if game.done:
                    game.reset(next(ids), "all")
                prompts = game.prompts()
                replies = {prompt.agent: task.expert(prompt) for prompt in prompts}
                for prompt in prompts:
                    text = "".join(message["content"] for message in prompt.messages)
                    rounds[-1].append((cut(text, pieces), 1 + round(len(str(replies[prompt.agent])) / LETTERS)))
                game.step({agent: reply.action for agent, reply in replies.items()})
    return steps[1]


def cut(text: str, pieces: dict[str, int]) -> list[int]:
    """A text in pieces of `LETTERS` letters in the mean: as many as it has tokens, alike where texts begin alike."""
    ends = [round(number * LETTERS) for number in range(1 + round(len(text) / LETTERS))]
    return [pieces.setdefault(text[start:end], len(pieces)) for start, end in pairwise(ends)]


def read_tokens(rows: list[list[int]], sizes: Sizes, budget: int) -> int:
    """Tokens that passes over rows compute, as trees or padded."""
    total = 0
    for group in in_passes(rows, budget):
        some = [rows[number] for number in group]
        lines = [len(tree.tokens) for tree in trees_of(some, sizes.hidden)] or [len(row) for row in some]
        total += len(lines) * max(lines)
    return total


def parts(params: Params, rounds: list[list[Turn]], sizes: Sizes, gpu: Gpu, gpus: int) -> list[tuple[str, int, float]]:
    """Name, tokens of all GPUs, and seconds of each part of a step."""
    ppo = params.ppo
    turns = [turn for one in rounds for turn in one]
    rows = [prompt + [-1] * reply for prompt, reply in turns]
    context = sum(map(len, rows)) / len(rows)
    product = (2 * sizes.linear + 2 * context * sizes.queries * sizes.layers) / (gpu.products * PRODUCTS)
    weights = 2 * sizes.parameters / (gpu.bandwidth * READING)
    own = sum(len(prompt) for prompt, _ in turns) - len(turns) * prompt_tokens(task_of(params, RUN))[0]

    def drawing(batch: float, tokens: int) -> float:
        """Seconds to draw tokens for a batch on each GPU: the weights and the cache are read for each of them."""
        cache = batch / gpus * context * sizes.token(2) / (gpu.bandwidth * READING)
        return tokens * max(weights + cache, batch / gpus * product)

    replies = sum(drawing(len(one), max(reply for _, reply in one)) for one in rounds)
    asked = round(INVALID * len(turns))
    answer = params.teacher.answer_tokens
    judged = asked * context * product / gpus + sum(drawing(INVALID * len(one), answer) for one in rounds)
    scored = 2 * read_tokens(rows, sizes, ppo.tokens_per_pass)
    Random(0).shuffle(rows)
    batches = [rows[start : start + ppo.minibatch_turns] for start in range(0, len(rows), ppo.minibatch_turns)]
    learned = ppo.epochs * sum(read_tokens(some, sizes, ppo.tokens_per_pass) for some in batches)
    return [
        ("prompts are read", own, own * product / gpus),
        ("replies are drawn", sum(reply for _, reply in turns), replies),
        ("the teacher judges", asked * (round(context) + answer), judged),
        ("reference and policy read", scored, scored * product / gpus),
        ("the update", learned, BACKWARD * learned * product / gpus),
    ]


def memory(params: Params, sizes: Sizes) -> list[tuple[str, float]]:
    """What is on each GPU, in bytes; the teacher is a model of the same size."""
    base, ppo = params.bases[params.tasks[RUN].base], params.for_run(RUN).ppo
    shared, longest = prompt_tokens(task_of(params, RUN))
    tokens = ppo.tokens_per_pass - (ppo.tokens_per_pass // longest - 1) * shared
    return [
        ("the trainer", peak(sizes, base, True, ppo.lora.rank, tokens, 0)),
        (
            f"the sampler, {ppo.rollout.sampler_gibibytes} GiB of cache",
            served(sizes, base, ppo.rollout.sampler_gibibytes),
        ),
        ("the teacher, 16 GiB of cache", served(sizes, base, 16)),
    ]


def plan(params: Params, tables: int, turns: int, gpu: Gpu = MI300X) -> str:
    """The tables of a step."""
    sizes = KNOWN["llama-3.1-8b"]
    rounds = trace(params, tables, turns)
    alone, eight = (parts(params.for_run(RUN), rounds, sizes, gpu, gpus) for gpus in (1, 8))
    shown = [
        [name, f"{tokens:,}", f"{seconds:.1f}", f"{other:.1f}"]
        for (name, tokens, seconds), (*_, other) in zip(alone, eight, strict=True)
    ]
    whole = [sum(seconds for *_, seconds in one) for one in (alone, eight)]
    shown.append(["the step", "", *(f"{seconds:.1f}" for seconds in whole)])
    batch = max(map(len, rounds))
    longest = max(len(prompt) for one in rounds for prompt, _ in one) + params.ppo.rollout.max_new_tokens
    shared, _ = prompt_tokens(task_of(params, RUN))
    cache = (shared + batch * (longest - shared)) * sizes.token(2)
    held = memory(params, sizes)
    bytes_shown = [[name, f"{size / GIBIBYTE:.1f}"] for name, size in held]
    bytes_shown.append([f"of {gpu.memory / GIBIBYTE:.0f} GiB", f"{sum(size for _, size in held) / GIBIBYTE:.1f}"])
    steps = params.ppo.steps
    head = (
        f"{tables} tables, {sum(map(len, rounds))} turns in {len(rounds)} rounds of up to {batch} prompts. "
        f"All {steps} steps: {steps * whole[0] / 3600:.1f} hours on one {gpu.name}, {steps * whole[1] / 3600:.1f} on "
        f"eight. Keys and values of a round, what prompts share in memory once: {cache / GIBIBYTE:.1f} GiB."
    )
    columns = ["part of a step", "tokens", "seconds, one GPU", "seconds, eight"]
    return f"{head}\n\n{table(columns, shown)}\n\n{table(['on each GPU', 'GiB'], bytes_shown)}"


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks.large_plan", description="A plan of PPO's step with 8B.")
    top.add_argument("--tables", type=int, help="games side by side; default: the profile's")
    top.add_argument("--turns", type=int, help="turns of a step; default: the profile's")
    asked = top.parse_args()
    params = read_params(PROFILE)
    play = params.for_run(RUN).ppo.rollout
    print(plan(params, asked.tables or play.episodes_per_step, asked.turns or play.turns_per_step or 512))


if __name__ == "__main__":
    main()
