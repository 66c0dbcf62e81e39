"""Verify recorded runs by playing their episodes again, and keep the table of results.

    python scripts/leaderboard.py verify RUN [RUN …]
    python scripts/leaderboard.py add RUN --command "ldm eval …"    # verifies it, then adds a row
    python scripts/leaderboard.py table                             # the rows as Markdown

A row of results/leaderboard.jsonl says what was played (environment, split, tasks, conditions), by
whom (agent, model, memory), with which code, and what came out. Verifying resets the environment to
each recorded task, carries out the recorded actions and compares scores: nothing is believed that
the environment does not say again. Data that the environment needs are named as for `ldm eval`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ldm.config import Evaluate  # noqa: E402 - the checkout's own package
from ldm.episode import EnvironmentBase  # noqa: E402
from ldm.errors import LdmError  # noqa: E402
from ldm.run.builders import build_environment  # noqa: E402
from ldm.run.building import TOLERANCE  # noqa: E402
from ldm.run.grid import label  # noqa: E402
from ldm.run.reading import ReadRun, read_run  # noqa: E402
from ldm.run.statistics import wilson  # noqa: E402
from ldm.types import Task, Trajectory  # noqa: E402

ROWS = ROOT / "results" / "leaderboard.jsonl"


def verify(run: ReadRun) -> list[str]:
    """Return what in the run's records differs from what its environment says."""
    spec = _spec(run)
    episodes, faults = run.episodes(), list[str]()
    played = [one.result.task.id for one in episodes]
    if missing := sorted({*run.run.manifest.protocol["tasks"]} - {*played}):
        faults.append(f"{len(missing)} tasks were not played, such as {missing[0]}.")
    with closing(build_environment(spec.env)) as world:
        tasks = {task.id: task for task in world.tasks(spec.split)}
        for one in episodes:
            result, task = one.result, tasks.get(one.result.task.id)
            if task is None or task.goal != result.task.goal:
                faults.append(f"{result.task.id}: {spec.split} has no such task with its goal.")
                continue
            for number, trial in enumerate(one.trials):
                score = _score(world, task, trial)
                if abs(score - trial.score) > TOLERANCE:
                    faults.append(
                        f"{task.id}, trial {number}: its actions score {score:g}, "
                        f"recorded are {trial.score:g}."
                    )
            submitted = one.trials[result.submitted].score if one.trials else 0.0
            if abs(submitted - result.score) > TOLERANCE or result.success != (
                result.score >= 1 - TOLERANCE
            ):
                faults.append(f"{task.id}: its result is not what its submitted trial says.")
    return faults


def _spec(run: ReadRun) -> Evaluate:
    if not isinstance(run.spec, Evaluate):
        raise LdmError(f"{run.id} is no evaluation.", "Name a run of `ldm eval`.")
    return run.spec


def _score(world: EnvironmentBase, task: Task, trial: Trajectory) -> float:
    """Return what the environment gives for the actions of a trial, from 0 to 1."""
    now, score = world.reset(task), 0.0
    for step in trial.steps:
        if step.action and not now.done:
            now = world.step(step.action)
            score += now.reward
    return score


def row(run: ReadRun, command: str) -> dict[str, Any]:
    """Return the row of a run."""
    manifest, episodes = run.run.manifest, run.episodes()
    solved = [one.result.success for one in episodes]
    digest = hashlib.sha256(
        "\n".join(
            json.dumps([one.result.task.id, [[s.action for s in t.steps] for t in one.trials]])
            for one in episodes
        ).encode()
    )
    protocol = {k: v for k, v in manifest.protocol.items() if k not in ("tasks", "data")}
    return {
        "command": command,
        "agent": label(_spec(run)),
        "models": manifest.models,
        "memory": manifest.arguments.get("remembered", {}),
        "tasks": len(episodes),
        "success": round(sum(solved) / len(solved), 4),
        "interval": [round(end, 4) for end in wilson(sum(solved), len(solved))],
        "score": round(sum(one.result.score for one in episodes) / len(episodes), 4),
        "steps": round(sum(one.result.env_steps for one in episodes) / len(episodes), 2),
        "protocol": protocol,
        "fingerprint": manifest.fingerprint,
        "code": manifest.code,
        "actions": digest.hexdigest()[:16],
    }


def table() -> str:
    """Return the rows as Markdown, the best of each environment and split first."""
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    rows.sort(
        key=lambda one: (one["protocol"]["environment"], one["protocol"]["split"], -one["success"])
    )
    lines = [
        "| environment | agent | memory, episodes | tasks | success (95 % CI) | score | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        protocol, (low, high) = one["protocol"], one["interval"]
        lines.append(
            f"| {protocol['environment']}, {protocol['split']} | {one['agent']} "
            f"| {one['memory'].get('episodes', '–')} | {one['tasks']} "
            f"| {100 * one['success']:.1f} % ({100 * low:.1f}–{100 * high:.1f}) "
            f"| {one['score']:.3f} | {str(one['code'].get('commit', ''))[:8]} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["verify", "add", "table"])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--command", default="", help="The command that made the run.")
    arguments = parser.parse_args()
    if arguments.action == "table":
        print(table())
        return
    for path in arguments.runs:
        run = read_run(path, path.parent)
        faults = verify(run)
        for fault in faults:
            print(f"{run.id}: {fault}", file=sys.stderr)
        if faults:
            raise SystemExit(1)
        print(f"{run.id}: {len(run.episodes())} episodes, all as recorded")
        if arguments.action == "add":
            ROWS.parent.mkdir(exist_ok=True)
            with ROWS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row(run, arguments.command), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
