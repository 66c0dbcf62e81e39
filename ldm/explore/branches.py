"""The tree of an exploration as reports draw it."""

from __future__ import annotations

from ldm.episode import FULL_SCORE
from ldm.explore.refine import Tree
from ldm.explore.tree import TreeNode, path_to
from ldm.explore.tree_text import FATES, NO_PROCESS
from ldm.reporting import Branch, BranchState


def branches(tree: Tree) -> tuple[Branch, ...]:
    """Return the nodes, each before its children.

    Of siblings the chosen one, on P*, comes first, and untried ones last. The key step is the first
    of P* that is remembered.
    """
    if not tree.nodes:
        return ()
    chosen = {node.number for node in path_to(tree.nodes, tree.nodes[tree.best])}
    below: dict[int, list[TreeNode]] = {}
    for node in tree.nodes:
        below.setdefault(node.parent, []).append(node)
    result: list[Branch] = []
    stack = [tree.nodes[0]]
    while stack:
        node = stack.pop()
        result.append(_branch(tree, node, node.number in chosen))
        children = sorted(
            below.get(node.number, ()),
            key=lambda one: (one.fate == "pruned", one.number not in chosen),
        )
        stack += reversed(children)
    return tuple(result)


def _branch(tree: Tree, node: TreeNode, chosen: bool) -> Branch:
    figures = {}
    if node.number:
        figures["confidence"] = f"{node.confidence:.2f}"
        if node.path_confidence < node.confidence:
            figures["of the path"] = f"{node.path_confidence:.2g}"
    if node.fate not in ("grown", *NO_PROCESS):
        figures["score"] = f"{node.score:.2f}"
    return Branch(
        node.depth,
        node.action or "the opening",
        _state(node),
        FATES[node.fate],
        figures,
        chosen,
        key=chosen and tree.improved and node.depth == tree.key + 1,
        texts={"observation": node.observation} if node.observation else {},
    )


def _state(node: TreeNode) -> BranchState:
    match node.fate:
        case "pruned" | "merged":
            return "pruned"
        case "invalid" | "dead end":
            return "failed"
        case "done":
            return "done" if node.score >= FULL_SCORE else "failed"
    return ""
