"""Every step that the official environment took, with what it was served."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ldm.envs.hotpotqa.world import (
    FINISHED,
    MAY_REFER,
    SHOWN,
    Ambiguous,
    Page,
    Reading,
    Similar,
    apply_action,
)
from tests.envs.hotpotqa.conftest import lines


class Served:
    """A collection that answers what the official environment was served at one step."""

    def __init__(self, served: list[dict[str, Any]]) -> None:
        self.served = served

    def ask(self, query: str) -> Page | Similar | Ambiguous:
        first, *again = self.served
        if first["kind"] == "results":
            return Similar(tuple(first["titles"]))
        paragraphs = tuple(first["paragraphs"])
        if any(MAY_REFER in text for text in paragraphs):
            return Ambiguous(tuple(again[0]["titles"]))
        return Page.of(paragraphs)


def has_backslash(step: dict[str, Any]) -> bool:
    """Return whether the official code read a backslash as an escape, or crashed on it."""
    served = step.get("served", ())
    texts = (
        text for one in served for text in [*one.get("paragraphs", ()), *one.get("titles", ())]
    )
    return "exception" in step or any("\\" in text for text in texts)


def test_every_official_step_replays(golden: Path) -> None:
    steps = Counter[str]()
    for episode in lines(golden / "episodes.jsonl.gz"):
        reading = Reading()
        for place, step in enumerate(episode["steps"]):
            if has_backslash(step):  # our texts keep it: the states are different from here on
                steps["behind a backslash"] += len(episode["steps"]) - place
                break
            reply = apply_action(step["action"], reading, Served(step.get("served", [])))
            if step["done"]:  # the official answer, repeated for ever, contains the reward
                assert (reply.text, reply.answer) == (FINISHED, step["info"]["answer"])
                steps["from finish on"] += len(episode["steps"]) - place
                break
            reading = reply.reading
            where = (episode["line"], step["action"])
            assert reply.text == step["observation"], where
            assert reply.valid != reply.text.startswith("Invalid action: "), where
            assert state(reading) == step["state"], where
            steps["equal"] += 1
    assert steps.total() == 3_365
    assert steps["equal"] >= 2_700, steps
    assert steps["behind a backslash"] <= 150, steps


def state(reading: Reading) -> dict[str, Any]:
    return {
        "page": reading.page is not None,
        "keyword": reading.keyword,
        "found": None if reading.keyword is None else len(reading.matches),
        "next": None if reading.keyword is None else reading.following,
    }


def test_every_official_page_is_divided_alike(golden: Path) -> None:
    counts = Counter[str]()
    for row in lines(golden / "pages.jsonl"):
        if "exception" in row or any("\\" in text for text in row["paragraphs"]):
            counts["backslash"] += 1
            continue
        counts["equal"] += 1
        if any(MAY_REFER in text for text in row["paragraphs"]):
            assert row["ambiguous"]
            continue
        page = Page.of(tuple(row["paragraphs"]))
        assert list(page.sentences) == row["sentences"], row["title"]
        assert " ".join(page.sentences[:SHOWN]) == row["observation"]
    assert counts["equal"] > 100
    assert counts["backslash"] < 20


def test_a_miss_keeps_what_is_open() -> None:
    page = Page.of(("One two three. Four five six.",))
    reading = apply_action("lookup[four]", Reading(page), Served([])).reading
    missed = Served([{"kind": "results", "titles": ["A", "B's", 'C "d"']}])
    reply = apply_action("search[x]", reading, missed)
    assert reply.text == "Could not find x. Similar: ['A', \"B's\", 'C \"d\"']."
    assert reply.reading == reading
    assert apply_action("lookup[four]", reading, missed).text == "No more results.\n"
    assert apply_action("lookup[Four]", reading, missed).text == "(Result 1 / 1) Four five six.."
