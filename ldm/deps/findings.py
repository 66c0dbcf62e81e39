"""Reports on planners: how often they planned, which goals were parsed, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ldm.reporting import Branch, BranchState, Findings, Reporting, TaskTree, measure_of_note, noted
from ldm.types import EpisodeResult

#: Kind of the note that holds the rounds of an episode.
NOTE = "deps"


def data_of(result: EpisodeResult) -> Mapping[str, Any] | None:
    """Return the note on an episode's rounds, or None."""
    return noted(result, NOTE)


def _done(data: Mapping[str, Any]) -> int:
    return sum(len(one["done"]) for one in data["rounds"])


def _findings(results: Sequence[EpisodeResult]) -> Findings:
    rounds = [one for result in results for one in (data_of(result) or {"rounds": ()})["rounds"]]
    if not rounds:
        return Findings()
    read = sum(len(one["goals"]) for one in rounds)
    dropped = sum(len(one["dropped"]) for one in rounds)
    ends = Counter(one["trigger"] or "the trial ended" for one in rounds)
    return Findings(
        (
            f"Plans: {len(rounds)}, with {read} goals that are known and {dropped} lines that "
            "name none.",
            "What ended a plan: "
            + ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
            + ".",
        ),
        {"plans": len(rounds), "goals": read, "dropped": dropped, "ends": dict(ends)},
    )


def _tree(result: EpisodeResult) -> TaskTree | None:
    data = data_of(result)
    if data is None:
        return None
    rounds, done = data["rounds"], _done(data)
    dropped = sum(len(one["dropped"]) for one in rounds)
    return TaskTree(
        {"method": data["method"], "plans": str(len(rounds)), "goals done": str(done)},
        f"{data['method']}, {len(rounds)} plans, {done} goals done, {dropped} lines dropped",
        tuple(one for number, turn in enumerate(rounds) for one in _branches(number, turn)),
    )


def _branches(number: int, one: Mapping[str, Any]) -> Iterator[Branch]:
    """Yield a round for reports: its plan, and below it each goal with its outcome."""
    names = ("plan", "description", "explanation")
    over = one["trigger"] or "the trial ended"
    state: BranchState = "done" if over == "all done" else "failed" if one["trigger"] else ""
    yield Branch(
        0,
        f"plan {number + 1}",
        state,
        f"ended by: {over}",
        texts={name: one[name] for name in names if one[name]},
    )
    ends = dict(one["pursued"])
    done = set(one["done"])
    for goal in one["goals"]:
        end = ends.get(goal["rank"], "not tried")
        how: BranchState = "done" if goal["rank"] in done else "failed"
        state = "open" if goal["rank"] not in ends else how
        yield Branch(1, f"{goal['rank']}. {goal['goal']}", state, end)
    for line in one["dropped"]:
        yield Branch(1, line, "pruned", "names no known goal")


REPORTING = Reporting(
    (
        measure_of_note("plans", "plans that were made", NOTE, lambda data: len(data["rounds"])),
        measure_of_note("goals_done", "goals of plans that were reached", NOTE, _done),
    ),
    _findings,
    _tree,
)
