"""The runner: every task once, by as many processes as there are, into the run's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ldm import records
from ldm.agents import reporting_named
from ldm.episode import Agent, Environment, run_episode
from ldm.errors import LdmError
from ldm.parallel import Backend
from ldm.run.statistics import Summary, summarize
from ldm.runs import Run, run_items, writing
from ldm.secrecy import redacted_json
from ldm.types import EpisodeResult, Task, Trajectory

EPISODES = "episodes.jsonl"
TRAJECTORIES = "trajectories.jsonl"
SUMMARY = "summary.json"
#: How often an episode is played that ends in an error: a lost connection may be to blame.
ATTEMPTS = 2
#: The part file of a finished run that is reopened.
REOPENED = "reopened.jsonl"


class PlayerFactory(Hashable, Protocol):
    """Builds environment and agent, in whichever process needs them: a frozen, picklable value."""

    def __call__(self) -> tuple[Environment, Agent]: ...


@dataclass(frozen=True, slots=True)
class Played:
    """A line of a part file: a task's place, its result and its trajectories, trials in order.

    attempt: from 1; an episode that ends in an error is played again.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    result: EpisodeResult
    trajectories: tuple[Trajectory, ...]
    attempt: int = 1

    @property
    def to_repeat(self) -> bool:
        return self.result.end == "error" and self.attempt < ATTEMPTS


class _Player:
    def __init__(self, env: Environment, agent: Agent) -> None:
        self._env = env
        self._agent = agent

    def __call__(self, item: tuple[int, Task, int]) -> Played:
        index, task, attempt = item
        result, trajectories = run_episode(self._env, self._agent, task)
        return Played(index, result, trajectories, attempt)

    def close(self) -> None:
        self._env.close()


@dataclass(frozen=True, slots=True)
class _Play:
    factory: PlayerFactory

    def __call__(self) -> _Player:
        return _Player(*self.factory())


def protocol(env: Environment, split: str, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return what makes scores comparable: the environment's protocol, split and task ids."""
    return {**env.protocol(), "split": split, "tasks": [task.id for task in tasks]}


def evaluate(  # noqa: PLR0913 - passed by name in every call
    run: Run,
    factory: PlayerFactory,
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    backend: Backend = "processes",
    retry_errors: bool = False,
    on_result: Callable[[EpisodeResult], None] = lambda _: None,
) -> list[EpisodeResult]:
    """Return the results of all `tasks` in their order, played now or recorded before.

    Episodes that end in an error are played once more, after all others.
    backend: threads of this process for agents that share its model client.
    retry_errors: play those of a finished run again, too.
    on_result: called with every result, recorded ones first; not with those of further attempts.
    Raises LdmError where another process works on the run, Interrupted, WorkerDied, RunStopped, and
    whatever LdmError the factory raises.
    """
    with run.lock():
        if retry_errors and finished(run):
            _reopen(run)
        if finished(run):
            finished_results = results(run)
            run.discard_parts()
            for result in finished_results:
                on_result(result)
        else:
            play = partial(run_items, run, _Play(factory), workers=workers, backend=backend)
            played = play(_turns(tasks, 1), Played, on_result=lambda one: on_result(one.result))
            if any(one.to_repeat for one in played):
                played = play(_turns(tasks, ATTEMPTS), Played, is_due=_unfinished)
            finished_results = [one.result for one in played]
            record(run, finished_results, (t for one in played for t in one.trajectories))
            run.discard_parts()
        _summarize(run, finished_results)
    return finished_results


def sample(
    run: Run,
    factory: PlayerFactory,
    tasks: Sequence[Task],
    chosen: Sequence[Task],
    *,
    workers: int = 1,
    backend: Backend = "processes",
) -> list[EpisodeResult]:
    """Return the results of `chosen`, and what else is recorded; the run stays unfinished.

    Raises what `evaluate` raises.
    """
    ids = {task.id for task in chosen}
    with run.lock():
        played = run_items(
            run,
            _Play(factory),
            _turns(tasks, 1),
            Played,
            workers=workers,
            backend=backend,
            is_due=lambda index, record: record is None and tasks[index].id in ids,
        )
    return [record.result for record in played]


def results(run: Run) -> list[EpisodeResult]:
    """Return the results of a finished run. Raises LdmError where it is unfinished."""
    if not finished(run):
        raise LdmError(f"{run.directory} is unfinished.", f"Resume with `{run.resume_command}`.")
    return records.read(run.directory / EPISODES, EpisodeResult)


def finished(run: Run) -> bool:
    """Return whether all tasks are recorded and merged; episodes.jsonl appears last, and whole."""
    return (run.directory / EPISODES).is_file()


def recorded(run: Run) -> int:
    """Return how many episodes of a run are recorded."""
    return len(results(run)) if finished(run) else len(run.recorded(Played))


def agent_of(run: Run) -> str:
    """Return the agent that an evaluation names: registered, or module:Class; "" if it does not."""
    plan = run.manifest.arguments.get("plan")
    return str(plan.get("agent", "")) if isinstance(plan, dict) else ""


def _unfinished(_: int, played: Played | None) -> bool:
    return played is None or played.to_repeat


def _turns(tasks: Sequence[Task], attempt: int) -> list[tuple[int, Task, int]]:
    return [(index, task, attempt) for index, task in enumerate(tasks)]


def _reopen(run: Run) -> None:
    """Make a finished run with errors one that has still to play these; others stay recorded."""
    episodes = results(run)
    if not any(result.end == "error" for result in episodes):
        return
    trials: dict[str, list[Trajectory]] = {}
    for trajectory in records.read(run.directory / TRAJECTORIES, Trajectory):
        trials.setdefault(trajectory.task.id, []).append(trajectory)
    played = (
        Played(index, result, tuple(trials.get(result.task.id, ())))
        for index, result in enumerate(episodes)
    )
    run.discard_parts()
    with writing(run.parts):
        run.parts.mkdir(exist_ok=True)
        records.write(run.parts / REOPENED, played)
        (run.directory / EPISODES).unlink()  # only now is it open: nothing can be lost


def record(run: Run, episodes: Sequence[EpisodeResult], trajectories: Iterable[Trajectory]) -> None:
    """Write the results of all tasks, in their order, which makes a run a finished one."""
    with writing(run.directory):
        records.write(run.directory / TRAJECTORIES, trajectories)
        records.write(run.directory / EPISODES, episodes)
    _summarize(run, episodes)


def _summarize(run: Run, results: Sequence[EpisodeResult]) -> Summary:
    """Write summary.json, which is derived: it can be deleted and comes back with `--resume`."""
    seed, agent = run.manifest.seeds.get("seed", 0), agent_of(run)
    reporting = reporting_named(agent) if agent else None
    summary = summarize(results, seed=seed, reporting=reporting)
    path: Path = run.directory / SUMMARY
    with writing(path), records.replacing(path) as file:
        text = json.dumps(summary.as_data(), separators=(",", ":"), ensure_ascii=False)
        file.write(redacted_json(text) + "\n")
    return summary
