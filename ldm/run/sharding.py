"""One evaluation on several machines: each plays a shard of the tasks, and the runs are merged.

Shard i of n is every n-th task from the i-th on, so that all shards take about as long.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.options import sorted_settings
from ldm.run.builders import agent_of
from ldm.run.grid import subject
from ldm.run.lifecycle import recorded_spec
from ldm.run.specs import EvaluationSpec

if TYPE_CHECKING:
    from ldm.runs import Run
    from ldm.types import EpisodeResult, Task, Trajectory

Recorded = tuple["Run", EvaluationSpec]


def shard_numbers(shard: str) -> tuple[int, int]:
    """Return (i, n) of "i/n"; raise LdmError where it is no such shard."""
    first, slash, second = shard.partition("/")
    if slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise LdmError(f"--shard {shard} is not i/n.", "Use 1/3, 2/3 and 3/3 on three machines.")


def in_shard(tasks: Sequence[Task], shard: str) -> tuple[Task, ...]:
    """Return the tasks of a shard, "i/n"; all of them for "".

    Raises LdmError where it has none.
    """
    if not shard:
        return tuple(tasks)
    number, of = shard_numbers(shard)
    if of > len(tasks):
        raise LdmError(
            f"{len(tasks)} tasks cannot be divided into {of} shards.", "Use fewer shards."
        )
    return tuple(tasks[number - 1 :: of])


def merge_shards(
    names: Sequence[str | Path], *, folder: Path = Path("runs"), trust: bool = False
) -> tuple[Run, ...]:
    """Merge the runs of all shards into one run below `folder`, as if one machine had played all.

    names: directories or ids. Runs that they name as companions are merged, too, each evaluation by
    itself. trust: import the modules that the runs name, whether or not they are registered.

    Raises LdmError where a shard is missing, comes twice or is unfinished, or where the runs do not
    belong together.
    """
    recorded = [one for name in names for one in _with_companions(str(name), folder, trust)]
    groups: dict[Any, list[Recorded]] = {}
    for run, spec in {run.manifest.id: (run, spec) for run, spec in recorded}.values():
        if not spec.shard:
            raise LdmError(
                f"{run.directory} is not a shard: it holds all of its tasks.",
                "Merge runs of `ldm eval --shard i/n`.",
            )
        groups.setdefault(_alike(spec), []).append((run, spec))
    ordered = [_ordered(group) for group in groups.values()]
    for group in ordered:
        _check_protocols(group)
    merged: list[Run] = []
    for group in reversed(ordered):
        merged.insert(0, _merged(group, folder, merged[0].manifest.id if merged else ""))
    return tuple(merged)


def _with_companions(name: str, folder: Path, trust: bool) -> list[Recorded]:
    recorded = []
    while name:
        run, spec = recorded_spec(name, EvaluationSpec, folder, trust=trust)
        recorded.append((run, spec))
        companion = run.manifest.arguments.get("companion", "")
        name = str(run.directory.parent / str(companion)) if companion else ""
    return recorded


def _alike(spec: EvaluationSpec) -> EvaluationSpec:
    """Return a spec that is the same for all shards, wherever memory, data and files lie."""
    digests = agent_of(spec).digests
    agent = {k: v for k, v in dict(spec.agent_options).items() if k not in digests}
    env = {k: v for k, v in dict(spec.env_options).items() if k != "data"}
    return replace(
        spec,
        shard="",
        memory="" if spec.memory_digest else spec.memory,
        agent_options=sorted_settings(agent),
        env_options=sorted_settings(env),
    )


def _ordered(group: Sequence[Recorded]) -> list[Recorded]:
    """Return the shards of an evaluation by number; raise LdmError where they are not all."""
    of = {shard_numbers(spec.shard)[1] for _, spec in group}
    if len(of) > 1:
        numbers = " and ".join(map(str, sorted(of)))
        raise LdmError(
            f"{group[0][0].directory} and the others are shards of {numbers}.",
            "Merge runs with the same n in --shard i/n.",
        )
    (total,) = of
    shards: dict[int, Recorded] = {}
    for run, spec in group:
        number = shard_numbers(spec.shard)[0]
        if number in shards:
            raise LdmError(
                f"Shard {spec.shard} is named twice: {shards[number][0].directory} and "
                f"{run.directory}.",
                "Name one of them.",
            )
        shards[number] = run, spec
    if missing := [number for number in range(1, total + 1) if number not in shards]:
        listed = ", ".join(f"{number}/{total}" for number in missing)
        raise LdmError(
            f"The evaluation of {group[0][1].agent} lacks the shard {listed}.",
            "Name its run, too.",
        )
    return [shards[number] for number in sorted(shards)]


def _check_protocols(shards: Sequence[Recorded]) -> None:
    """Raise LdmError where the runs are not comparable, or were made with other models."""
    from ldm.runs import differences

    def compared(run: Run) -> dict[str, Any]:
        manifest = run.manifest
        protocol = {k: v for k, v in manifest.protocol.items() if k != "tasks"}
        models = {k: v for k, v in manifest.models.items() if k != "server"}
        return {**protocol, "models": models, "prompts": manifest.prompts}

    first = shards[0][0]
    for run, _ in shards[1:]:
        if differing := differences(compared(first), compared(run)):
            raise LdmError(
                f"{first.directory} and {run.directory} do not belong together: "
                f"{'; '.join(differing)}.",
                "Evaluate all shards in the same way.",
            )


def _merged(shards: Sequence[Recorded], folder: Path, companion: str) -> Run:
    """Write the run that all shards make together, which names its companion."""
    from ldm import records
    from ldm.llm.recording import FILE
    from ldm.run.runner import TRAJECTORIES, record, results
    from ldm.runs import Manifest, create, writing
    from ldm.types import Trajectory

    episodes = _interleaved([results(run) for run, _ in shards])
    played: dict[str, list[Trajectory]] = {}
    for run, _ in shards:
        for trajectory in records.read(run.directory / TRAJECTORIES, Trajectory):
            played.setdefault(trajectory.task.id, []).append(trajectory)
    first, spec = shards[0][0].manifest, replace(shards[0][1], shard="")
    protocol = {**first.protocol, "tasks": [one.task.id for one in episodes]}
    manifest = Manifest(
        command=first.command,
        arguments={**first.arguments, "plan": records.plain(spec), "companion": companion},
        protocol=protocol,
        models=first.models,
        seeds=first.seeds,
        prompts=first.prompts,
    )
    merged = create(folder, subject(spec), manifest)
    try:
        trajectories = (t for one in episodes for t in played.get(one.task.id, ()))
        calls = [run.directory / FILE for run, _ in shards if (run.directory / FILE).is_file()]
        if calls:
            with writing(merged.directory / FILE), (merged.directory / FILE).open("wb") as file:
                for path in calls:
                    file.write(path.read_bytes())
        with merged.lock():
            record(merged, episodes, trajectories)
            merged.discard_parts()
    except BaseException:
        shutil.rmtree(merged.directory, ignore_errors=True)
        raise
    return merged


def _interleaved(parts: Sequence[Sequence[EpisodeResult]]) -> list[EpisodeResult]:
    """Return the results of shards in the order of the tasks. Raises LdmError if some are lost."""
    total = sum(map(len, parts))
    if [len(part) for part in parts] != [
        len(range(i, total, len(parts))) for i in range(len(parts))
    ]:
        raise LdmError(
            f"These shards have {', '.join(str(len(part)) for part in parts)} tasks, and so are "
            "not shards of one list.",
            "Evaluate all shards in the same way.",
        )
    return [parts[i % len(parts)][i // len(parts)] for i in range(total)]
