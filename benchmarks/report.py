"""Size and opening time of `ldm report` in Chromium.

    python benchmarks/report.py --episodes 500 --steps 30 --recalls 60

Episodes are made of the shipped expert ones: their observations and actions in random order, each
step with recalled tuples of a memory of them, a vote, and, with --calls, a model call whose prompt
is the transcript so far. What is measured is the page alone, not how it came about.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ldm
from ldm import records
from ldm.llm import Message
from ldm.llm.calls import Call, Request
from ldm.memory import inspect
from ldm.report import write_report
from ldm.runs import Manifest, Run, create
from ldm.types import EpisodeResult, Note, Step, Task, Trajectory, Usage

ENV = "alfworld"
ROUNDS = 5


def main() -> None:
    """Make the run, write the report, and say what both took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--recalls", type=int, default=60)
    parser.add_argument("--calls", action="store_true", help="a model call at each step")
    parser.add_argument("--keep", type=Path, help="keep the report at this path")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run = made(place, options)
        started = time.perf_counter()
        file = write_report([run.directory], options.keep or place / "report.html")
        built = time.perf_counter() - started
        recorded = sum(path.stat().st_size for path in run.directory.iterdir())
        size = f"{options.episodes} episodes x {options.steps} steps x {options.recalls} recalls"
        print(size + (", each step with a model call" if options.calls else ""))
        print(f"records {recorded / 1e6:.1f} MB, report {file.stat().st_size / 1e6:.1f} MB")
        print(f"written in {built:.1f} s")
        opened(file)


def made(place: Path, options: argparse.Namespace) -> Run:
    """Return a recorded run of made-up episodes."""
    data = Path(__file__).resolve().parent.parent / "data" / "trajectories" / ENV
    memory = str(place / "memory")
    ldm.build_memory(data, memory)
    contents = inspect(memory, ENV)
    spec = {
        "env": ENV,
        "split": "made_up",
        "agent": "ldm",
        "memory": memory,
        "generation": 0,
        "memory_digest": contents.generation.digest,
    }
    run = create(place / "runs", ("benchmark",), Manifest("eval", spec, {"env": ENV}))
    rng = random.Random(0)
    known = [(row.tuple.id, row.tuple.observation, row.tuple.action) for row in contents.rows]
    episodes = [episode(number, known, rng, options) for number in range(options.episodes)]
    records.write(run.directory / "trajectories.jsonl", (trial for _, trial, _ in episodes))
    records.write(run.directory / "episodes.jsonl", (result for result, _, _ in episodes))
    if options.calls:
        calls = (call for _, _, made_calls in episodes for call in made_calls)
        records.write(run.directory / "llm.jsonl", calls)
    return run


def episode(
    number: int, known: list[tuple[str, str, str]], rng: random.Random, options: argparse.Namespace
) -> tuple[EpisodeResult, Trajectory, list[Call]]:
    """Return an episode, its trial and its model calls."""
    kind = rng.choice(("clean", "cool", "heat", "look", "pick", "pick2"))
    task = Task(f"made_up/{kind}-{number}", ENV, "made_up", f"{kind} something, {number}", kind)
    neighbours = rng.sample(known, min(len(known), 4 * options.recalls))
    steps, votes, calls = [], [], []
    transcript = "You are in a household and solve a task.\n" * 20
    for place in range(options.steps):
        _, observation, action = rng.choice(known)
        recalled = rng.sample(neighbours, min(len(neighbours), options.recalls))
        recalls = tuple((one, round(rng.uniform(0.3, 1), 6)) for one, _, _ in recalled)
        steps.append(Step(action, observation, recalls=recalls, followed=(0, 3, 7)))
        votes.append([[action, 0.5], *([one[2], 0.2] for one in recalled[:2])])
        if options.calls:
            request = Request("model", (Message("user", transcript),))
            call = Call(request.key, "llm", request, f"> {action}", "stop", Usage(1, 900, 0, 9))
            calls.append((place, call))
        transcript += f"> {action}\n{observation}\n"
    notes = [Note("votes", 0, {"steps": votes})]
    if calls:
        notes.append(Note("calls", 0, {"calls": [[place, call.key] for place, call in calls]}))
    score = float(rng.random() < 0.7)
    trial = Trajectory(task, known[0][1], tuple(steps), score, score == 1, "agent")
    usage = Usage(len(calls), 900 * len(calls), 0, 9 * len(calls))
    result = EpisodeResult(
        *(task, "ldm", 1, 0, "done", score, score == 1, len(steps), 0, usage, 1.0),
        notes=tuple(notes),
    )
    return result, trial, [call for _, call in calls]


def opened(file: Path) -> None:
    """Print how long the page takes to open, and to show what is asked for; medians of ROUNDS."""
    from playwright.sync_api import sync_playwright

    browser_at = os.environ.get("LDM_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_at, args=["--no-sandbox"])
        print(f"Chromium {browser.version}, medians of {ROUNDS}:")
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            started = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]")
            times.setdefault("open", []).append(time.perf_counter() - started)
            for name, address in steps_of(page):
                started = time.perf_counter()
                page.evaluate(
                    "([to]) => { delete document.documentElement.dataset.ready;"
                    " location.hash = to; }",
                    [address],
                )
                page.wait_for_selector("html[data-ready]")
                times.setdefault(name, []).append(time.perf_counter() - started)
            page.close()
        for name, values in times.items():
            print(f"  {name:<28} {1000 * sorted(values)[ROUNDS // 2]:>7.0f} ms")
        browser.close()


def steps_of(page: Any) -> Iterator[tuple[str, str]]:
    """Yield what is looked at: its name and its address."""
    run = page.evaluate("report.runs[0].id")
    task = page.evaluate("report.entries[250 % report.entries.length].task")
    tuple_id = page.evaluate("tupleAt(0).then((one) => one.id)")
    yield "list of episodes", "#episodes"
    yield "filter by outcome and words", "#episodes?outcome=failed&q=heat"
    yield "episodes that used a tuple", f"#episodes?tuple={tuple_id}"
    yield "an episode", f"#episode?run={run}&task={task}"
    yield "one of its steps", f"#episode?run={run}&task={task}&step=20"
    yield "tuples", "#tuples"


if __name__ == "__main__":
    main()
