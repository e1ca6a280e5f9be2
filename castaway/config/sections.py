"""The sections of `params.yaml`, one frozen model each; a stage reads the section of its name."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from castaway.config.section import Fraction, Natural, NonNegative, Positive, PositiveInteger, Section, StageSection


class LoraParams(Section):
    rank: PositiveInteger
    """Rank of the two low-rank factors."""
    alpha: Positive
    """The weight update is multiplied by alpha / sqrt(rank) (rank-stabilised LoRA, Kalajdzievski 2023)."""


class BaseParams(Section):
    """Settings that all tiny base models share: those with `text` in their block under `bases`."""

    vocabulary: Annotated[int, Field(ge=300, le=65536)]
    """Size of the tiny tokenizer in tokens, special and byte tokens included."""
    hidden_size: PositiveInteger
    """Hidden size (width) of the tiny model."""
    layers: PositiveInteger
    """Number of layers of the tiny model."""
    heads: PositiveInteger
    """Number of attention heads of the tiny model."""
    slips: Fraction
    """Share of the replies in the pretraining text that break the format, as those of an instruct model do."""
    random_action_rate: Fraction
    """Share of the turns in the pretraining text in which the demonstrator does something aimless."""
    practice: Natural
    """Number of extra replies to each situation, which teach the model to read the prompt (`Task.practice`)."""
    epochs: PositiveInteger
    batch_size: PositiveInteger
    learning_rate: Positive

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.hidden_size % (2 * self.heads):  # rotary positions turn the components of a head in pairs
            raise ValueError(f"hidden_size is {self.hidden_size}, expected a multiple of heads ({self.heads}) times 2")
        return self


class TeacherParams(Section):
    kind: Literal["rules", "openai"]
    """`rules`: the rules of the game alone; `openai`: a model on an OpenAI-compatible server, checked by the rules."""
    url: Annotated[str, Field(pattern=r"^https?://\S+/v1$")]
    """The URL of the server. Its API key, if it needs one, is read from the environment: CASTAWAY_TEACHER_KEY."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name on the server."""
    weights: str = ""
    """What the driver serves at `url` for the stages that ask: a folder, or the name of a Hugging Face model. Empty: a
    server that runs already, or what `--teacher` names."""
    adapter: str = ""
    """A LoRA adapter of those weights, which is then the model of that name; if a stage makes this folder, it is built
    before a stage asks."""
    cascade: bool
    """Ask the model only about replies that the rules object to."""
    override_legal: bool
    """Replace a legal action that the model calls invalid with the model's own action."""
    on_outage: Literal["rules", "pause"]
    """If the server stays unreachable: `rules` continues with the verdicts of the rules, marked as such; `pause` stops
    the stage, which can be resumed."""
    most_unusable: Fraction = 0.2
    """Largest share of unusable answers, of the last hundred, that passes without a warning; the rules judge instead.
    `castaway teacher check` fails above it."""
    on_unusable: Literal["rules", "pause"] = "rules"
    """Above that share: `rules` continues with the verdicts of the rules, marked as such; `pause` stops the stage."""
    concurrency: PositiveInteger
    """Number of questions sent to the server at the same time."""
    attempt_seconds: Positive
    """Time limit for one attempt to get an answer, in seconds."""
    deadline_seconds: Positive
    """Time limit for one question with all attempts, in seconds."""
    patience_seconds: Positive
    """The server counts as down after this many seconds of failures only."""
    answer_tokens: PositiveInteger
    """Largest length of an answer, in tokens."""

    @model_validator(mode="after")
    def _weights_below(self) -> Self:
        if self.adapter and not self.weights:
            raise ValueError(f"adapter is {self.adapter!r}, expected weights beside it, which it belongs to")
        return self


class DatasetParams(StageSection):
    """The dataset: demonstrations, preference pairs, and the split of the task ids."""

    episodes: PositiveInteger
    """Number of scripted episodes that demonstrations are drawn from."""
    demonstrations: PositiveInteger
    """Number of turns kept for SFT."""
    pairs: PositiveInteger
    """Number of preference pairs that the reward model is trained on."""
    held_out_pairs: PositiveInteger
    """Number of preference pairs from other episodes, which the reward model is evaluated on."""
    no_reasoning_fraction: Fraction
    """Share of the pairs whose replies have a reasoning without content, so that only the actions differ."""
    hard_negative_fraction: Fraction
    """Share of the training pairs whose actions begin with the same word and differ only in the details."""
    random_action_rate: Fraction
    """Share of the demonstrator's turns in which it does something aimless."""
    balanced: bool
    """Whether each kind of situation (`Task.situation`) has as many demonstrations, or its share of the episodes."""
    synthetic_share: Fraction
    """Share of synthetic situations in the training pairs, in tasks that make such situations."""
    written: Natural
    """Number of situations, with replies, that a served teacher (`teacher.kind: openai`) writes, in tasks that support
    it; scripted play gives the rest of the demonstrations and pairs."""


