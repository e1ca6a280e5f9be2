"""Where a model and the rules judge differently: who is right about legality can be looked up, for the engine knows.

| kind | who is right |
|---|---|
| calls a legal move illegal | the rules, always |
| calls an illegal move legal | the rules, always |
| proposes an illegal action | the rules, always |
| another correction | both actions are legal: a person has to look |
| another penalty | a point or more apart: a person has to look |
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from castaway.tasks.environment import Message
from castaway.tasks.verdict import Dispute, Opinion, Verdict
from castaway.teacher.protocol import Answer

FAR = 1.0  # penalties that are closer do not count as different
UNUSABLE = "rules, for an unusable answer"
"""Who judged where a model was asked and its answer could not be used."""
EXAMPLES = 5  # of each kind that are kept: the first ones


def dispute(answer: Answer, by_rules: Verdict, *, impossible: bool = False) -> Dispute | None:
    """What an answer and the rules' verdict differ in, the gravest first; `impossible`: its own action is illegal."""
    if by_rules.valid and not answer.valid:
        kind = "calls a legal move illegal"
    elif answer.valid and not by_rules.valid:
        kind = "calls an illegal move legal"
    elif impossible:
        kind = "proposes an illegal action"
    elif not by_rules.valid and answer.action != by_rules.action:
        kind = "another correction"
    elif abs(answer.on_the_scale - by_rules.penalty) >= FAR:
        kind = "another penalty"
    else:
        return None
    return Dispute(
        kind,
        model=Opinion(valid=answer.valid, action=answer.action, penalty=answer.on_the_scale, remark=answer.remark),
        rules=Opinion(valid=by_rules.valid, action=by_rules.action, penalty=by_rules.penalty, remark=by_rules.critique),
    )


class Agreement:
    """Counts who judged and what was disputed, and keeps a few examples of each kind."""

    def __init__(self) -> None:
        self.sources: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, Any]]] = {}

    def add(self, source: str, disputed: Dispute | None, messages: Sequence[Message] = (), text: str = "") -> None:
        """Take in one turn: who judged it, and if that was disputed what the student was shown and wrote."""
        self.sources[source] += 1
        if disputed is None:
            return
        self.kinds[disputed.kind] += 1
        kept = self.examples.setdefault(disputed.kind, [])
        if len(kept) < EXAMPLES:
            opinions = {"model": asdict(disputed.model), "rules": asdict(disputed.rules)}
            kept.append({"situation": messages[-1]["content"], "text": text, **opinions})

    def report(self) -> dict[str, Any]:
        kinds = {kind: {"count": n, "examples": self.examples[kind]} for kind, n in sorted(self.kinds.items())}
        return {"judged_by": dict(sorted(self.sources.items())), "disputes": kinds}
