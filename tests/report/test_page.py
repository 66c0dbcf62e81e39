"""The report in Chromium: it shows what was recorded, asks nothing of anybody, and harms nobody."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldm import records
from ldm.report import write_report
from ldm.types import EpisodeResult
from tests.report.conftest import Recorded
from tests.report.hostile import LINE, TEXTS, hostile_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.process

WIDE, NARROW = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium that is installed here ($LDM_CHROMIUM or on PATH); none is downloaded."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = os.environ.get("LDM_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not program:
        pytest.skip("there is no Chromium on PATH; LDM_CHROMIUM names one")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@dataclass
class Opened:
    """A page, and what went on around it. requests: all but for the file itself."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def text(self, selector: str = "main") -> str:
        return self.page.inner_text(selector)

    def go(self, address: str) -> None:
        """Follow an address within the page, and wait for what it shows."""
        self.page.evaluate(
            "([to]) => { delete document.documentElement.dataset.ready; location.hash = to; }",
            [address],
        )
        self.page.wait_for_selector("html[data-ready]")

    @property
    def width(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Browser, recorded: Recorded) -> Iterator[Open]:
    """`open_page("#episodes")`; in the end nothing has asked for anything or complained."""
    opened: list[Opened] = []

    def opening(
        address: str = "", file: Path | None = None, size: tuple[int, int] = WIDE, **how: Any
    ) -> Opened:
        width, height = size
        page = browser.new_page(viewport={"width": width, "height": height}, **how)
        one = Opened(page)
        page.on("request", lambda request: one.requests.append(request.url))
        page.on(
            "console",
            lambda message: (
                one.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.on("pageerror", lambda error: one.complaints.append(str(error)))
        page.goto((file or recorded.page).as_uri() + address)
        page.wait_for_selector("html[data-ready]")
        opened.append(one)
        return one

    yield opening
    for one in opened:
        assert [url for url in one.requests if not url.startswith("file:")] == []
        assert len(one.requests) == 1
        assert one.complaints == []
        one.page.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile")
    return write_report([hostile_run(place)], place / "report.html")


def results(run: Path) -> list[EpisodeResult]:
    return records.read(run / "episodes.jsonl", EpisodeResult)


class TestOverview:
    def test_runs_stand_in_a_table_with_their_intervals(
        self, open_page: Open, recorded: Recorded
    ) -> None:
        page = open_page()
        rows = page.page.locator("table").first.locator("tbody tr").all_inner_texts()
        assert len(rows) == 6
        solved = sum(result.success for result in results(recorded.later))
        (mine,) = [row for row in rows if recorded.later.name in row]
        assert f"{100 * solved / 6:.1f} %" in mine
        assert "–" in mine

    def test_charts_show_cost_and_what_runs_differ_by(self, open_page: Open) -> None:
        page = open_page()
        page.page.wait_for_selector(".chart canvas")
        assert page.page.locator(".chart canvas").count() == 3
        assert "Success over generation" in page.text()
        page.page.select_option(".choice select", "tokens")
        assert page.page.get_attribute(".chart >> nth=0", "aria-label") == "tokens per task"


class TestFilters:
    def test_episodes_are_found_by_outcome_kind_agent_and_words(
        self, open_page: Open, recorded: Recorded
    ) -> None:
        page = open_page("#episodes")
        everyone = [result for run in (recorded.earlier, recorded.later) for result in results(run)]
        page.page.select_option("select[name=agent]", "ldm")
        count = f"{len(everyone)} episodes of"
        page.page.wait_for_function(
            "text => document.getElementById('results').innerText.startsWith(text)", arg=count
        )
        page.page.select_option("select[name=kind]", "fetch")
        fetched = sum(result.task.kind == "fetch" for result in everyone)
        page.page.wait_for_function(
            "text => document.getElementById('results').innerText.startsWith(text)",
            arg=f"{fetched} episodes of",
        )
        assert "kind=fetch" in page.page.url
        page.page.fill("input[name=q]", "no such goal")
        page.page.wait_for_selector("text=No episode fits")

    def test_a_tuple_leads_to_the_episodes_that_used_it(
        self, open_page: Open, recorded: Recorded
    ) -> None:
        from ldm.types import Trajectory

        trials = [
            trial
            for run in (recorded.earlier, recorded.later)
            for trial in records.read(run / "trajectories.jsonl", Trajectory)
        ]
        used = trials[0].steps[0].recalls[0][0]
        count = sum(any(i == used for s in t.steps for i, _ in s.recalls) for t in trials)
        page = open_page(f"#episodes?tuple={used}")
        assert page.text("#results").startswith(f"{count} episode")
        page.go("#tuples")
        assert used not in page.text()  # folded
        assert page.page.locator("main table tbody tr").count() > 1


class TestEpisode:
    def test_each_step_says_why_it_was_taken(self, open_page: Open) -> None:
        page = open_page("#episodes")
        page.page.locator("main table a").first.click()
        page.page.wait_for_selector(".timeline")
        assert "the vote decided" in page.text()
        page.page.locator(".why summary").first.click()
        page.page.wait_for_selector(".recalls li")
        assert "expert, score 1.00" in page.text(".recalls")
        page.page.locator(".recalls summary").first.click()
        page.page.wait_for_selector(".recalls dl")
        assert "goal" in page.text(".recalls dl")

    def test_a_deep_link_leads_to_the_step(self, open_page: Open, recorded: Recorded) -> None:
        task = results(recorded.earlier)[0].task.id
        page = open_page(f"#episode?run={recorded.earlier.name}&task={task}&step=1")
        assert page.page.locator(".step.chosen .label").inner_text() == "2"
        page.page.wait_for_selector(".step.chosen .recalls li")
        page.page.wait_for_function(
            "document.querySelector('.step.chosen').getBoundingClientRect().top < innerHeight"
        )

    def test_prompts_and_replies_are_folded_beside_the_step(
        self, open_page: Open, recorded: Recorded
    ) -> None:
        task = results(recorded.divided)[0].task.id
        page = open_page(f"#episode?run={recorded.divided.name}&task={task}")
        assert page.page.locator(".call").count() > 1
        assert page.page.locator(".message").count() == 0
        page.page.locator(".call summary").last.click()
        page.page.wait_for_selector(".message.reply")
        assert "Fruit lies on shelves" in page.text(".message >> nth=0")

    def test_the_tree_of_a_divided_task_is_drawn(self, open_page: Open, recorded: Recorded) -> None:
        task = results(recorded.divided)[0].task
        page = open_page(f"#episode?run={recorded.divided.name}&task={task.id}")
        branches = page.page.locator(".branch").all_inner_texts()
        assert branches[0].startswith(task.goal)
        assert [text for text in branches if f"{task.goal}, really" in text]

    def test_an_exploration_shows_paths_pruned_ones_and_the_key_step(
        self, open_page: Open, recorded: Recorded
    ) -> None:
        page = open_page(f"#episodes?run={recorded.refinement.name}&outcome=improved")
        page.page.locator("main table a").first.click()
        page.page.wait_for_selector(".tree")
        tried = page.page.locator(".branch").count()
        assert page.page.locator(".badge.key").count() == 1
        assert "confidence" in page.text(".tree")
        pruned = page.page.locator(".choice input")
        if pruned.count():
            pruned.first.check()
            assert page.page.locator(".branch.pruned").count() > 0
            assert page.page.locator(".branch").count() > tried

    def test_attempts_with_a_plan_show_what_was_learnt_of_them(
        self, open_page: Open, recorded: Recorded
    ) -> None:
        page = open_page()
        assert "X_2" in page.text()
        assert "Wash it at the sink" in page.text()  # the last plan, which is open
        assert "Success over iteration" in page.text()
        page.go(f"#episodes?run={recorded.plans.name}")
        assert "iteration 1" in page.text("#results")
        page.page.locator("main table a").first.click()
        page.page.wait_for_selector(".timeline")
        assert "flaw" in page.text()

    def test_what_is_not_there_is_said(self, open_page: Open) -> None:
        assert "no such episode" in open_page("#episode?run=none&task=none").text()


def test_two_runs_stand_beside_each_other_from_where_they_part(
    open_page: Open, recorded: Recorded
) -> None:
    from ldm.types import Trajectory

    runs = (recorded.earlier, recorded.control)
    first, second = (records.read(run / "trajectories.jsonl", Trajectory)[0] for run in runs)
    pairs = zip(first.steps, second.steps, strict=False)
    alike = [(a.action, a.observation) == (b.action, b.observation) for a, b in pairs].index(False)
    task = first.task.id
    address = f"#compare?left={runs[0].name}&right={runs[1].name}&task={task}"
    page = open_page(address)
    labels = page.page.locator(".side >> nth=0").locator(".label.number").all_inner_texts()
    assert labels[0] == str(alike + 1)
    assert page.page.locator(".side").count() == 2


class TestAppearance:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_nothing_is_wider_than_a_phone(
        self, open_page: Open, recorded: Recorded, scheme: str
    ) -> None:
        page = open_page(size=NARROW, color_scheme=scheme)
        task = results(recorded.divided)[0].task.id
        episode = f"#episode?run={recorded.divided.name}&task={task}"
        for address in ("#overview", "#episodes", "#tuples", "#compare", episode):
            page.go(address)
            assert page.width <= NARROW[0], address

    def test_colours_can_be_chosen(self, open_page: Open) -> None:
        page = open_page(color_scheme="light")
        colour = "getComputedStyle(document.body).backgroundColor"
        light = page.page.evaluate(colour)
        page.page.click("#theme")
        assert page.page.evaluate(colour) == light
        page.page.click("#theme")
        assert page.page.evaluate(colour) != light


class TestHostileTexts:
    def test_no_text_acts(self, open_page: Open, hostile: Path) -> None:
        page = open_page(file=hostile)
        for address in ("#overview", "#episodes", "#tuples"):
            page.go(address)
        for number in range(len(TEXTS)):
            page.go("#episodes")
            page.page.locator("main table a").nth(number).click()
            page.page.wait_for_selector(".timeline")
            for _ in range(2):  # the second time, what the first one brought
                page.page.evaluate(
                    "document.querySelectorAll('main details').forEach((one) => (one.open = true))"
                )
                page.page.wait_for_timeout(20)
        page.page.wait_for_timeout(50)
        assert page.page.evaluate("window.attacked") is None
        assert page.page.evaluate("({}).deep") is None
        assert page.page.locator("main script, main img").count() == 0

    def test_what_acts_unseen_becomes_visible(self, open_page: Open, hostile: Path) -> None:
        page = open_page("#episodes", hostile)
        text = page.text()
        assert "‹U+202E›" in text
        assert "␛[2J" in text

    def test_a_line_of_a_megabyte_is_shown_in_part_and_then_whole(
        self, open_page: Open, hostile: Path
    ) -> None:
        page = open_page("#episodes", hostile)
        page.page.locator("main table a").nth(len(TEXTS)).click()
        page.page.wait_for_selector(".timeline")
        observation = page.page.locator(".timeline .seen").last
        assert len(observation.inner_text()) < 4000
        observation.locator("button").click()
        assert observation.evaluate("element => element.textContent.length") == len(LINE)
        assert page.width <= WIDE[0]

    def test_the_page_may_not_reach_anything(self, open_page: Open, hostile: Path) -> None:
        page = open_page(file=hostile)
        outcome = page.page.evaluate(
            """async () => {
              const refused = [];
              document.addEventListener("securitypolicyviolation",
                (event) => refused.push(event.effectiveDirective));
              await fetch("http://127.0.0.1:9/").catch(() => {});
              const script = document.createElement("script");
              script.textContent = "window.attacked = true";
              document.body.append(script);
              await new Promise((done) => setTimeout(done, 20));
              return [refused.sort(), window.attacked === undefined];
            }"""
        )
        assert outcome == [["connect-src", "script-src-elem"], True]
        page.complaints.clear()  # Chromium says in its console what it refused
