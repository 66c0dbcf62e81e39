"""Logs of people shopping become trajectories whose clicks lead from page to page."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ldm import records
from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.records import Problem
from ldm.types import Trajectory
from ldm.worlds.webshop.environment import OWN_DATA
from ldm.worlds.webshop.pages import SUB_PAGES
from tests.conftest import CHECKOUT

GOAL = {"asin": "B000000001", "instruction_text": "a red lamp", "attributes": ["red"]}
SHIPPED = CHECKOUT / "data/trajectories/webshop/demo_train.jsonl.gz"


def event(page: str, *path: object, name: str = "s1", **fields: Any) -> dict[str, Any]:
    """One line of a log."""
    place = [name, *path] if page == "index" else [page, name, *path]
    url = "http://host:3000/" + "/".join(quote(str(part), safe="") for part in place)
    return {"page": page, "url": url, "goal": GOAL, **fields}


def results(query: str, asins: list[str], page: int = 1, **more: Any) -> dict[str, Any]:
    words = query.split(" ")
    content = {"keywords": words, "search_result_asins": asins, "page": page}
    return event("search_results", words, page, content=content, **more)


def item(query: str, asin: str, options: Any = None, page: int = 1, sub: str = "") -> Any:
    words = str(query.split(" "))
    content = {"keywords": words, "page": str(page), "asin": asin, "options": options or {}}
    if sub:
        return event("item_sub_page", asin, words, page, sub, "{}", content=content)
    return event("item_page", asin, words, page, "{}", content=content)


def purchase(asin: str, options: dict[str, str] | None = None, reward: Any = 0.5) -> dict[str, Any]:
    content = {"asin": asin, "options": options or {}, "price": 9.5}
    return event("done", asin, "{}", content=content, reward=reward)


def log(folder: Path, *events: Any, name: str = "log.jsonl") -> Path:
    lines = (e if isinstance(e, str) else json.dumps(e) for e in events)
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def read(path: Path, data: str | None = None) -> list[Trajectory | Problem]:
    assert formats.format_of(path) == "webshop-sessions"
    return list(formats.read(path, "webshop-sessions", Assumed(data=data)))


def actions(trajectory: Trajectory | Problem) -> list[str]:
    assert isinstance(trajectory, Trajectory), trajectory
    return [step.action for step in trajectory.steps]


A, B = "B000000001", "B000000002"


def test_clicks_are_inferred_from_the_pages(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        event("index"),
        results("red lamp", [A, B]),
        results("red lamp", [B], page=2),
        item("red lamp", B, page=2),
        item("red lamp", B, page=2, sub="Features"),
        item("red lamp", B, page=2),
        item("red lamp", B, {"color": "red"}, page=2),
        results("red lamp", [B], page=2),
        event("index"),
        results("lamp", [A]),
        item("lamp", A),
        purchase(A, {"size": "small"}, reward=1.0),
    )
    (trajectory,) = read(path)
    assert actions(trajectory) == [
        "search[red lamp]", "click[Next >]", f"click[{B}]", "click[Features]", "click[< Prev]",
        "click[red]", "click[< Prev]", "click[Back to Search]", "search[lamp]", f"click[{A}]",
        "click[small]", "click[Buy Now]",
    ]  # fmt: skip
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.score, trajectory.success, trajectory.origin) == (1.0, True, "human")
    assert trajectory.task.goal == "a red lamp"
    assert trajectory.task.leak_key == A
    assert [step.reward for step in trajectory.steps] == [0.0] * 11 + [1.0]
    assert trajectory.opening == "Webshop \nInstruction:  \na red lamp \n[Search] "
    # Without a catalogue only the search page is known.
    assert {s.observation for s in trajectory.steps if s.action != "click[Back to Search]"} == {""}


def test_a_jump_through_the_browsers_history_is_told_as_clicks(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        event("index"),
        item("red lamp", A, page=3),
        item("red lamp", B, page=3),
        purchase(B),
    )
    (trajectory,) = read(path)
    assert actions(trajectory) == [
        "search[red lamp]", "click[Next >]", "click[Next >]", f"click[{A}]", "click[< Prev]",
        f"click[{B}]", "click[Buy Now]",
    ]  # fmt: skip


def test_reloads_and_what_follows_the_purchase_add_nothing(tmp_path: Path) -> None:
    pages = [event("index"), results("lamp", [A]), item("lamp", A)]
    path = log(tmp_path, *(page for page in pages for _ in range(2)), purchase(A), event("index"))
    (trajectory,) = read(path)
    assert actions(trajectory) == ["search[lamp]", f"click[{A}]", "click[Buy Now]"]


def test_sessions_are_told_apart_and_may_end_without_a_purchase(tmp_path: Path) -> None:
    other = event("index", name="s2")
    path = log(tmp_path, event("index"), other, results("lamp", [A]), results("tea", [], name="s2"))
    first, second = read(path)
    assert actions(first) == ["search[lamp]"]
    assert actions(second) == ["search[tea]"]
    assert isinstance(first, Trajectory)
    assert (first.task.id, first.score, first.success) == ("human/s1", 0.0, False)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{torn", "log.jsonl:2: not JSON"),
        ("[1]", "log.jsonl:2: Input should be an object"),
        ({**results("x", [A]), "page": "shelf"}, "log.jsonl:2:page: Input should be 'index'"),
        ({**results("x", [A]), "goal": 3}, "log.jsonl:2:goal: Input should be an object"),
        ({**results("x", [A]), "goal": {}}, "log.jsonl:2:goal.instruction_text: Field required"),
        ({**results("x", [A]), "content": None}, "log.jsonl:2:content.keywords: missing"),
        ({**results("x", [A]), "url": "http://host/"}, "log.jsonl:2:url: has no session"),
        (results("x", [A], page=0), "log.jsonl:2:content.page: Input should be greater"),
        (results("x", [A], page=10**9), "log.jsonl:2:content.page: Input should be less"),
        (results("x", [7]), "log.jsonl:2:content.search_result_asins.0: Input"),  # type: ignore[list-item]
        (purchase(A, reward=None), "log.jsonl:2:reward: missing"),
        (purchase(A, reward=1.5), "log.jsonl:2:reward: Input should be less than or equal to 1"),
        (purchase(A, reward=float("nan")), "log.jsonl:2:reward: Input should be a finite number"),
    ],
)
def test_a_bad_line_is_named_and_loses_one_session(tmp_path: Path, bad: Any, message: str) -> None:
    good = event("index", name="s2"), results("tea", [], name="s2")
    entries = read(log(tmp_path, event("index"), bad, *good))
    problem, trajectory = entries
    assert str(problem).removeprefix(f"{tmp_path}/").startswith(message)
    assert actions(trajectory) == ["search[tea]"]


def events_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    """A session as the official site would have logged it."""
    events = [event("index")]
    query, page, asin, options = "", 1, "", dict[str, str]()
    groups: dict[str, str] = {}
    for step in trajectory.steps:
        verb, _, label = step.action.rstrip("]").partition("[")
        observation = step.observation
        asins = re.findall(r"^\[([A-Z0-9]{10})\]", observation, re.MULTILINE)
        if verb == "search" or "Page " in observation:
            query, asin, options = (label if verb == "search" else query), "", {}
            number = re.search(r"Page (\d+)", observation)
            page = int(number[1]) if number else 1
            events.append(results(query, asins, page))
        elif label == "Buy Now":
            events.append(purchase(asin, options, trajectory.score))
        elif label in SUB_PAGES:
            events.append(item(query, asin, options, page, sub=label))
        else:
            asin = label if re.fullmatch("[A-Z0-9]{10}", label) else asin
            for name, values in re.findall(r"^([a-z ]+) (\[.+\]) *$", observation, re.MULTILINE):
                groups.update(dict.fromkeys(re.findall(r"\[([^\]]+)\]", values), name))
            if observation.startswith("You have clicked"):
                options = {**options, groups[label]: label}
            events.append(item(query, asin, options, page))
    return [{**e, "goal": {**GOAL, "instruction_text": trajectory.task.goal}} for e in events]


def test_pages_are_rebuilt_as_the_environment_shows_them(tmp_path: Path) -> None:
    for recorded in records.read(SHIPPED, Trajectory)[:12]:
        (rebuilt,) = read(log(tmp_path, *events_of(recorded)), str(OWN_DATA))
        assert isinstance(rebuilt, Trajectory)
        assert rebuilt.opening == recorded.opening
        assert actions(rebuilt) == actions(recorded)
        ours, theirs = (
            [re.sub(r"results: \d+", "", step.observation) for step in one.steps]
            for one in (rebuilt, recorded)
        )
        assert ours == theirs


def test_the_official_sessions_are_all_read(shared_data: Path) -> None:
    folder = shared_data / "webshop" / "human_sessions"
    entries = [t for path in formats.files_below([folder]) for t in read(path)]
    assert len(entries) == 50
    scores = [t.score for t in entries if isinstance(t, Trajectory)]
    assert sum(scores) == pytest.approx(50 * 0.65233, abs=0.01)
    assert sum(score == 1.0 for score in scores) == 18
