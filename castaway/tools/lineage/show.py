"""An ancestry as text, as JSON, and as a page."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from castaway.tools.lineage.ancestry import Ancestor

WIDTH = 2000
"""Characters of a line at most. It may be wider than the screen, but nothing is cut and hashes can be copied."""
SHOWN = 8
"""Parameters and figures that one line names; `--json` has all of them."""
OLDER = "made before the one that is there now; run unknown"


@dataclass(frozen=True)
class Node:
    """An artifact in the tree."""

    path: str
    md5: str
    ancestor: Ancestor | None
    """None for an input that was replaced since: what made it is not known."""
    again: bool
    """Whether it was shown before, with its ancestors."""
    inputs: Sequence[Node]

    @property
    def made(self) -> str:
        """By which run, from which commit and when; in words if that is not known."""
        if self.ancestor is None:
            return OLDER
        one = self.ancestor
        if not one.began:
            return "run unknown"
        revision, _, dirty = one.commit.partition("+")
        commit = f"{revision[:10]}{'+dirty' if dirty else ''}"
        other = "" if one.exact else "  (with other inputs, but the same outputs)"
        return f"run {one.run or 'none'}  commit {commit}  {one.began}{other}"

    @property
    def params(self) -> str:
        """The parameters that differ from the last commit's."""
        changed = self.ancestor.params if self.ancestor else {}
        return _some([f"{key} {made} instead of {shipped}" for key, (shipped, made) in changed.items()])

    @property
    def metrics(self) -> str:
        """The figures of the stage."""
        found = self.ancestor.metrics if self.ancestor else {}
        # A count in full: 12000, and not 1.2e+04.
        return _some([f"{key} {value if isinstance(value, int) else f'{value:.4g}'}" for key, value in found.items()])


def grow(ancestors: Sequence[Ancestor]) -> Node:
    """The tree of an ancestry, its first stage at the root; what occurs again is there without its inputs."""
    by_stage = {one.stage: one for one in ancestors}
    shown: set[str] = set()

    def node(one: Ancestor) -> Node:
        again = one.stage in shown
        shown.add(one.stage)
        inputs = [] if again else [child(one, path, md5) for path, md5 in one.inputs.items()]
        return Node(one.artifact, one.outputs.get(one.artifact, ""), one, again, inputs)

    def child(one: Ancestor, path: str, md5: str) -> Node:
        if path in one.makers:
            return node(by_stage[one.makers[path]])
        return Node(path, md5, None, False, [])

    return node(ancestors[0])


def text(root: Node) -> str:
    """The tree as lines."""

    def branch(node: Node, above: Tree | None = None) -> Tree:
        label = Text(f"{node.path} (see above)" if node.again else f"{node.path}  md5 {node.md5}  {node.made}")
        if not node.again:
            label.append("".join(f"\n  {line}" for line in _details(node)))
        twig = Tree(label) if above is None else above.add(label)
        for one in node.inputs:
            branch(one, twig)
        return twig

    console = Console(width=WIDTH, file=io.StringIO(), no_color=True)
    with console.capture() as captured:
        console.print(branch(root), soft_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def as_json(ancestries: Sequence[Sequence[Ancestor]]) -> str:
    """One list for each target that was found: its stages, nearest first."""
    return json.dumps([[asdict(one) for one in ancestors] for ancestors in ancestries], indent=2, ensure_ascii=False)


def page(roots: Sequence[Node], title: str) -> str:
    """The trees as one HTML file that needs no other."""
    # What a record or a parameter says is text, never markup.
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("page.html.jinja").render(title=title, roots=roots)


def _details(node: Node) -> list[str]:
    pairs = {"params": node.params, "metrics": node.metrics}
    return [f"{name}: {value}" for name, value in pairs.items() if value]


def _some(parts: Sequence[str]) -> str:
    more = len(parts) - SHOWN
    return ", ".join(parts[:SHOWN]) + (f" and {more} more" if more > 0 else "")
