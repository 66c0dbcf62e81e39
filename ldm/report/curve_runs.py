"""Curves of recorded runs: the value of each run, and the runs of each line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.config import Evaluate, OptimisePlan
from ldm.errors import LdmError
from ldm.report.curves import Curve, Measure, point
from ldm.run.conditions import conditions_of
from ldm.run.engine import recorded_spec, together
from ldm.run.grid import options_of
from ldm.run.plan_scores import evaluated_plans
from ldm.text import short

if TYPE_CHECKING:
    from ldm.runs import Run
    from ldm.types import EpisodeResult

#: Facts of memories that a curve may be over, beside options.
EPISODES, EXPLORED, BATCHES, GENERATION = "episodes", "explored", "batches", "generation"
_MEMORY = (EPISODES, EXPLORED, BATCHES, GENERATION)
#: Options that may differ on one line.
_NO_SETTINGS = ("data", "cache")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A finished evaluation. facts: name → value of everything that may differ from others."""

    run: Run
    spec: Evaluate
    results: tuple[EpisodeResult, ...]
    facts: Mapping[str, str]

    def number(self, name: str) -> float | None:
        """Return the value of a fact, or None if it is not a number."""
        try:
            return float(self.facts[name])
        except (KeyError, ValueError):
            return None


def curve(
    runs: Sequence[str | Path],
    *,
    over: str = "",
    measure: Measure = "success",
    folder: Path = Path("runs"),
    trust: bool = False,
) -> Curve:
    """Return the curve of finished evaluations, by directory or id below `folder`.

    runs: an optimisation of plans represents the evaluations of its plans, and a run those that
    were started with it. over: an option of the agent, "env.NAME", or of the memory "episodes"
    (recorded ones), "explored", "batches" or "generation"; "" for the one that differs.
    trust: as in `compare`. Raise LdmError if runs have no such number, or play different tasks on
    one line.
    """
    entries: dict[tuple[Path, str], _Entry] = {}
    for name in runs:
        for entry in _entries(str(name), folder, trust=trust):
            entries.setdefault((entry.run.directory, entry.facts.get("plans", "")), entry)
    played = list(entries.values())
    over = over or _differing(played)
    groups: dict[tuple[str, float], list[_Entry]] = {}
    for entry, series in zip(played, _series(played, over), strict=True):
        at = entry.number(over)
        if at is None:
            raise LdmError(
                f"{entry.run.directory} has no number {over!r}.",
                f"What differs between the runs: {', '.join(_numbers(played)) or 'nothing'}.",
            )
        groups.setdefault((series, at), []).append(entry)
    _check_tasks(groups, over)
    points = [
        point(series, at, [one.results for one in group], measure, group[0].spec.seed)
        for (series, at), group in sorted(groups.items())
    ]
    environments = ", ".join(dict.fromkeys(short(one.spec.env.name) for one in played))
    return Curve(f"{environments}, {played[0].spec.split}", over, measure, tuple(points))


def _entries(name: str, folder: Path, *, trust: bool) -> Iterator[_Entry]:
    """Yield the evaluations of a run: itself, and those that were started with it."""
    from ldm.run.runner import results
    from ldm.runs import open_run

    run = open_run(name, folder)
    if run.manifest.command == OptimisePlan.command:
        for variant, one, spec in evaluated_plans(name, folder, trust=trust):
            facts = {"plans": variant, "iteration": spec.agent.text("iteration")}
            yield _Entry(one, spec, tuple(results(one)), facts)
        return
    first = recorded_spec(name, Evaluate, folder, trust=trust)
    for one, spec in together(*first, folder, trust=trust):
        yield _Entry(one, spec, tuple(results(one)), _facts(spec, one))


def _facts(spec: Evaluate, run: Run) -> dict[str, str]:
    """Return the facts that a curve may be over, or that distinguish lines."""
    had = conditions_of(spec, run)
    facts = {"agent": short(spec.agent.name), "env": short(spec.env.name), "model": had.model}
    if had.memory is not None:
        facts |= {name: str(getattr(had.memory, name)) for name in _MEMORY}
    return facts | {
        name: value
        for name, value in options_of(spec).items()
        if name.removeprefix("env.") not in _NO_SETTINGS
    }


def _differing(entries: Sequence[_Entry]) -> str:
    """Return the one number that differs between the runs; raise LdmError if there are more."""
    names = _numbers(entries)
    options = [name for name in names if name not in _MEMORY]
    if len(names) != 1 and len(options) != 1:
        grown = [name for name in (GENERATION, EPISODES) if name in names]
        if not options and grown:  # the other facts of a memory grow with it
            return grown[0]
        differences = ", ".join(names) or "nothing"
        raise LdmError(
            f"It is unclear what to plot the curve over: the runs differ in {differences}.",
            "Name it with --over.",
        )
    return (options or names)[0]


def _numbers(entries: Sequence[_Entry]) -> list[str]:
    """Return the facts that are numbers in all runs and differ between them."""
    known = dict.fromkeys(name for entry in entries for name in entry.facts)
    return [
        name
        for name in known
        if all(entry.number(name) is not None for entry in entries)
        and len({entry.number(name) for entry in entries}) > 1
    ]


def _series(entries: Sequence[_Entry], over: str) -> list[str]:
    """Return the name of each entry's line: the other differences between the runs."""
    left_out = {over, *(_MEMORY if over in _MEMORY else ())}
    known = dict.fromkeys(name for entry in entries for name in entry.facts if name not in left_out)
    differing = [name for name in known if len({entry.facts.get(name) for entry in entries}) > 1]
    bare = ("agent", "env", "model", "plans")
    names = []
    for entry in entries:
        words = [
            entry.facts[name] if name in bare else f"{name}={entry.facts[name]}"
            for name in differing
            if entry.facts.get(name)
        ]
        names.append(" ".join(words) or entry.facts.get("agent") or entry.facts.get("plans", ""))
    return names


def _check_tasks(groups: Mapping[tuple[str, float], Sequence[_Entry]], over: str) -> None:
    """Raise LdmError if runs on one line are not comparable."""
    from ldm.runs import differences

    first: dict[str, _Entry] = {}
    for (series, _), group in groups.items():
        for entry in group:
            other = first.setdefault(series, entry)
            own = over.removeprefix("env.")
            protocols = [
                {k: v for k, v in one.run.manifest.protocol.items() if k != own}
                for one in (other, entry)
            ]
            if changes := differences(protocols[0], protocols[1]):
                raise LdmError(
                    f"{other.run.directory} and {entry.run.directory} cannot be on one line. Their "
                    f"protocols differ: {'; '.join(changes)}.",
                    "Evaluate both in the same way.",
                )
