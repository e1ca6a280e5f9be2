"""The plan of a large step adds up, and a step with a large model's shapes tells mathematics from the rest."""

from dataclasses import replace

from benchmarks.large_plan import MI300X, PROFILE, RUN, memory, parts, trace
from benchmarks.large_step import step_table
from castaway.tasks.registry import read_params
from castaway.tools.memory import KNOWN

LLAMA = KNOWN["llama-3.1-8b"]


def test_a_step_of_the_plan_has_its_turns_and_is_faster_on_eight_gpus() -> None:
    params = read_params(PROFILE)
    rounds = trace(params, tables=2, turns=60)
    assert 60 <= sum(map(len, rounds)) < 60 + 10 and max(map(len, rounds)) <= 10
    alone, eight = (parts(params.for_run(RUN), rounds, LLAMA, MI300X, gpus) for gpus in (1, 8))
    assert all(0 < other[2] <= one[2] and other[1] == one[1] for one, other in zip(alone, eight, strict=True))
    tokens = {name: count for name, count, _ in alone}
    whole = sum(len(prompt) + reply for one in rounds for prompt, reply in one)
    # Both read every turn once, with what they begin with computed once for a tree; the update reads them four times.
    assert tokens["reference and policy read"] < 2 * whole and tokens["the update"] < 4 * whole


def test_trainer_sampler_and_teacher_fit_one_gpu() -> None:
    assert sum(size for _, size in memory(read_params(PROFILE), LLAMA)) < 0.9 * MI300X.memory


def test_the_parts_of_a_step_add_up() -> None:
    small = replace(LLAMA, layers=1, hidden=256, intermediate=64, queries=128, keys=64, vocabulary=512)
    rows = [line.split("|")[2:4] for line in step_table(small, turns=2, prompt=80, reply=3).splitlines() if "|" in line]
    seconds = [[float(cell) for cell in row] for row in rows[2:]]
    assert all(0 <= within <= whole for whole, within in seconds)
    assert abs(sum(whole for whole, _ in seconds[:-1]) - seconds[-1][0]) < 0.05
