"""Peak memory of passes through random models of real sizes, each in a process of its own, beside the estimate.

python -m benchmarks.memory          a few minutes on two idle cores; needs 6 GB
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

from castaway.metrics.markdown import table
from castaway.tools.profiles.architecture import KNOWN, Architecture
from castaway.tools.profiles.memory import FULL, TRAINED, Trunk, drawing, laid_out, learning, reading
from flows.records import peak_memory

RANK = 16


@dataclass(frozen=True)
class Case:
    """A pass over rows of random tokens, each a prompt and a reply."""

    what: Literal["sft", "ppo", "score", "sample"]
    """SFT by TRL's trainer; a minibatch of PPO; scoring; or drawing replies."""
    layers: int
    """Of SmolLM2-135M, which has 30; the other sizes are its own."""
    dtype: Literal["float32", "bfloat16"]
    checkpointing: bool
    rows: int
    shared: int
    """Tokens that all prompts begin with."""
    own: int
    """The other tokens of a prompt."""
    reply: int

    @property
    def sizes(self) -> Architecture:
        """Of the model."""
        return Architecture(**{**asdict(KNOWN["smollm2-135m"]), "layers": self.layers})


CASES = (
    Case("sft", 30, "float32", False, 4, 0, 125, 40),
    Case("sft", 30, "float32", False, 8, 70, 60, 40),
    Case("sft", 30, "float32", False, 5, 400, 30, 40),
    Case("ppo", 30, "float32", False, 8, 0, 100, 40),
    Case("ppo", 6, "float32", False, 24, 0, 100, 40),
    Case("ppo", 6, "float32", True, 24, 0, 100, 40),
    Case("ppo", 6, "bfloat16", False, 16, 0, 100, 40),
    Case("ppo", 6, "bfloat16", True, 16, 0, 100, 40),
    Case("score", 30, "float32", False, 8, 0, 100, 40),
    Case("sample", 30, "float32", False, 48, 70, 60, 6),
)


def main() -> None:
    rows = []
    for case in CASES:
        measured, estimated = peak(case), estimate(case)
        difference = f"{estimated / measured - 1:+.0%}"
        rows.append([*(str(value) for value in asdict(case).values()), _gb(measured), _gb(estimated), difference])
    print(table([*Case.__annotations__, "measured", "estimate", "difference"], rows))


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


def estimate(case: Case) -> float:
    """The estimated peak, in bytes."""
    from castaway.tools.profiles.stages import LIBRARIES, TRAINERS

    trunk = Trunk(case.sizes, FULL if case.dtype == "float32" else 2, case.checkpointing)
    longest = case.shared + case.own + case.reply
    tokens = laid_out(case.rows, case.shared, longest, case.sizes.hidden)
    if case.what == "sft":
        return TRAINERS + learning(trunk, tokens, RANK, trunk.chunk(case.rows * case.reply))
    if case.what == "ppo":
        head = trunk.chunk(case.rows * case.reply) + TRAINED * case.sizes.hidden**2
        return LIBRARIES + learning(trunk, tokens, RANK, head)
    if case.what == "score":
        return LIBRARIES + reading(trunk, tokens, case.rows * case.reply)
    return LIBRARIES + drawing(trunk, case.rows, case.rows * longest, case.rows * case.own)


def peak(case: Case) -> float:
    """The measured peak, in bytes, of a new process that makes one such pass."""
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.splitlines()[-1])


# In the new process ---------------------------------------------------------------------------------------------------


def run(case: Case) -> None:
    """Make the pass, and print the peak of this process."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(2)
    torch.manual_seed(0)
    sizes, random = case.sizes, Random(0)
    torch.set_default_dtype(getattr(torch, case.dtype))
    model: Any = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.hidden,
            intermediate_size=sizes.intermediate,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.key_value_heads,
            tie_word_embeddings=sizes.tied,
        )
    )
    torch.set_default_dtype(torch.float32)

    def tokens(count: int) -> list[int]:
        return [random.randrange(5, sizes.vocabulary) for _ in range(count)]

    beginning = tokens(case.shared)
    rows = [(beginning + tokens(case.own), tokens(case.reply)) for _ in range(case.rows)]
    if case.what == "sft":
        _sft(case, model, rows)
    else:
        _act(case, model, rows)
    print(2**30 * peak_memory())


Rows = list[tuple[list[int], list[int]]]


def _sft(case: Case, model: Any, rows: Rows) -> None:
    from datasets import Dataset
    from trl import SFTConfig

    from castaway.config.sections import LoraParams
    from castaway.models.policy import lora_config
    from castaway.models.tiny import train_tokenizer
    from castaway.models.trainers import FoldedSFTTrainer
    from castaway.models.training import ReplyCollator, labelled, trainer_settings

    with tempfile.TemporaryDirectory() as folder:
        settings = trainer_settings(
            Path(folder),
            seed=1,
            device="cpu",
            epochs=1,
            batch_size=case.rows,
            learning_rate=1e-4,
            gradient_checkpointing=case.checkpointing,
        )
        FoldedSFTTrainer(
            model=model,
            args=SFTConfig(**settings, max_length=None, packing=False),
            train_dataset=Dataset.from_list([labelled(*row) for row in rows]),
            data_collator=ReplyCollator(model, 0),
            processing_class=train_tokenizer(["a"], 300),
            peft_config=lora_config(LoraParams(rank=RANK, alpha=16.0)),
        ).train()


def _act(case: Case, model: Any, rows: Rows) -> None:
    import torch

    from castaway.config.sections import LoraParams
    from castaway.models.policy import new_adapter
    from castaway.rl.actor_critic import ActorCritic
    from castaway.rl.sampling import SamplingRules, sample_replies

    policy = new_adapter(model.eval(), LoraParams(rank=RANK, alpha=16.0))
    if case.checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    actor = ActorCritic(policy)
    if case.what == "sample":
        rules = SamplingRules(1.0, case.reply, frozenset(), 0)
        sample_replies(actor, [prompt for prompt, _ in rows], rules, torch.Generator().manual_seed(0))
    elif case.what == "score":
        with torch.inference_mode():
            actor.score(actor.batch(rows), 1.0)
    else:
        weights = [weight for weight in actor.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)
        actor.score(actor.batch(rows), 1.0).logprobs.sum().backward()
        optimizer.step()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        run(Case(**json.loads(sys.argv[1])))
