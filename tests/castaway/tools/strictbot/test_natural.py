"""The table of the hand-written questions."""

from castaway.tools.strictbot.natural import figures


def test_the_shares_by_hand() -> None:
    asked = [(3, 3, True), (3, 3, False), (2, 1, True), (1, 0, False)]
    cells = figures([dict(zip(("wanted", "produced", "factual"), values, strict=True)) for values in asked])
    assert [cell.split(" (")[0] for cell in cells] == ["25.0 %", "50.0 %", "50.0 %"]
