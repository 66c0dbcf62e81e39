"""A tree of decision processes as text and as a picture (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ldm.explore.refine import Tree
from ldm.explore.tree import TreeNode, path_to
from ldm.text import printable

#: Fates that no decision process passes through.
NO_PROCESS = ("pruned", "invalid", "merged")
#: How fates are shown; an inner node needs no word.
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
#: Pruned siblings that are named; the others are counted.
NAMED_SIBLINGS = 3
#: Pixels of the picture: a level's width, a row's height, a letter's width.
LEVEL, ROW, LETTER = 150, 20, 6.2


def text(tree: Tree, *, observations: bool = False) -> Iterator[str]:
    """Yield the tree in lines: a path goes straight down, and each further branch is indented.

    `*` marks P*. A line shows the action, its confidence where that is below 1, that of the path,
    and the node's fate.
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


def svg(tree: Tree, title: str) -> str:
    """Return the tree as a picture: levels from left to right, P* bold, pruned nodes grey."""
    rows = _rows(tree.nodes)
    best = {node.number for node in path_to(tree.nodes, tree.nodes[tree.best])} if rows else set()
    depth = max((node.depth for node in tree.nodes), default=0)
    width, height = (depth + 3) * LEVEL, (max(rows.values(), default=0) + 3) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="16" font-size="13">{_escaped(title)}</text>',
    ]
    for node in tree.nodes[1:]:
        parts += _edge(node, tree.nodes[node.parent], rows, node.number in best)
    for node in tree.nodes:
        parts += _mark(tree, node, rows[node.number], node.number in best)
    return "\n".join([*parts, "</svg>", ""])


def _rows(nodes: Sequence[TreeNode]) -> dict[int, int]:
    """Return a row for each node: that of its first child; each leaf starts a new row."""
    children: dict[int, list[int]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node.number)
    rows: dict[int, int] = {}
    next_row = 0
    stack = children.get(-1, [])[:]
    order = []
    while stack:
        number = stack.pop()
        order.append(number)
        # Tried children come first, so that a path goes straight on.
        tried = sorted(children.get(number, []), key=lambda n: nodes[n].fate == "pruned")
        stack += reversed(tried)
        if not tried:
            rows[number] = next_row
            next_row += 1
    for number in reversed(order):
        if number not in rows:
            rows[number] = min(rows[child] for child in children[number])
    return rows


def _place(node: TreeNode, row: int) -> tuple[float, float]:
    return 20 + node.depth * LEVEL, 40 + row * ROW


def _edge(node: TreeNode, parent: TreeNode, rows: dict[int, int], bold: bool) -> list[str]:
    x1, y1 = _place(parent, rows[parent.number])
    x2, y2 = _place(node, rows[node.number])
    colour = "#bbb" if node.fate in NO_PROCESS else "#1f6f43" if bold else "#555"
    return [
        f'<path d="M{x1:g} {y1:g} C{x1 + 30:g} {y2:g} {x1 + 10:g} {y2:g} {x2:g} {y2:g}" '
        f'fill="none" stroke="{colour}" stroke-width="{2.5 if bold else 1}"/>'
    ]


def _mark(tree: Tree, node: TreeNode, row: int, bold: bool) -> list[str]:
    x, y = _place(node, row)
    is_grey = node.fate in NO_PROCESS
    colour = "#999" if is_grey else "#1f6f43" if bold else "#222"
    label = "" if not node.number else f"{node.action} {node.confidence:.2f}"
    if node.number and node.fate not in ("grown", "pruned"):
        label += f" [{FATES[node.fate]} {node.score:.2f}]"
    is_key = tree.improved and bold and node.depth == tree.key + 1
    parts = [f'<circle cx="{x:g}" cy="{y:g}" r="{6 if is_key else 3}" fill="{colour}"/>']
    if is_key:
        label = f"KEY STEP {label}"
    space = int((LEVEL - 12) / LETTER)
    fits = len(label) <= space or not _has_children(tree, node)
    visible = label if fits else label[:space] + "…"
    parts.append(
        f'<text x="{x + 5:g}" y="{y - 5:g}" fill="{colour}">{_escaped(visible)}'
        f"<title>{_escaped(label)}</title></text>"
    )
    return parts


def _has_children(tree: Tree, node: TreeNode) -> bool:
    return any(child.parent == node.number for child in tree.nodes)


def _escaped(text: str) -> str:
    """Return `text` for a picture: XML has no control characters."""
    return escape(printable(text))


def _line(text: str, length: int = 140) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length] + "…"
