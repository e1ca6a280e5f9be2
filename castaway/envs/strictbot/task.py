"""STRICTBOT as a task: players, synthetic questions, preference pairs, exercises by a teacher, and figures."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import mean
from typing import Any

from castaway.envs.strictbot import pairs
from castaway.envs.strictbot.compact_questions import synthetic_observation
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.exercise_writer import ExerciseWriter
from castaway.envs.strictbot.language import language_of
from castaway.envs.strictbot.question_bank import LEVEL_OF, LEVELS, SYNTHETIC_IDS
from castaway.envs.strictbot.rewards import StrictbotParams
from castaway.tasks.environment import CurriculumStage, Message, Outcome, Prompt, TextEnvironment
from castaway.tasks.intervals import proportion
from castaway.tasks.reply import Reply, labelled, reason_only, unlabelled
from castaway.tasks.task import PairRow, Player, Task

CORRECTED = 0.1  # share of the answers that are a false fact, then `no` and the fact: to write `no` is to compare
FORMAT_ERRORS: tuple[Callable[[Reply], str], ...] = (
    unlabelled,
    reason_only,
    lambda reply: f"REASONING: {reply.reasoning}\nANSWER: {reply.action}",
    lambda reply: labelled(reply.reasoning, f"{reply.action} {reply.action}"),
)


class Strictbot(Task[StrictbotParams]):
    name = "strictbot"
    game_model = StrictbotParams
    evaluation_seats = ("one",)
    scripted_seat = "all"
    aimless = pairs.NO_REASONING
    curves = ("factual", "constructiveness", "toxicity", "inconsistency")

    def __init__(self, game: StrictbotParams) -> None:
        super().__init__(game)
        self._language = language_of(game.rendering)
        self.makes_synthetic = self._language.compact

    def make(self) -> StrictbotEnvironment:
        return StrictbotEnvironment(self.game)

    def expert(self, prompt: Prompt) -> Reply:
        question = self._language.question_behind(prompt.observation)
        answer = self._language.answers.proper(question.level, question.fact, question.form)
        return Reply(self._language.reasoning(question, question.kind), answer)

    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        """Imperfect: in a share of its replies kind and level are random, and the fact may be false."""
        kinds, write = sorted(LEVEL_OF), self._language.answers.write

        def play(prompt: Prompt) -> Reply:
            question = self._language.question_behind(prompt.observation)
            if random.random() >= random_action_rate:
                reasoning = self._language.reasoning(question, question.kind)
                return Reply(reasoning, write(question.level, question.fact, random, form=question.form))
            kind = random.choice(kinds)
            fact = question.false if random.random() < 0.1 else question.fact
            return Reply(kind, write(LEVEL_OF[kind], fact, random, random.random() < 0.5, question.form))

        return play

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """A single stage with questions from the training share and, if there are synthetic ones, as many of these.

        With the bank's questions alone, a tiny model's answers with facts outside the bank get worse.
        """
        # The range before `SYNTHETIC_IDS`, of the same length, draws from the bank.
        first = SYNTHETIC_IDS.start - len(SYNTHETIC_IDS)
        last = SYNTHETIC_IDS.stop if self.makes_synthetic else SYNTHETIC_IDS.start
        return (CurriculumStage("all", range(first, last), ("one",)),)

    def kind_of(self, task_id: int) -> str:
        return self._language.question_at(task_id, task_id).kind

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Replies to the same question; for every second one its kind is random, so that all levels are learned."""
        question, kinds = self._language.question_behind(observation), sorted(LEVEL_OF)
        chosen = [question.kind if number % 2 == 0 else random.choice(kinds) for number in range(count)]
        corrected = f"{question.false} no, {question.fact}"
        said = [corrected if random.random() < CORRECTED else question.fact for _ in chosen]
        write = self._language.answers.write
        return [
            Reply(kind, write(LEVEL_OF[kind], text, random, random.random() < 0.5, question.form))
            for kind, text in zip(chosen, said, strict=True)
        ]

    def slip(self, reply: Reply, random: Random) -> str:
        return random.choice(FORMAT_ERRORS)(reply)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        assert isinstance(environment, StrictbotEnvironment)
        return environment.prompt_of(prompt.agent, synthetic_observation(prompt.observation, random))

    def vocabulary(self) -> list[str]:
        if not self._language.compact:
            return []
        texts = self._language.answers.texts
        return [*self._language.bank.vocabulary, *(word for text in texts for word in text.split(" "))]

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
        return pairs.preference_pairs(self._language, prompts, count, random)

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        return pairs.pair_group(self._language, messages, chosen, rejected)

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        return pairs.fits(self._language, answers)

    def writing_task(self, environment: TextEnvironment) -> ExerciseWriter:
        assert isinstance(environment, StrictbotEnvironment)
        return ExerciseWriter(environment)

    def rubric(self) -> str:
        return self._language.rubric

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """Figures of episodes in the seat `one`; shares have 95 % intervals (`_low`, `_high`).

        `appropriateness` is the success rate, given also for `known_families`, for `new_families`, which training never
        uses, and for each of these (`family_NAME`). The counts are `wanted_W_produced_P`, with P 0 if the judge read no
        level.
        """
        new_families = self._language.bank.new_families
        rows = [outcome.details for outcome in outcomes]
        fits = [row["wanted"] == row["produced"] for row in rows]
        families = [outcome.labels["family"] for outcome in outcomes]
        by_family = list(zip(families, fits, strict=True))
        figures: dict[str, float] = {}
        for name, hits in {
            "appropriateness": fits,
            "factual_accuracy": [row["factual"] == 1.0 for row in rows],
            "toxic_rate": [row["toxic"] == 1.0 for row in rows],
            "truncated_rate": list(truncated),
            "known_families": [fit for family, fit in by_family if family not in new_families],
            "new_families": [fit for family, fit in by_family if family in new_families],
        }.items():
            figures |= proportion(sum(hits), len(hits)).entries(name)
        counts = Counter((int(row["wanted"]), int(row["produced"])) for row in rows)
        figures |= {f"wanted_{w}_produced_{p}": counts[w, p] for w in LEVELS for p in (0, *LEVELS)}
        for name in sorted(set(families) & new_families):
            figures[f"family_{name}"] = round(mean(fit for family, fit in by_family if family == name), 6)
        for name in ("words", "constructiveness", "inconsistency", "toxicity"):
            figures[f"mean_{name}"] = round(mean(row[name] for row in rows), 6) if rows else 0.0
        return figures
