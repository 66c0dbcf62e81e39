"""Render a page as an observation: the official modes `text` and `text_rich`, two in brackets.

`bracket` is that of ReAct's prompts, where a chosen option answers with a line alone; `page` that
of LDM²'s (arXiv 2312.08402, Table 5), where the whole page stays above these lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from ldm.envs.webshop.pages import Node, Session
from ldm.types import Step, Trajectory

Mode = Literal["bracket", "page", "text", "text_rich"]

#: The answer of the published runners to an action without effect.
INVALID = "Invalid action!"
CLICKED = "You have clicked {}."
_CLICKED = re.compile(re.escape(CLICKED).replace(r"\{\}", "(.*)"))


def render(session: Session, page: Iterable[Node], mode: Mode) -> str:
    """Return the open page as text in the given mode."""
    modes = {"bracket": bracket, "page": whole, "text": text, "text_rich": text_rich}
    return modes[mode](session, page)


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


def whole(session: Session, page: Iterable[Node]) -> str:
    """Return the page in brackets, and below it the chosen options."""
    return _with_clicks(bracket(session, page))


def _with_clicks(page: str, *values: str) -> str:
    """Return a page in brackets with a line for each chosen option: those marked, then `values`.

    Of the options on one line of the page only the last one chosen counts.
    """
    unmarked = re.sub(r"\[\[(.*?)\]\]", r"[\1]", page)
    chosen: dict[str, str] = {}
    for value in (*re.findall(r"\[\[(.*?)\]\]", page), *values):
        line = next((one for one in unmarked.splitlines() if f"[{value}]" in one), value)
        chosen.pop(line, None)
        chosen[line] = value
    return "\n".join([unmarked, *map(CLICKED.format, chosen.values())])


def with_pages(recorded: Trajectory) -> Trajectory:
    """Return an episode recorded in the form `bracket` in the form `page`.

    Where the page was not recorded, nothing is: the line alone does not say what was seen.
    """
    page, values, steps = recorded.opening, list[str](), list[Step]()
    for step in recorded.steps:
        if match := _CLICKED.fullmatch(step.observation):
            values.append(match[1])
        elif step.action and step.observation != INVALID:
            page, values = step.observation, []
        refusal = [INVALID] if step.observation == INVALID else []
        observation = "\n".join([_with_clicks(page, *values), *refusal]) if page else ""
        steps.append(replace(step, observation=observation) if step.action else step)
    return replace(recorded, steps=tuple(steps))
