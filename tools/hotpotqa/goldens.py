"""The steps that the official environment took, replayed with the pages that it was served."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ldm.worlds.hotpotqa.world import FINISHED, MAY_REFER, Miss, Page, Reading, apply_action

#: equal: answer and state are. finish: the official answer, then repeated for ever, tells the
#: reward, ours does not. backslash: the official code read one as an escape, in this step or in one
#: before, since when no page was opened. different: not as it should be.
Category = Literal["equal", "finish", "backslash", "different"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recorded step beside ours. kind: of its episode. where: file line and action."""

    kind: str
    category: Category
    where: str
    expected: object = None
    actual: object = None


class Served:
    """A collection that answers what the official environment was served at one step."""

    def __init__(self, served: list[dict[str, Any]]) -> None:
        self.served = served

    def ask(self, query: str) -> Page | Miss:
        """Return what was served, whatever the query."""
        first, *again = self.served
        if first["kind"] == "results":
            return Miss(tuple(first["titles"]))
        paragraphs = tuple(first["paragraphs"])
        if any(MAY_REFER in text for text in paragraphs):
            return Miss(tuple(again[0]["titles"]), ambiguous=True)
        return Page.of(paragraphs)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSONL file, plain or compressed."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def compare(golden: Path) -> Iterator[Comparison]:
    """Yield a comparison for every recorded step of a folder of golden outputs."""
    for episode in lines(golden / "episodes.jsonl.gz"):
        reading: Reading | None = Reading()
        finished: str | None = None
        for step in episode["steps"]:
            kind, where = episode["kind"], f"{episode['line']}: {step['action']}"
            if reading is None and _opens_page(step):
                reading = Reading()  # a page that is opened takes the place of all that was
            if finished is not None:
                yield Comparison(kind, "finish", where)
            elif reading is None or _has_backslash(step):
                # Our texts keep a backslash: the states are different until a page is opened.
                reading = None
                yield Comparison(kind, "backslash", where)
            else:
                reply = apply_action(step["action"], reading, Served(step.get("served", [])).ask)
                reading = reply.reading
                expected: object
                actual: object
                if step["done"]:
                    finished = step["info"]["answer"]
                    equal: Category = "finish"
                    expected, actual = (FINISHED, finished), (reply.text, reply.answer)
                else:
                    equal = "equal"
                    valid = not reply.text.startswith("Invalid action: ")
                    expected = (step["observation"], valid, step["state"])
                    actual = (reply.text, reply.valid, _state(reading))
                category = equal if expected == actual else "different"
                yield Comparison(kind, category, where, expected, actual)


def _has_backslash(step: dict[str, Any]) -> bool:
    """Return whether the official code read a backslash as an escape, or crashed on it."""
    texts = (
        text
        for one in step.get("served", ())
        for text in [*one.get("paragraphs", ()), *one.get("titles", ())]
    )
    return "exception" in step or any("\\" in text for text in texts)


def _opens_page(step: dict[str, Any]) -> bool:
    """Return whether a step opened an article in which no backslash stands."""
    served = step.get("served") or [{}]
    return served[0].get("kind") == "page" and not _has_backslash(step)


def _state(reading: Reading) -> dict[str, Any]:
    """Return our state in the words of the goldens."""
    searching = reading.keyword is not None
    return {
        "page": reading.page is not None,
        "keyword": reading.keyword,
        "found": len(reading.matches) if searching else None,
        "next": reading.following if searching else None,
    }