class SftParams(StageSection):
    """Supervised fine-tuning on the demonstrations."""

    epochs: NonNegative
    """0 leaves it out: the policy is then the base model, such as one that another run has trained."""
    batch_size: PositiveInteger
    learning_rate: Positive
    tokens_per_pass: PositiveInteger
    """Largest number of tokens, with padding, in one forward and backward pass; it decides the memory that training
    takes, and of results only the rounding."""
    lora: LoraParams


class RewardModelParams(StageSection):
    """The reward model: a scalar head trained on preference pairs (Bradley-Terry)."""

    epochs: Positive
    batch_size: PositiveInteger
    learning_rate: Positive
    tokens_per_pass: PositiveInteger
    """As in `SftParams`."""
    lora: LoraParams


class CorrectionSftParams(StageSection):
    """Training on the teacher's corrections of the policy's replies during PPO."""

    method: Literal["sft", "dpo"]
    """`sft`: the corrections are imitated; `dpo`: they are preferred to the replies that they correct (Rafailov et al.
    2023)."""
    beta: Positive
    """Of `dpo`: how much a step away from PPO's policy costs."""
    epochs: Positive
    batch_size: PositiveInteger
    learning_rate: NonNegative
    tokens_per_pass: PositiveInteger
    """As in `SftParams`."""
    limit: PositiveInteger
    """Largest number of corrections to use; the newest are taken."""


LAST_BLOCK = 990
"""The last `evaluate.block` that is no audit: ten seeds play it and the nine after it, and audits begin at 1,000."""


POLICIES = ("base", "sft", "ppo", "final")
"""The base model, after SFT, after PPO, and after SFT on corrections."""


class EvaluateParams(StageSection):
    """Evaluation on held-out ids, without a teacher."""

    block: Natural
    """The block of held-out ids that seed 1 plays; seed 2 plays the next one, and so on (`castaway.tasks.environment`).
    Every asking is recorded in `data/RUN/metrics/ledger.json`."""
    audit: bool
    """Whether this is an audit of the project: only an audit may play the blocks from 1,000 on."""
    episodes: PositiveInteger
    further_episodes: PositiveInteger
    """Number of episodes in each seat other than the main one."""
    sampler: Literal["in_process", "vllm"]
    """What samples the replies: `in_process`, this process; `vllm`, a vLLM server, first of the base model, then of
    the others. With vllm, results are not reproducible to the byte."""
    sampler_gibibytes: PositiveInteger
    """Memory for the KV cache of the vLLM server, in GiB."""
    temperature: Positive
    best_of: PositiveInteger
    """Number of replies from which the reward model selects one, in a second evaluation of each policy; 1: no second
    evaluation."""
    replays: Natural
    """Number of whole episodes saved per policy."""

    @model_validator(mode="after")
    def _sealed(self) -> Self:
        if self.block > LAST_BLOCK and not self.audit:
            raise ValueError(
                f"block is {self.block}, expected at most {LAST_BLOCK}: blocks from 1,000 on are kept for those who "
                "audit the project, who set audit to true"
            )
        return self


class MergeParams(StageSection):
    """The export of the final weights, with the adapter merged, in the format of transformers."""

    dtype: Literal["float32", "bfloat16"]
    tolerance: Positive
    """Largest allowed KL divergence between the next-token distributions before and after merging, in nats per token.
    Without its adapter, a policy differs by tenths of a nat; rounding weights to bfloat16 comes to about 1e-3."""


class GateParams(Section):
    """When the merged model of a run becomes its champion in MLflow's registry; no result depends on it."""

    success_rate: Fraction = 0.0
    """Least success of the final policy on held-out ids: the lower end of its interval has to reach it."""
    invalid_rate: Fraction = 1.0
    """Largest share of invalid replies: the upper end of its interval may reach it."""
    margin: Fraction = 0.0
    """How much less success than the champion's is accepted: on the ids that both played, the lower end of the paired
    difference has to be above minus this. With 0, a champion is replaced by a model that is better for certain."""
