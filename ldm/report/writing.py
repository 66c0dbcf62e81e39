"""Write the page on recorded runs: one file with styles, scripts and data, which makes no request.

Data are JSON, compressed in chunks that the page unpacks on demand. In base64 no text of a record
can end the script that holds it. A Content-Security-Policy names the hashes of our own styles and
scripts, and forbids all others and every request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.records import replacing, writing
from ldm.report import overview
from ldm.report.overview import Content, Json, Numbering
from ldm.run.reading import ReadRun, read_run, tuples_of
from ldm.run.results import gains
from ldm.run.runtime import DEFAULT_RUNS
from ldm.text import redacted_json
from ldm.version import __version__

#: In the order of use; the first makes all of them strict.
SCRIPTS = (
    "data.js",
    "dom.js",
    "vendor/uplot.js",
    "charts.js",
    "overview.js",
    "episodes.js",
    "episode.js",
    "side_by_side.js",
    "main.js",
)
STYLES = ("vendor/uplot.css", "report.css")
#: Approximate characters of JSON in a chunk, which is unpacked when one of its episodes is opened.
CHUNK = 400_000
_MARK = re.compile(r"@([A-Z]+)@")
#: Level of compression; the highest takes three times as long and saves a twentieth.
LEVEL = 6


def text_of(name: str) -> str:
    """Return a file of the page."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@dataclass
class Chunks:
    """Packed data by name, and the open chunk of each kind.

    sizes: kind → number of values in each of its chunks.
    """

    packed: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    _open: dict[str, list[str]] = field(default_factory=dict)
    _lengths: dict[str, int] = field(default_factory=dict)

    def put(self, name: str, value: Any) -> None:
        """Pack a value under a name of its own."""
        self.packed[name] = _packed(_json(value))

    def add(self, kind: str, value: Any) -> tuple[int, int]:
        """Add a value to its kind; return the chunk's number and the place in it."""
        if self._lengths.get(kind, 0) > CHUNK:
            self._close(kind)
        parts, text = self._open.setdefault(kind, []), _json(value)
        parts.append(text)
        self._lengths[kind] = self._lengths.get(kind, 0) + len(text)
        return len(self.sizes.get(kind, ())), len(parts) - 1

    def close(self) -> None:
        """Pack the open chunks."""
        for kind in list(self._open):
            self._close(kind)

    def _close(self, kind: str) -> None:
        parts = self._open.pop(kind)
        self._lengths[kind] = 0
        sizes = self.sizes.setdefault(kind, [])
        self.packed[f"{kind}-{len(sizes)}"] = _packed(f"[{','.join(parts)}]")
        sizes.append(len(parts))


def page(title: str, chunks: Mapping[str, str]) -> str:
    """Return the page. chunks: packed data by name."""
    script = "\n".join(text_of(name) for name in SCRIPTS)
    style = "\n".join(text_of(name) for name in STYLES)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{packed}</script>'
        for name, packed in chunks.items()
    )
    parts = {
        "POLICY": policy,
        "TITLE": escape(title),
        "NOTICE": text_of("vendor/LICENSE"),
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    # In one pass, as a title may look like a placeholder.
    return _MARK.sub(lambda mark: parts[mark[1]], text_of("report.html"))


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return _json(_finite(value))
    return redacted_json(text)


def _finite(value: Any) -> Any:
    """Return a value with numbers that JSON does not have as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _packed(text: str) -> str:
    raw = text.encode("utf-8", "replace")  # half a surrogate pair cannot be encoded
    return base64.b64encode(gzip.compress(raw, LEVEL, mtime=0)).decode()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


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
    rows = list(overview.entry_rows(content.episodes, content.goals))
    for number, (row, episode) in enumerate(zip(rows, content.episodes, strict=False)):
        numbering.used(start + number, episode.trials)
        data = overview.episode_data(content.run, episode, content.reporting, numbering.numbers)
        row["at"] = chunks.add("entries", data)
        keys = [
            key
            for trial in range(len(episode.trials))
            for of_step in episode.calls(trial).values()
            for key in of_step
        ]
        made = [calls[key] for key in dict.fromkeys(keys) if key in calls]
        if made:
            row["asked"] = chunks.add("calls", overview.call_data(made))
    for row, goal in zip(rows[len(content.episodes) :], content.goals, strict=True):
        row["at"] = chunks.add("entries", overview.goal_data(goal))
    return rows
