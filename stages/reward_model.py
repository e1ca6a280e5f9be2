"""reward_model: trains the reward model on preference pairs with TRL's RewardTrainer.

    python -m flows reward_model@marooned

The metrics compare its accuracy on held-out pairs with two baselines: one that sees only the answers, and one that sees
only the prompt. Both should be near one half. If one is not, the pairs can be ranked without comparing answer and
situation, and the accuracy of the reward model means little.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import mean, pstdev
from typing import TYPE_CHECKING, Any

from datasets import Dataset
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from trl import RewardConfig

from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import PAIRS, Row, read_rows, reply_text
from castaway.models.policy import load_model, lora_config, save_adapter
from castaway.models.ranking import accuracy_by_group, calibration, rank_correlation
from castaway.models.reward import RewardScorer, Scale, sequence_classifier
from castaway.models.rows import SMALL, STEP
from castaway.models.tokens import ChatTokenizer
from castaway.models.trainers import FoldedRewardTrainer, keep_precision
from castaway.models.training import CurveCallback, section_settings, seed_everything
from castaway.tasks.intervals import proportion
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {
    "final": "held_out_accuracy",
    "low": "held_out_accuracy_low",
    "high": "held_out_accuracy_high",
    "n": "held_out_pairs",
    "loss": "loss",
}
"""Short name to figure, for `dvc metrics`: the share of n held-out pairs that are ranked rightly, and its interval."""


def run(context: Context) -> dict[str, Any]:
    params = context.params.reward_model
    seed_everything(context.params.seed, context.params.threads)
    base, sft = context.folder("base"), context.folder("sft")
    tokenizer = ChatTokenizer.load(base)
    pairs, held_out = (
        read_rows(context.folder("dataset") / f"{name}.jsonl", PAIRS).to_list() for name in ("pairs", "held_out_pairs")
    )

    if not (pairs and held_out):
        raise CastawayError(
            f"reward_model@{context.run}: the data set has {len(pairs)} pairs and {len(held_out)} held-out ones; raise "
            "dataset.episodes, from which they are made"
        )

    # The SFT policy without its LM head, with a new scalar head. An adapter is trained, and the head in full.
    causal = load_model(base, [sft], context.dtype)
    trainer = _trainer(context, causal, tokenizer, pairs)
    result = trainer.train()
    save_adapter(trainer.model, context.output)

    # Metrics: standardise on training pairs, rank the held-out ones. 500 pairs are enough for mean and deviation.
    trained: Any = trainer.model.eval()
    head = trained.base_model.model.score.modules_to_save["default"].weight.detach()
    decoder = causal.get_decoder()
    scorer = RewardScorer(decoder, head, tokenizer, Scale(0.0, 1.0), tokens_per_pass=params.tokens_per_pass)
    training_scores = _scores(scorer, pairs[:500])
    Scale(mean(training_scores), pstdev(training_scores)).save(context.output)
    scores = _scores(scorer, held_out)
    margins = [chosen - rejected for chosen, rejected in zip(scores[::2], scores[1::2], strict=True)]
    return {
        "loss": round(result.training_loss, 6),
        **proportion(sum(margin > 0 for margin in margins), len(held_out)).entries("held_out_accuracy"),
        "answer_only_accuracy": round(answer_only_accuracy(pairs, held_out, context.params.seed), 6),
        "prompt_only_accuracy": round(prompt_only_accuracy(pairs, held_out, context.params.seed), 6),
        "held_out_pairs": len(held_out),
        **calibration(margins),
        **_own_figures(task_of(context.params, context.run), held_out, scores, margins),
    }


def _trainer(context: Context, causal: Any, tokenizer: ChatTokenizer, pairs: Sequence[Row]) -> FoldedRewardTrainer:
    params = context.params.reward_model
    rows: list[dict[str, list[int]]] = []
    for pair in pairs:
        prompt = tokenizer.prompt(pair["prompt"])
        chosen, rejected = map(tokenizer.reply, _answers(pair))
        rows.append({"chosen_ids": prompt + chosen, "rejected_ids": prompt + rejected})
    most = max(len(row[name]) for row in rows for name in row)
    # A row of the trainer is a pair of answers.
    settings = section_settings(params, len(rows), 2 * most, **context.training)
    lora = lora_config(params.lora, task_type="SEQ_CLS")
    lora.modules_to_save = ["score"]
    trainer = FoldedRewardTrainer(
        model=sequence_classifier(causal),
        args=RewardConfig(
            **settings,
            max_length=None,
            center_rewards_coefficient=0.01,
            pad_to_multiple_of=STEP if causal.config.get_text_config().hidden_size >= SMALL else "auto",
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer.tokenizer,
        peft_config=lora,
        callbacks=[CurveCallback(context.log, {"loss": "loss", "accuracy": "accuracy", "margin": "margin"})],
    )
    keep_precision(trainer.model, {})
    return trainer


def _own_figures(
    task: Task[Any], held_out: Sequence[Row], scores: Sequence[float], margins: Sequence[float]
) -> dict[str, Any]:
    """Additional metrics of a task that knows how well each answer fits, or which groups a pair belongs to."""
    figures: dict[str, Any] = {}
    fits = task.fits([(pair["prompt"], answer) for pair in held_out for answer in _answers(pair)])
    if fits is not None:
        figures["spearman_with_fit"] = round(rank_correlation(scores, fits), 6)
    groups = [task.pair_groups(pair["prompt"], *_answers(pair)) for pair in held_out]
    if any(groups):
        figures["accuracy_by"] = accuracy_by_group([margin > 0 for margin in margins], groups)
    return figures


def _answers(pair: Row) -> tuple[str, str]:
    return reply_text(pair["chosen"]), reply_text(pair["rejected"])


def _scores(scorer: RewardScorer, pairs: list[Row]) -> list[float]:
    """Raw scores, alternating between the chosen and the rejected answer of each pair."""
    return scorer.raw([scorer.tokens(pair["prompt"], answer) for pair in pairs for answer in _answers(pair)])


def answer_only_accuracy(train: list[Row], held_out: list[Row], seed: int) -> float:
    """Accuracy of a logistic regression that sees the words of both answers, in random order, but no prompt."""
    return _two_answer_baseline(train, held_out, seed, lambda pair, left, right: (left, right))


def prompt_only_accuracy(train: list[Row], held_out: list[Row], seed: int) -> float:
    """Accuracy of a logistic regression that sees the words of the prompt, but none of the two answers."""
    return _two_answer_baseline(train, held_out, seed, lambda pair, left, right: (pair["prompt"][-1]["content"], ""))


def _two_answer_baseline(train: list[Row], held_out: list[Row], seed: int, view: Any) -> float:
    """Held-out accuracy of a logistic regression on the difference of the words and bigrams of two texts."""
    random = Random(seed)

    def ordered(pairs: list[Row]) -> tuple[list[str], list[str], list[bool]]:
        heads = [random.random() < 0.5 for _ in pairs]  # then the chosen one comes first
        texts = [view(pair, *_answers(pair)[:: 1 if head else -1]) for pair, head in zip(pairs, heads, strict=True)]
        return [one for one, _ in texts], [other for _, other in texts], heads

    words = CountVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), lowercase=False)
    first, second, labels = ordered(train)
    if len(set(labels)) < 2:
        return 0.5  # of a few pairs all may have the chosen answer in one place: nothing can be learned
    words.fit(first + second)
    # To the end, not to the default tolerance: where the solver stops on its way depends on the processor.
    model = LogisticRegression(tol=1e-9, max_iter=20_000)
    model.fit(words.transform(first) - words.transform(second), labels)
    first, second, labels = ordered(held_out)
    return float(model.score(words.transform(first) - words.transform(second), labels))
