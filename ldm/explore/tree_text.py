"""Print a tree of decision processes as text."""

from __future__ import annotations

from collections.abc import Iterator

from ldm.explore.refine import Tree
from ldm.explore.tree import TreeNode, path_to

#: Fates of nodes that belong to no decision process.
NO_PROCESS = ("pruned", "invalid", "merged")
#: Fate → its name; "" for inner nodes.
FATES = {
    "grown": "",
    "pruned": "pruned",
    "done": "task ended",
    "depth": "depth reached",
    "over": "search over",
    "dead end": "dead end",
    "invalid": "refused",
    "merged": "seen before",
}
#: Pruned siblings that are listed; the others are counted.
NAMED_SIBLINGS = 3


def text(tree: Tree, *, observations: bool = False) -> Iterator[str]:
    """Yield the tree in lines: a path goes straight down, and each further branch is indented.

    `*` marks P*. A line shows the action, its confidence and that of the path if below 1, and the
    node's fate.
    """
    if not tree.nodes:
        yield f"The first try has the full score ({tree.ground.score:.2f}): no tree was grown."
        return
    yield f"opening: {_line(tree.nodes[0].observation)}"
    yield from _below(tree, tree.nodes[0], "", observations)


def _below(tree: Tree, root: TreeNode, indent: str, observations: bool) -> Iterator[str]:
    best = {node.number for node in path_to(tree.nodes, tree.nodes[tree.best])}
    stack = [(root, indent)]
    while stack:
        node, indent = stack.pop()
        if node.number:
            yield indent + _described(tree, node, best)
            if observations and node.observation:
                yield f"{indent}      {_line(node.observation)}"
        children = [child for child in tree.nodes if child.parent == node.number]
        tried = [child for child in children if child.fate != "pruned"]
        pruned = [child for child in children if child.fate == "pruned"]
        if pruned:
            names = ", ".join(f"{n.action} ({n.confidence:.2f})" for n in pruned[:NAMED_SIBLINGS])
            unnamed = len(pruned) - NAMED_SIBLINGS
            more = f" and {unnamed} more" if unnamed > 0 else ""
            yield f"{indent}    pruned: {names}{more}"
        deeper = indent + "  | " if len(tried) > 1 else indent
        stack += [(child, deeper) for child in reversed(tried)]


def _described(tree: Tree, node: TreeNode, best: set[int]) -> str:
    mark = "*" if node.number in best else "-"
    words = [f"{mark} {node.depth:>2} {node.action}"]
    if node.confidence < 1:
        words.append(f"{node.confidence:.2f}, path {node.path_confidence:.2g}")
    if FATES[node.fate]:
        score = "" if node.fate in NO_PROCESS else f", score {node.score:.2f}"
        words.append(f"[{FATES[node.fate]}{score}]")
    if tree.improved and node.number in best and node.depth == tree.key + 1:
        words.append("<- key step: remembered from here")
    return "  ".join(words)


def _line(text: str, length: int = 140) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length] + "…"
