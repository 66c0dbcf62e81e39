"""The tree of an exploration, for reports and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ldm.episode import FULL_SCORE
from ldm.explore.refine import Tree
from ldm.explore.tree import NO_PROCESS, Fate, TreeNode
from ldm.reporting import LONGEST, Branch, BranchState

#: Fate → its name and the state of the branch; a task that ended with less has failed.
FATES: dict[Fate, tuple[str, BranchState]] = {
    "grown": ("", ""),
    "pruned": ("pruned", "pruned"),
    "done": ("task ended", "done"),
    "depth": ("depth reached", ""),
    "over": ("search over", ""),
    "dead end": ("dead end", "failed"),
    "invalid": ("refused", "failed"),
    "merged": ("seen before", "pruned"),
}


def branches(tree: Tree) -> tuple[Branch, ...]:
    """Return the nodes, each before its children.

    Of siblings the chosen one, on P*, comes first, and untried ones last. The key step is the first
    of P* that is remembered.
    """
    return tuple(branch for _, branch in _drawn(tree))


def text(tree: Tree, *, observations: bool = False) -> Iterator[str]:
    """Yield the tree in lines: a path goes straight down, and each further branch is indented.

    `*` marks P*. A line shows the action, its confidence, and the node's fate.
    """
    if not tree.nodes:
        yield f"The first try has the full score ({tree.ground.score:.2f}): no tree was grown."
    tried = Counter(node.parent for node in tree.nodes if node.fate != "pruned")
    indents = {-1: ""}
    for node, branch in _drawn(tree):
        indent = indents[node.parent]
        indents[node.number] = indent + "  | " * (tried[node.number] > 1)
        notes = [*(f"{name} {figure}" for name, figure in branch.figures.items()), branch.words]
        ended = f"  [{', '.join(filter(None, notes))}]" if any(notes) else ""
        key = "  <- key step: remembered from here" * branch.key
        yield f"{indent}{'*' if branch.chosen else '-'} {node.depth:>2} {branch.text}{ended}{key}"
        if node.observation and (observations or not node.number):
            yield f"{indent}      {' '.join(node.observation.split())[:LONGEST]}"


def _drawn(tree: Tree) -> Iterator[tuple[TreeNode, Branch]]:
    chosen = {node.number for node in tree.path}
    below: dict[int, list[TreeNode]] = {}
    for node in tree.nodes:
        below.setdefault(node.parent, []).append(node)
    stack = [*tree.nodes[:1]]
    while stack:
        node = stack.pop()
        yield node, _branch(tree, node, node.number in chosen)
        children = sorted(
            below.get(node.number, ()),
            key=lambda one: (one.fate == "pruned", one.number not in chosen),
        )
        stack += reversed(children)


def _branch(tree: Tree, node: TreeNode, chosen: bool) -> Branch:
    figures = {}
    if node.number:
        figures["confidence"] = f"{node.confidence:.2f}"
        if node.path_confidence < node.confidence:
            figures["of the path"] = f"{node.path_confidence:.2g}"
    if node.fate not in ("grown", *NO_PROCESS):
        figures["score"] = f"{node.score:.2f}"
    words, state = FATES[node.fate]
    return Branch(
        node.depth,
        node.action or "the opening",
        "failed" if state == "done" and node.score < FULL_SCORE else state,
        words,
        figures,
        chosen,
        key=chosen and tree.improved and node.depth == tree.key + 1,
        texts={"observation": node.observation} if node.observation else {},
    )
