"""Recorded episodes as logs of other tools: Inspect, ATIF, chat messages, Parquet.

Of each episode the trial that counts is written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ldm import records
from ldm.config import Evaluate
from ldm.envs import formats
from ldm.errors import LdmError
from ldm.run.reading import ReadRun, RecordedEpisode
from ldm.text import redacted_json
from ldm.types import Trajectory

Format = Literal["inspect", "atif", "openai", "parquet"]
#: Version of Inspect's log files that is written.
INSPECT = 2
Json = dict[str, Any]


def export(run: ReadRun, path: Path, form: Format) -> int:
    """Write the episodes of a run to a file in one of the formats; return their number.

    Episodes that failed before the first step are written for Inspect only.
    Raise LdmError if the run has no episodes, or the file cannot be written.
    """
    from ldm.records import writing

    episodes = run.episodes()
    if not episodes:
        raise LdmError(f"{run.run.directory} has no episodes.", "Name an evaluation.")
    with writing(path):
        if form == "inspect":
            with records.replacing(path) as file:
                log = json.dumps(inspect_log(run, episodes), ensure_ascii=False, indent=1)
                file.write(redacted_json(log) + "\n")
            return len(episodes)
        trials = [trial for one in episodes if (trial := submitted(one)) is not None]
        formats.write(path, trials, "chat" if form == "openai" else form)
    return len(trials)


def submitted(episode: RecordedEpisode) -> Trajectory | None:
    """Return the trial that counts, or None."""
    place = episode.result.submitted
    return episode.trials[place] if 0 <= place < len(episode.trials) else None


def inspect_log(run: ReadRun, episodes: Sequence[RecordedEpisode]) -> Json:
    """Return a run as a log of Inspect (inspect.aisi.org.uk), as JSON values."""
    manifest, spec = run.run.manifest, run.spec
    solved = sum(one.outcome == "solved" for one in episodes)
    model = manifest.models.get("llm") or manifest.models.get("reasoner") or "none/none"
    task = f"{spec.env.name}/{spec.split}" if spec.split else spec.env.name
    return {
        "version": INSPECT,
        "status": "success" if run.run.is_finished else "started",
        "eval": {
            "eval_id": run.id,
            "run_id": run.id,
            "created": manifest.started,
            "task": task,
            "task_id": f"{task}@{manifest.fingerprint}",
            "task_version": 0,
            "task_attribs": {},
            "task_args": spec.env.options,
            "solver": run.agent or manifest.command,
            "solver_args": spec.agent.options if isinstance(spec, Evaluate) else {},
            "dataset": {
                "name": task,
                "samples": len(episodes),
                "sample_ids": [one.result.task.id for one in episodes],
                "shuffled": False,
            },
            "model": model if "/" in model else f"openai/{model}",
            "model_args": {},
            "config": {},
            "packages": {"ldm-memory": str(manifest.code.get("version", ""))},
            "metadata": {"fingerprint": manifest.fingerprint, "command": manifest.command},
        },
        "plan": {"name": "plan", "steps": [{"solver": run.agent or manifest.command}]},
        "results": {
            "total_samples": len(episodes),
            "completed_samples": sum(one.outcome != "error" for one in episodes),
            "scores": [
                {
                    "name": "success",
                    "scorer": "success",
                    "params": {},
                    "metrics": {"accuracy": {"name": "accuracy", "value": solved / len(episodes)}},
                }
            ],
        },
        "stats": {"started_at": manifest.started, "completed_at": "", "model_usage": {}},
        "samples": _samples(episodes),
    }


def _samples(episodes: Sequence[RecordedEpisode]) -> list[Json]:
    """Return the episodes as samples; an optimisation may repeat tasks, as epochs."""
    times = Counter[str]()
    samples = []
    for episode in episodes:
        task = episode.result.task.id
        times[task] += 1
        samples.append({**_sample(episode), "epoch": times[task]})
    return samples


def _sample(episode: RecordedEpisode) -> Json:
    """Return an episode as a sample: actions are messages of the assistant, answers the user's."""
    result = episode.result
    trial = submitted(episode)
    messages: list[Json] = [{"role": "user", "content": result.task.goal, "source": "input"}]
    if trial is not None:
        messages[0]["content"] = f"{result.task.goal}\n\n{trial.opening}"
        for step in trial.steps:
            texts = [step.thought] if step.thought else []
            messages.append(
                {
                    "role": "assistant",
                    "content": "\n".join([*texts, step.action] if step.action else texts),
                }
            )
            if step.action:
                messages.append({"role": "user", "content": step.observation})
    last = next((m["content"] for m in reversed(messages) if m["role"] == "assistant"), "")
    error = {"message": episode.complaint, "traceback": result.error}
    return {
        "id": result.task.id,
        "input": messages[0]["content"],
        "target": "",
        "messages": messages,
        "output": {
            "model": result.agent,
            "choices": [{"message": {"role": "assistant", "content": last}, "stop_reason": "stop"}],
        },
        "scores": {
            "success": {"value": "C" if episode.outcome == "solved" else "I"},
            "score": {"value": result.score},
        },
        "metadata": {
            "kind": result.task.kind,
            "outcome": episode.outcome,
            "end": result.end,
            "trials": result.trials,
            "environment_steps": result.env_steps,
            "invalid": result.invalid,
        },
        "store": {},
        "events": [],
        "model_usage": {},
        "total_time": result.seconds,
        **({"error": {**error, "traceback_ansi": result.error}} if result.error else {}),
    }
