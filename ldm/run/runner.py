"""The episodes of an evaluation: play them, and record them in the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ldm import records
from ldm.agents import reporting_named
from ldm.episode import Agent, Environment, run_episode
from ldm.errors import LdmError
from ldm.records import writing
from ldm.run.statistics import summarize
from ldm.runs import RESULTS, Run
from ldm.text import redacted_json
from ldm.types import EpisodeResult, Task, Trajectory, by_key

EPISODES = RESULTS["eval"]
TRAJECTORIES = "trajectories.jsonl"
SUMMARY = "summary.json"
#: Attempts at an episode that ends in an error: a lost connection may be to blame.
ATTEMPTS = 2
#: The part file of a finished run that is reopened.
REOPENED = "reopened.jsonl"


@dataclass(frozen=True, slots=True)
class Played:
    """Hold a line of a part file: a task's place, its result and its trajectories, trials in order.

    attempt: from 1; an episode that ends in an error is played again.
    """

    index: int
    result: EpisodeResult
    trajectories: tuple[Trajectory, ...]
    attempt: int = 1


class Player:
    """Play tasks; the worker of an evaluation."""

    def __init__(self, setup: tuple[Environment, Agent]) -> None:
        self._env, self._agent = setup

    def __call__(self, item: tuple[int, Task, int]) -> Played:
        index, task, attempt = item
        result, trajectories = run_episode(self._env, self._agent, task)
        return Played(index, result, trajectories, attempt)

    def close(self) -> None:
        self._env.close()


def results(run: Run) -> list[EpisodeResult]:
    """Return the results of a finished run. Raises LdmError if it is unfinished."""
    if not run.is_finished:
        raise LdmError(f"{run.directory} is unfinished.", f"Resume with `{run.resume_command}`.")
    return records.read(run.result, EpisodeResult)


def played(run: Run) -> list[Played]:
    """Return the episodes of a run in order, of an unfinished one those that are recorded.

    A run may lack its trajectories.
    """
    if not run.is_finished:
        return [one for _, one in sorted(run.recorded(Played).items())]
    path = run.directory / TRAJECTORIES
    recorded = records.read(path, Trajectory) if path.is_file() else []
    trials = by_key((trial.task.id, trial) for trial in recorded)
    known = enumerate(results(run))
    return [Played(i, one, tuple(trials.get(one.task.id, ()))) for i, one in known]


def merge(run: Run, played: Sequence[Played]) -> None:
    """Write the episodes of all tasks, in order, which finishes the run."""
    with writing(run.directory):
        trajectories = (trial for one in played for trial in one.trajectories)
        records.write(run.directory / TRAJECTORIES, trajectories)
        records.write(run.result, [one.result for one in played])


def reopen(run: Run) -> None:
    """Make a finished run with errors unfinished; the other episodes stay recorded."""
    if not run.is_finished:
        return
    if not any(result.end == "error" for result in results(run)):
        return
    episodes = played(run)
    run.discard_parts()
    with writing(run.parts):
        run.parts.mkdir(exist_ok=True)
        records.write(run.parts / REOPENED, episodes)
        run.result.unlink()  # only now is it open: nothing can be lost


def write_summary(run: Run, results: Sequence[EpisodeResult]) -> None:
    """Write summary.json, which is derived from the results."""
    seed, reporting = run.manifest.seeds.get("seed", 0), reporting_named(run.named("agent"))
    summary = summarize(results, seed=seed, reporting=reporting)
    path = run.directory / SUMMARY
    with writing(path), records.replacing(path) as file:
        text = json.dumps(summary.as_data(), separators=(",", ":"), ensure_ascii=False)
        file.write(redacted_json(text) + "\n")
