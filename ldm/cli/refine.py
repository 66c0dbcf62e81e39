"""`ldm refine`: explore training goals, and add better decisions to the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from ldm.cli import output
from ldm.cli.options import DATA, Given, Models, Recording, offers, shorts
from ldm.config import AGENT, LIMITS, RUNNING, SEARCH, TASKS, Option, Refine, load, merge
from ldm.errors import LdmError
from ldm.explore import report
from ldm.explore.gate import GateOptions
from ldm.explore.refine import RefineOptions
from ldm.policy import PolicyOptions
from ldm.run import refine as refinement
from ldm.run.presets import stage_preset
from ldm.run.refine import Refined
from ldm.text import counted, last_line


@dataclass(frozen=True)
class Exploration:
    """Options that are not part of the refinement itself."""

    preset: Annotated[str | None, Option("Settings of a paper: ldm2, or a file.", TASKS)] = None
    data: Annotated[Path | None, DATA] = None
    dry_run: Annotated[
        bool, Option("Explore and report only; --resume adds it later.", RUNNING)
    ] = False
    estimate: Annotated[
        bool, Option("Explore a few goals, print what all will cost, and stop.", LIMITS)
    ] = False


#: Short forms of sections' options.
DECIDING = shorts(AGENT, PolicyOptions, "policy.k", "policy.wording")
SEARCHING = shorts(SEARCH, RefineOptions, "search.explorer", "search.width", "search.depth")
GATE = shorts(SEARCH, GateOptions, "gate.gate")


@offers(Refine, Exploration, DECIDING, SEARCHING, GATE, Models, Recording)
def refine(**values: Any) -> None:
    """Explore new training goals, and add improvements as the memory's next generation.

    Each goal is first played greedily. If that falls short of the full score, other decision
    processes are explored, and the steps of a better one are added from its key step on (LDM²
    §3.3). Solved episodes are added as a whole. Before anything is added, the goals are played with
    and without it, each without its own episodes: only what does not lower scores is added.

    \b
    Examples:
      ldm refine --env alfworld --limit 60 --seed 0
      ldm refine --env alfworld --limit 180 --rounds 3
      ldm refine --env alfworld --kinds heat,cool --width 8 --dry-run
      ldm refine --env alfworld --preset ldm2 --llm MODEL
      ldm refine --resume runs/refine-alfworld-train-20261121-101530-ab12
      ldm runs show runs/refine-alfworld-train-20261121-101530-ab12 TASK
    """
    given = Given(refine, values)
    exploration, recording = given.group(Exploration), given.group(Recording)
    runtime, dry_run = recording.runtime(), exploration.dry_run
    if recording.resume is not None:
        given.refuse_with_resume(Refine, Exploration, ("dry_run", "estimate"))
        changes = given.model_changes()
        recorded = refinement.Refinement.resume(recording.resume, changes, runtime)
        recorded = replace(recorded, dry_run=dry_run)
    else:
        options = given.of(Refine)
        if exploration.preset is not None:
            env = Refine(env=options.get("env", "")).env.name
            options = merge(Refine, stage_preset(exploration.preset, env, "refine"), options)
        recorded = refinement.prepare(load(Refine, options), runtime, dry_run=dry_run)
    if exploration.estimate:
        output.say_all(recorded.estimate())
        return
    results = []
    for result in refinement.rounds(recorded):
        _show(result, as_json=recording.as_json)
        results.append(result)
    if recording.as_json:
        objects = [_as_object(result) for result in results]
        output.print_json(objects[-1] | ({"rounds": objects} if len(objects) > 1 else {}))
    if all(one.error for one in results[-1].explored):
        raise LdmError("Every goal failed.", "The first failure is shown above.")


def _show(result: Refined, *, as_json: bool) -> None:
    spec, run, explored = result.spec, result.run, result.explored
    title = f"Refinement of generation {spec.generation} on {spec.env.name}, {spec.split}"
    _print_rows(title, report.rows(explored), as_json=as_json)
    if result.verdict.comparisons:
        title = "Scores without and with what was learnt, each without its own episodes"
        _print_rows(title, report.gate_rows(result.verdict, result.intervals()), as_json=as_json)
    output.say_all(report.decisions(result.verdict, result.gain()), error=as_json)
    if broken := [one for one in explored if one.error]:
        output.say(
            f"{counted(len(broken), 'goal')} failed with an error and added nothing. "
            f"{broken[0].task.id}: {last_line(broken[0].error)}"
        )
    added = result.generation
    if added is None and result.idle:
        line = (
            f"Nothing to add: the memory stays at generation {spec.generation}. "
            "Other goals may yield more: --seed draws others, --limit more."
        )
    elif added is None:
        line = f"Nothing was added (--dry-run); `{run.resume_command}` adds it."
    else:
        line = f"Generation {added.number}: {added.tuples} tuples → {spec.memory}"
    output.say(line, error=as_json)
    output.say(f"Files: {run.directory}", error=as_json)


def _as_object(result: Refined) -> dict[str, Any]:
    """Return a round as JSON values."""
    spec, added = result.spec, result.generation
    return {
        "env": spec.env.name,
        "split": spec.split,
        "generation": None if added is None else added.number,
        "tuples": None if added is None else added.tuples,
        "gate": report.gate_data(result.verdict, result.gain(), result.intervals()),
        **report.totals(result.explored),
        "by_kind": report.by_kind(result.explored),
        "run": str(result.run.directory),
    }


def _print_rows(title: str, rows: Sequence[dict[str, str]], *, as_json: bool) -> None:
    output.print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows], error=as_json)
