"""Transcripts of commands for golden tests: what they print and write, without what varies.

A transcript holds each command line with its exit status, standard output and standard error, and
the files of the runs that it made. Times, run ids, paths of this machine, ports and the version of
the package are replaced by names in angle brackets; a JSON object is written with one value a line.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.conftest import Outcome, run
from tests.conftest import Golden

#: The end of a run's id: date, time, a random number.
RUN_ID = re.compile(r"\b(\d{8}-\d{6}-[0-9a-f]{4})\b")
#: What differs from one time to the next, or from one machine to the next.
VARIABLE = (
    (re.compile(r"http://127\.0\.0\.1:(?!11434/)\d+/v1"), "<server>"),  # 11434: Ollama's, in help
    (re.compile(r"\b\d{16,}-\d+-[0-9a-f]{4}\.jsonl"), "<part>.jsonl"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:[+-]\d\d:\d\d|Z)"), "<time>"),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)? s\b"), "<seconds> s"),
    (re.compile(r"^[\w ]+: \d+ of \d+ \(<seconds> s\)\n", re.MULTILINE), ""),  # of slow work
    (
        re.compile(r"(Traceback \(most recent call last\):).*?\\n(?=\w+(?:Error|Exception))"),
        r"\1 … ",
    ),
)
#: Headings of a table's columns of times; the numbers below them end where they end.
TIME_COLUMNS = re.compile(r"(?<=  )(seconds|s/task)(?=  |\s*$)")
#: Keys of JSON objects whose values vary: all numbers below them are times.
TIMES = ("seconds", "latency")


@dataclass
class Transcript:
    """Runs commands in this process, and notes what became of them.

    file: what the transcript has to equal, as `golden` compares it. places: path on this machine →
    the name that stands for it.
    """

    golden: Golden
    file: Path
    places: Mapping[Path, str]
    sections: list[str] = field(default_factory=list)

    def ldm(self, *arguments: object) -> Outcome:
        """Run `ldm ARGUMENTS` and note it with everything that it prints."""
        outcome = run(*arguments)
        out = outcome.out
        if "--json" in arguments and out:
            out = pretty(json.loads(out)) + "\n"
        self.add(f"$ ldm {' '.join(map(str, arguments))}", f"exit status {outcome.code}")
        for name, text in (("standard output", out), ("standard error", outcome.err)):
            if text:
                self.add(f"-- {name}", text.rstrip("\n"))
        return outcome

    def add(self, *texts: str) -> None:
        """Note texts as they are; they are normalised with the rest."""
        self.sections += [*texts]

    def add_runs(self) -> None:
        """Note the files of all runs below runs/, in the order in which they were named so far."""
        text = "\n".join(self.sections)
        positions = {path.name: text.find(path.name) for path in Path("runs").iterdir()}
        for directory in (
            Path("runs") / name for name in sorted(positions, key=positions.__getitem__)
        ):
            self.add(f"== {directory}")
            for path in sorted(p for p in directory.rglob("*") if p.is_file()):
                name, lines = path.relative_to(directory), ""
                if path.suffix == ".jsonl":
                    lines = f" ({len(path.read_text('utf-8').splitlines())} lines)"
                self.add(f"{name}{lines}")
            self.add("-- run.json", pretty(json.loads((directory / "run.json").read_text("utf-8"))))
            results = directory / "episodes.jsonl"
            if results.is_file():
                self.add("-- episodes.jsonl")
                for line in results.read_text("utf-8").splitlines():
                    self.add(json.dumps(timeless(json.loads(line)), ensure_ascii=False))

    def check(self) -> None:
        """Compare the transcript with its file."""
        self.golden(self.file, self.text)

    @property
    def text(self) -> str:
        """The whole transcript, normalised."""
        text = "\n".join(self.sections) + "\n"
        for path in sorted(self.places, key=lambda p: -len(str(p))):
            text = text.replace(str(path), self.places[path])
        numbers = {name: n for n, name in enumerate(dict.fromkeys(RUN_ID.findall(text)), 1)}
        text = RUN_ID.sub(lambda match: f"<run {numbers[match[1]]}>", text)
        for pattern, name in VARIABLE:
            text = pattern.sub(name, text)
        return without_times(text)


def without_times(text: str) -> str:
    """A text with the numbers in its tables' columns of times replaced by dots."""
    lines, spans = [], list[tuple[int, int]]()
    for line in text.splitlines():
        if columns := [match.span() for match in TIME_COLUMNS.finditer(line)]:
            spans = columns
        elif not line.strip():
            spans = []
        elif not line.strip().startswith("─"):
            for start, end in spans:
                line = line[:start] + "·".rjust(end - start) + line[end:]
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def timeless(value: Any, times: bool = False) -> Any:
    """A JSON value without its times and without the version of the code."""
    match value:
        case dict() if {"version", "commit", "dirty"} <= set(value):
            return dict.fromkeys(value, "<code>")
        case {"plans": _, "digest": str()}:  # plans hold times
            return {**timeless(value | {"digest": None}, times), "digest": "<digest>"}
        case dict():
            return {name: timeless(item, times or name in TIMES) for name, item in value.items()}
        case list():
            return [timeless(item, times) for item in value]
        case bool() | None:
            return value
        case int() | float() if times:
            return "<seconds>"
        case float():
            return round(value, 6)
    return value


def pretty(value: Any) -> str:
    """A JSON value as text, without its times; keys stay in their order."""
    return json.dumps(timeless(value), indent=1, ensure_ascii=False)
