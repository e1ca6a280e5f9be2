"""What each stage of each run needs: the peak of its memory, and roughly its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from castaway.config.bases import BaseTextParams, PackageParams
from castaway.config.params import Params
from castaway.metrics.policies import CHOSEN_FROM, POLICIES
from castaway.models.rows import SMALL
from castaway.models.training import rows_per_pass
from castaway.tasks.registry import load_task, task_class
from castaway.tools.profiles.architecture import Architecture, architecture_of
from castaway.tools.profiles.host import Speed, speed_of
from castaway.tools.profiles.memory import FULL, TRAINED, Trunk, drawing, laid_out, learning, reading
from castaway.tools.profiles.workload import Workload, counter, workload, workload_of

LIBRARIES, TRAINERS, DATASET = 0.45e9, 0.6e9, 0.55e9
"""Bytes of a Python process with torch, transformers and a task; with TRL's trainers; with a data set. Measured."""
STAGE, ROLLOUT = 0.16e9, 0.3e9
"""Bytes that a stage has besides, for tracking and its task's data; and PPO for its episodes. Measured in the demo."""
DRIVER = 1.0e9
"""Bytes of a GPU that its driver and libraries take. Assumed."""
ROUGH = 2.0
"""Times are given as a range: the estimate divided and multiplied by this."""
LISTED = 100
"""Bytes of a token of pretraining text, which is kept in lists: five numbers, in documents and in rows."""
START = 8
"""Seconds until a stage has imported its libraries and loaded its model."""
WIDTH = 256
"""Tokens of a row of pretraining text (`stages/base.py`)."""
PROBES, LAST_TOKENS = 16, 64
"""Prompts on which the stage `merge` compares the models, and how much of their ends."""
PARALLEL = 128
"""Episodes that the stage `evaluate` plays side by side."""


@dataclass(frozen=True)
class Need:
    """What a stage needs."""

    address: str
    """STAGE@RUN."""
    host: float
    """Peak of the host's memory, in bytes."""
    device: float
    """Peak of the GPU's memory, in bytes; 0 on the CPU."""
    seconds: float
    """Rough."""
    remedy: str
    """What to change if the memory is too small."""

    @property
    def range(self) -> tuple[float, float]:
        """Between how many seconds it probably takes."""
        return self.seconds / ROUGH, self.seconds * ROUGH


def needs(params: Params, root: Path, loads: Mapping[str, Workload] | None = None) -> list[Need]:
    """What the stages need, in the order in which they are built; bases whose sizes are unknown are left out.

    Args:
        params: of the repository or of a profile.
        root: the repository, in which base models may have been built.
        loads: the workload of each run, if it is known; otherwise it is measured.
    """
    sizes = {name: architecture_of(params, name, root) for name in params.bases}
    used = {run.base for run in params.tasks.values()}
    known = {name: one for name, one in sizes.items() if one and name in used}
    speed = speed_of(params.device, params.threads)
    found = [_base(params, name, one, speed, root) for name, one in known.items()]
    for run, block in params.tasks.items():
        if one := known.get(block.base):
            load = loads[run] if loads else workload_of(params, run, root)
            found += _Run(params.for_run(run), run, one, load, speed).needs()
    return [replace(need, host=need.host + STAGE) for need in found]


def _base(params: Params, name: str, sizes: Architecture, speed: Speed, root: Path) -> Need:
    block = params.bases[name]
    if isinstance(block, BaseTextParams):
        tokens = params.base.batch_size * WIDTH
        trunk = Trunk(sizes, FULL, checkpointing=False)
        peak: float = TRAINED * sizes.parameters + trunk.activations(tokens) + trunk.chunk(tokens)
        written = steps = 0.0
        for task, text in block.text.items():
            made = load_task(task, text.game)
            load = workload(made, counter(root / "data" / name / "base", tiny=True), made.scripted_seat)
            documents = text.episodes * load.turns
            written += documents * (load.prompt + (1 + params.base.practice) * load.reply)
            steps += documents / params.base.batch_size
        seconds = speed.training(6 * sizes.parameters * written * params.base.epochs, steps, sizes.layers)
        peak += LISTED * written
        return Need(f"base@{name}", LIBRARIES + peak, 0, START + seconds, f"lower episodes in bases.{name}.text")
    # bfloat16 weights, with what saving them takes; those of GGUF are first dequantised to float32.
    held = (6 if isinstance(block, PackageParams) else 3.5) * sizes.parameters
    return Need(f"base@{name}", LIBRARIES + held, 0, START + held / 3e7, "choose a smaller model")


