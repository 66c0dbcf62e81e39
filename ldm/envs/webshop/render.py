"""Render a page as an observation: in the official modes `text` and `text_rich`, and `bracket`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ldm.envs.webshop.pages import Node, Session

Mode = Literal["bracket", "text", "text_rich"]

#: The answer of the published runners to an action without effect.
INVALID = "Invalid action!"


def render(session: Session, page: Iterable[Node], mode: Mode) -> str:
    """Return the open page as text in the given mode."""
    return {"bracket": bracket, "text": text, "text_rich": text_rich}[mode](session, page)


def text(session: Session, page: Iterable[Node]) -> str:
    """Return all texts of the page, stripped and joined by [SEP]."""
    return " [SEP] ".join(node.text.strip() for node in page if node.text)


def text_rich(session: Session, page: Iterable[Node]) -> str:
    """Return the texts of the page, one per line, with marks for clickable and clicked ones."""
    url = session.url
    lines, clicked = [], []
    for node in page:
        match node.kind:
            case "button":
                lines.append(f"[button] {node.text} [button_]\n")
            case "option":
                # The official code looks up in the URL whether it was clicked (28).
                if f'"{node.text}"' in url:
                    clicked.append(f"You have clicked {node.text}.\n")
                    lines.append(f"  [clicked button] {node.text} [clicked button_]\n")
                elif node.text:
                    lines.append(f"  [button] {node.text} [button_]\n")
            case "link":
                mark = "clicked button" if node.text in session.visited else "button"
                lines.append(f"\n[{mark}] {node.text} [{mark}_]\n")
            case _:
                lines.append(f"{node.text}\n")
    return "".join([*reversed(clicked), *lines])


def bracket(session: Session, page: Iterable[Node]) -> str:
    """Return the compact form of the published ReAct prompts (Yao et al., arXiv 2210.03629).

    Only the search page has the instruction; a chosen option has double brackets.
    """
    options = set(session.options)
    pieces = []
    nodes = list(page)
    if session.page != "index":
        nodes = nodes[next(i for i, node in enumerate(nodes) if node.kind != "text") :]
    for node in nodes:
        match node.kind:
            case "button" | "link":
                pieces.append(f"\n[{node.text}] ")
            case "option":
                is_chosen = (node.group, node.text) in options
                pieces.append(f"[[{node.text}]]" if is_chosen else f"[{node.text}]")
            case _:
                words = "Webshop" if node.text == "WebShop" else node.text
                pieces.append(f"\n{words} " if words.strip() else "")
    return "".join(pieces).removeprefix("\n")
