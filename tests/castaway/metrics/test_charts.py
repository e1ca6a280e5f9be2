"""The picture of shares by group and player."""

from xml.etree import ElementTree

from castaway.metrics.charts import COLOURS, HEIGHT, TOP, grouped_bars

NAMESPACE = {"svg": "http://www.w3.org/2000/svg"}


def figures(share: float) -> dict[str, float]:
    return {"success_rate": share, "success_rate_low": share - 0.1, "success_rate_high": share + 0.1}


def test_a_bar_for_every_share_with_its_interval() -> None:
    groups = {"go <3x3>": {"random": figures(0.5), "final": figures(0.75)}, "nim": {"final": figures(0.25)}}
    text = grouped_bars(groups, "success_rate")
    assert text == grouped_bars(groups, "success_rate")
    picture = ElementTree.fromstring(text)
    bars = [bar for bar in picture.findall("svg:rect", NAMESPACE) if bar.get("width") == "8"]
    assert [float(str(bar.get("height"))) / HEIGHT for bar in bars] == [0.5, 0.75, 0.25]
    assert [bar.get("fill") for bar in bars] == [COLOURS[0], COLOURS[1], COLOURS[1]]
    intervals = [line for line in picture.findall("svg:line", NAMESPACE) if line.get("stroke") == "black"]
    ends = [
        tuple(round(1 - (float(str(line.get(end))) - TOP) / HEIGHT, 3) for end in ("y1", "y2")) for line in intervals
    ]
    assert ends == [(0.6, 0.4), (0.85, 0.65), (0.35, 0.15)]
    assert {"go <3x3>", "nim", "random", "final", "50 %"} <= {label.text for label in picture.iter() if label.text}


def test_nothing_to_show_is_an_empty_picture() -> None:
    assert ElementTree.fromstring(grouped_bars({}, "success_rate")) is not None