class _Run:
    """The stages of one run."""

    def __init__(self, params: Params, run: str, sizes: Architecture, load: Workload, speed: Speed) -> None:
        block = params.bases[params.tasks[run].base]
        self._params, self._run, self._load, self._speed = params, run, load, speed
        self._on_gpu = params.device != "cpu"
        width = FULL if block.dtype == "float32" else 2
        self._trunk = Trunk(sizes, width, block.gradient_checkpointing, self._on_gpu, block.dtype == "nf4")
        seats = task_class(params.tasks[run].task).evaluation_seats
        self._episodes = params.evaluate.episodes + (len(seats) - 1) * params.evaluate.further_episodes
        # Of a row that is read, the beginning that all share is computed once for many.
        tree = laid_out(64, load.shared, round(load.prompt + load.reply), sizes.hidden) / 64
        self._tokens = min(load.prompt + load.reply, tree)
        self._longest = round(load.longest)

    def needs(self) -> Iterator[Need]:
        """In the order in which they are built."""
        params, load = self._params, self._load
        turns = params.dataset.episodes * max(load.turns, 1)
        yield Need(f"dataset@{self._run}", DATASET, 0, 10 + 2 * load.seconds * turns, "")
        yield self._sft(
            "sft",
            params.sft.batch_size,
            params.sft.tokens_per_pass,
            params.sft.lora.rank,
            params.dataset.demonstrations * params.sft.epochs,
        )
        yield self._reward_model()
        yield self._ppo()
        corrected = params.correction_sft
        yield self._sft(
            "correction_sft",
            corrected.batch_size,
            corrected.tokens_per_pass,
            params.ppo.lora.rank,
            corrected.limit * corrected.epochs,
        )
        yield self._evaluate()
        yield self._merge()

    def _need(self, stage: str, libraries: float, peak: float, seconds: float, remedy: str) -> Need:
        """A stage on the device; on a GPU the host holds the weights while they are read, and their file."""
        loading = self._trunk.loading
        address = f"{stage}@{self._run}"
        if self._on_gpu:
            return Need(address, libraries + loading, DRIVER + peak, seconds, remedy)
        return Need(address, libraries + max(peak, loading), 0, seconds, remedy)

    def _sft(self, stage: str, batch: int, budget: int, rank: int, rows: float) -> Need:
        load, trunk = self._load, self._trunk
        count = rows_per_pass(batch, self._longest, budget)
        tokens = laid_out(count, load.shared, self._longest, trunk.sizes.hidden)
        head = trunk.chunk(round(count * load.reply))
        work = self._learning(rows, 1.0)
        # The policy of PPO stands on the base model with SFT's adapter merged; see `_merged`.
        merged = self._merged if stage == "correction_sft" else 0
        seconds = START + self._speed.training(work, rows / count, trunk.sizes.layers)
        return self._need(
            stage,
            TRAINERS,
            learning(trunk, tokens, rank, head) + self._gaps(tokens) + merged,
            seconds,
            self._advice(f"{stage}.tokens_per_pass", tokens, head),
        )

    def _reward_model(self) -> Need:
        params, load, trunk = self._params.reward_model, self._load, self._trunk
        pairs = self._params.dataset.pairs * params.epochs
        count = rows_per_pass(params.batch_size, 2 * self._longest, params.tokens_per_pass)
        # The two answers of a pair share its prompt.
        own = self._longest + round(load.reply)
        tokens = min(laid_out(count, load.shared, own, trunk.sizes.hidden), 2 * count * self._longest)
        read = 2 * (self._params.dataset.held_out_pairs + 500)
        seconds = START + self._speed.training(self._learning(1.3 * pairs, 0), pairs / count, trunk.sizes.layers)
        seconds += self._speed.reading(self._reading(read), trunk.sizes.layers)
        return self._need(
            "reward_model",
            TRAINERS,
            learning(trunk, tokens, params.lora.rank, 0) + self._gaps(tokens),
            seconds,
            self._advice("reward_model.tokens_per_pass", tokens, 0),
        )

    def _ppo(self) -> Need:
        params, load, trunk = self._params.ppo, self._load, self._trunk
        turns = params.turns_per_step or params.episodes_per_step * load.turns
        side = max(1, params.tokens_per_pass // self._longest)
        minibatch = min(side, params.minibatch_turns, max(1, round(turns)))
        tokens = laid_out(minibatch, load.shared, self._longest, trunk.sizes.hidden)
        head = trunk.chunk(round(minibatch * load.reply)) + TRAINED * trunk.sizes.hidden**2
        beside = FULL * trunk.sizes.adapter(self._params.reward_model.lora.rank)
        learned, drawn = learning(trunk, tokens, params.lora.rank, head), self._drawing(params.episodes_per_step)
        # In the heap of a process, what sampling has freed does not suit the update; a GPU's allocator splits it.
        peak = max(learned, drawn, self._scoring(turns)) if self._on_gpu else learned + drawn - trunk.weights
        peak += beside + self._merged
        # The reference and the reward model read each turn; in bfloat16 the policy itself does so too.
        reads = 2 + (trunk.bytes < FULL or params.importance_cap is not None)
        seconds = self._playing(turns, params.episodes_per_step)
        seconds += self._speed.reading(reads * self._reading(turns), trunk.sizes.layers)
        passes = params.epochs * turns / minibatch
        seconds += self._speed.training(self._learning(params.epochs * turns, 1.0), passes, trunk.sizes.layers)
        validation = params.validation
        validated = -(-params.steps // validation.interval) * self._playing(
            validation.episodes * load.turns, validation.episodes
        )
        return self._need(
            "ppo",
            LIBRARIES + ROLLOUT,
            peak,
            START + params.steps * seconds + validated,
            self._advice("ppo.tokens_per_pass", tokens, head),
        )

    def _evaluate(self) -> Need:
        params, trunk = self._params.evaluate, self._trunk
        turns = self._episodes * self._load.turns
        games = min(self._episodes, PARALLEL)
        peak = max(self._drawing(games), self._scoring(games * self._load.agents) if params.best_of > 1 else 0)
        if params.best_of > 1:
            # Beside the base model, the reward model needs a trunk of its own.
            peak += trunk.weights
        if not self._on_gpu and trunk.sizes.hidden >= SMALL:
            # The base model plays first; little of what it has freed suits the others.
            peak += self._drawing(games)
        peak += self._merged
        rounds = len(POLICIES) + (len(CHOSEN_FROM) * params.best_of if params.best_of > 1 else 0)
        waves = -(-self._episodes // PARALLEL)
        seconds = rounds * waves * self._playing(turns / waves, games)
        return self._need(
            "evaluate", LIBRARIES, peak, START + seconds, self._advice("ppo.sampling_tokens_per_pass", 0, 0)
        )

    def _merge(self) -> Need:
        """On the host. In float32 the models are compared in float64, which took 13 bytes for each weight."""
        trunk, wide = self._trunk, self._params.merge.dtype == "float32"
        # Weights of 4 bits are dequantised into a second model.
        loading = trunk.loading + (trunk.bytes * trunk.sizes.parameters if trunk.four_bit else 0)
        peak = LIBRARIES + max(loading, 13 * trunk.sizes.parameters if wide else 0)
        # The logits of both models for the ends of prompts; and of one of them their logarithms, in float64.
        seen = min(self._longest, LAST_TOKENS) * trunk.sizes.vocabulary
        peak += 2 * PROBES * seen * (FULL if wide else 2) + 4 * 8 * seen
        return Need(f"merge@{self._run}", peak, 0, START / 2 + peak / 2e8, "set merge.dtype to bfloat16")

    def _drawing(self, games: int) -> float:
        """Sampling for so many games side by side, as many at a time as `ppo.sampling_tokens_per_pass` allows."""
        params, load = self._params.ppo, self._load
        width = self._longest - round(load.reply) + params.max_new_tokens
        rows = max(1, min(params.sampling_tokens_per_pass // width, round(games * load.agents)))
        return drawing(self._trunk, rows, rows * width, rows * (width - load.shared))

    def _scoring(self, turns: float) -> float:
        side = max(1, min(self._params.ppo.tokens_per_pass // self._longest, round(turns)))
        tokens = laid_out(side, self._load.shared, self._longest, self._trunk.sizes.hidden)
        return reading(self._trunk, tokens, round(side * self._load.reply))

    def _playing(self, turns: float, games: int) -> float:
        """Seconds of so many turns, of games that are played side by side."""
        load, sizes = self._load, self._trunk.sizes
        replies = max(load.reply, min(1.5 * load.reply, self._params.ppo.max_new_tokens))
        calls = max(1.0, turns / (games * load.agents))
        read = 2 * sizes.linear * turns * max(1.0, load.prompt - load.shared)
        drawn = 2 * (sizes.linear + sizes.vocabulary * sizes.hidden) * turns * load.reply
        return (
            turns * load.seconds
            + self._speed.reading(read, sizes.layers)
            + self._speed.drawing(drawn, calls * replies, self._trunk.weights, sizes.layers)
        )

    def _learning(self, rows: float, head: float) -> float:
        """Operations of a forward and backward pass; gradients of weights are needed of adapters only."""
        sizes, times = self._trunk.sizes, 6 if self._trunk.checkpointing else 4
        logits = head * sizes.vocabulary * sizes.hidden * self._load.reply
        return rows * times * (sizes.linear * self._tokens + logits)

    def _reading(self, rows: float) -> float:
        return rows * 2 * self._trunk.sizes.linear * self._tokens

    @property
    def _merged(self) -> float:
        """What a process's heap still holds of the merging of SFT's adapter."""
        return 0 if self._on_gpu else max(0, self._trunk.loading - self._trunk.weights)

    def _gaps(self, tokens: int) -> int:
        """What the heap of a trainer holds besides a pass: passes of many shapes leave gaps of about its size.

        Only a large model's blocks are so large that it matters; and PPO returns those (`castaway.models.memory`).
        """
        trunk = self._trunk
        return 0 if self._on_gpu or trunk.sizes.hidden < SMALL else trunk.activations(tokens)

    def _advice(self, key: str, tokens: int, head: int) -> str:
        """What to change: the part that is largest."""
        trunk = self._trunk
        if trunk.weights > trunk.activations(tokens) + head:
            smaller = "set dtype to nf4" if not trunk.four_bit else "choose a smaller model"
            return "set dtype to bfloat16" if trunk.bytes == FULL else smaller
        return f"lower {key}" + ("" if trunk.checkpointing else " or set gradient_checkpointing")
