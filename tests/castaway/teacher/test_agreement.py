"""What a model and the rules dispute, and what is kept of it."""

import json
import pickle

import pytest

from castaway.tasks.verdict import Verdict
from castaway.teacher.agreement import EXAMPLES, Agreement, dispute
from castaway.teacher.protocol import Answer

LEGAL = Verdict(True, "WAIT", 0.0, "", "", "rules")
ILLEGAL = Verdict(False, "MOVE EAST", -1.5, "'MOVING' is not an action.", "", "rules")


def answer(valid: bool, action: str, penalty: float) -> Answer:
    return Answer(valid=valid, action=action, penalty=penalty, critique="So\nit is.")


@pytest.mark.parametrize(
    ("said", "by_rules", "impossible", "kind"),
    [
        (answer(True, "WAIT", 0.0), LEGAL, False, None),
        (answer(False, "MOVE EAST", -1.0), ILLEGAL, False, None),
        (answer(False, "WAIT", 0.0), LEGAL, False, "calls a legal move illegal"),
        (answer(True, "MOVING", 0.0), ILLEGAL, True, "calls an illegal move legal"),
        (answer(False, "FLY HOME", -1.5), ILLEGAL, True, "proposes an illegal action"),
        (answer(False, "WAIT", -1.5), ILLEGAL, False, "another correction"),
        (answer(True, "WAIT", -1.0), LEGAL, False, "another penalty"),
        (answer(False, "MOVE EAST", -99.0), ILLEGAL, False, "another penalty"),
    ],
)
def test_the_gravest_difference_names_the_dispute(
    said: Answer, by_rules: Verdict, impossible: bool, kind: str | None
) -> None:
    found = dispute(said, by_rules, impossible=impossible)
    assert (found.kind if found else None) == kind
    if found:
        assert found.model.penalty >= -5.0 and found.model.remark == "So it is."
        assert (found.rules.valid, found.rules.action) == (by_rules.valid, by_rules.action)


def test_the_report_counts_everything_and_keeps_the_first_examples() -> None:
    report = Agreement()
    report.add("rules", None)
    disputed = dispute(answer(False, "WAIT", -1.5), ILLEGAL)
    for number in range(EXAMPLES + 2):
        report.add("teacher", disputed, ({"role": "user", "content": f"situation {number}"},), "ACTION: MOVING")
    found = pickle.loads(pickle.dumps(report)).report()
    assert found["judged_by"] == {"rules": 1, "teacher": EXAMPLES + 2}
    assert found["disputes"]["another correction"]["count"] == EXAMPLES + 2
    examples = found["disputes"]["another correction"]["examples"]
    assert [one["situation"] for one in examples] == [f"situation {number}" for number in range(EXAMPLES)]
    assert examples[0]["model"]["action"] == "WAIT" and examples[0]["rules"]["action"] == "MOVE EAST"
    assert json.loads(json.dumps(found)) == found
