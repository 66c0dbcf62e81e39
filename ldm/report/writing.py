"""Write the page on recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ldm.errors import LdmError
from ldm.records import replacing, writing
from ldm.report import details, overview
from ldm.report.details import Json, Numbering
from ldm.report.overview import Content
from ldm.report.page import Chunks, page
from ldm.run.reading import ReadRun, read_run, tuples_of
from ldm.run.results import gains
from ldm.run.runtime import DEFAULT_RUNS
from ldm.version import __version__


def write_report(
    runs: Sequence[str | Path],
    path: str | Path = "report.html",
    *,
    folder: Path = DEFAULT_RUNS,
    trust: bool = False,
) -> Path:
    """Write a report on recorded runs, and return its path.

    runs: directories, or ids below `folder`: evaluations, refinements and plan optimisations, also
    unfinished ones. path: the file, which is replaced. trust: as for `ldm.compare`.
    Raise LdmError if a run cannot be read or the file cannot be written.
    """
    if not runs:
        raise LdmError("No run is named.", "Name recorded runs; `ldm runs list` lists them.")
    opened = [read_run(name, folder, trust=trust) for name in runs]
    directories = [one.run.directory.resolve() for one in opened]
    for place, directory in enumerate(directories):
        if directory in directories[:place]:
            raise LdmError(f"{opened[place].run.directory} is named twice.", "Name each run once.")
    content = _content(opened)
    target = Path(path)
    with writing(target), replacing(target) as file:
        file.write(content)
    return target


def _content(runs: Sequence[ReadRun]) -> str:
    chunks, numbering = Chunks(), Numbering()
    contents = [Content(run, run.episodes(), run.goals()) for run in runs]
    names = overview.labels_of(runs)
    reports = [
        overview.report_of(content, name) for content, name in zip(contents, names, strict=True)
    ]
    data, entries = [], 0
    for content, name, report in zip(contents, names, reports, strict=True):
        numbering.take(tuples_of(content.run, content.episodes))
        rows = _packed_entries(content, entries, numbering, chunks)
        entries += len(rows)
        data.append({**overview.run_data(content, name, report), "entries": rows})
    for one in numbering.as_data():
        chunks.add("tuples", one)
    chunks.close()
    chunks.put("uses", numbering.uses)
    comparable = [one for one in reports if one is not None]
    prints = {one.run.manifest.fingerprint for one in runs if one.run.manifest.command == "eval"}
    chunks.put(
        "overview",
        {
            "version": __version__,
            "columns": overview.columns(),
            "runs": data,
            "curves": overview.curves(contents, names),
            "differences": gains(comparable) if len(prints) == 1 and len(comparable) > 1 else [],
            "tuples": chunks.sizes.get("tuples", []),
            "labels": names,
        },
    )
    title = names[0] if len(names) == 1 else f"{len(names)} runs"
    return page(f"{title} – ldm report", chunks.packed)


def _packed_entries(
    content: Content, start: int, numbering: Numbering, chunks: Chunks
) -> list[Json]:
    """Pack the episodes and goals of a run, and return their rows with the place of each.

    start: the number of the first among all entries.
    """
    calls = {call.key: call for call in content.run.calls()}
    rows = list(details.entry_rows(content.episodes, content.goals))
    for number, (row, episode) in enumerate(zip(rows, content.episodes, strict=False)):
        numbering.used(start + number, episode.trials)
        data = details.episode_data(content.run, episode, content.reporting, numbering.numbers)
        row["at"] = chunks.add("entries", data)
        keys = [
            key
            for trial in range(len(episode.trials))
            for of_step in episode.calls(trial).values()
            for key in of_step
        ]
        made = [calls[key] for key in dict.fromkeys(keys) if key in calls]
        if made:
            row["asked"] = chunks.add("calls", details.call_data(made))
    for row, goal in zip(rows[len(content.episodes) :], content.goals, strict=True):
        row["at"] = chunks.add("entries", details.goal_data(goal))
    return rows
