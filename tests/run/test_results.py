"""Scores are told where they say more than successes do."""

from dataclasses import replace
from pathlib import Path

import pytest

from ldm.reporting import Findings, Measure, Reporting
from ldm.run import results
from ldm.run.results import Report, as_json, lines, score_interval
from ldm.run.statistics import summarize
from ldm.types import End
from tests.run.test_statistics import result


def report(*scores: float, last: End = "done") -> Report:
    episodes = tuple(
        replace(result(i, score == 1.0), score=score, end="done") for i, score in enumerate(scores)
    )
    episodes = (*episodes[:-1], replace(episodes[-1], end=last))
    return Report("shop", "test", "a", False, Path("runs/x"), summarize(episodes), episodes)


def test_a_mean_score_is_told_with_its_interval() -> None:
    scored = report(0.5, 1.0, 0.0, 0.7)
    interval = score_interval(scored)
    assert interval is not None
    assert interval[0] < 0.55 < interval[1]
    assert any(line.startswith("Mean score 0.550 (95 % interval") for line in lines(scored))
    assert as_json(scored)["mean_score"] == pytest.approx(0.55)
    assert as_json(scored)["score_interval"] == interval


def test_where_scores_are_successes_nothing_is_added() -> None:
    scored = report(0.0, 1.0, 1.0)
    assert score_interval(scored) is None
    assert not any("score" in line for line in lines(scored))
    assert as_json(scored)["score_interval"] is None


def test_episodes_that_ended_in_an_error_do_not_count() -> None:
    assert score_interval(report(1.0, 1.0, 0.3, last="error")) is None
    assert score_interval(report(0.3, last="error")) is None


REPORTING = Reporting(
    (
        Measure("depth", "how deep it went", lambda r: 2 * r.score if r.score else None),
        Measure("width", "of nothing", lambda _: None),
    ),
    lambda results: Findings((f"It looked {len(results)} times.",), {"looks": len(results)}),
)


def test_an_agent_tells_figures_of_its_own() -> None:
    scored = report(0.5, 1.0, 0.0)
    summary = summarize(scored.results, reporting=REPORTING)
    scored = replace(scored, summary=summary, reporting=REPORTING)
    text_lines = lines(scored)
    at = text_lines.index("depth, how deep it went, on average: 1.50 (heat 1.50).")
    assert text_lines[at + 1] == "It looked 3 times."
    fields = as_json(scored)
    assert (fields["depth"], fields["looks"]) == (1.5, 3)
    assert fields["by_kind"]["heat"]["depth"] == 1.5
    assert "width" not in fields
    data = scored.summary.as_data()
    assert data["overall"]["depth"] == data["by_kind"]["heat"]["depth"] == 1.5
    assert "measures" not in data["overall"]


def test_who_decided_is_told_in_words() -> None:
    assert results.describe_decisions({"replies": 7, "malformed": 1}) == ""
    counts = {"decided by memory": 1000, "consulted: unsure": 230, "consulted: loop": 4}
    assert results.describe_decisions(counts) == (
        "Decided by memory: 1,000 of 1,234 steps; by the model: 234 (about to repeat itself 4; "
        "memory was unsure 230)."
    )


def test_what_became_of_replies_is_told_in_words() -> None:
    assert results.describe_replies({"matched exact": 3}) == ""
    names = ("malformed", "loose", "dropped", "types by the aid")
    counts = {name: number for number, name in enumerate(names, 1)}
    counts |= {"replies": 40, "asked again": 9, "matched exact": 7, "matched none": 8}
    assert results.describe_replies(counts) == (
        "Malformed replies: 1 of 40 (2.5 %); 2 understood although not in the requested form; "
        "3 further actions in the same reply were dropped; 4 named no usable types: made "
        "offline instead; 9 named the last action or an impossible one: asked again; "
        "actions were matched to admissible ones: exact 7, none 8."
    )
