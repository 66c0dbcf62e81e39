"""Mutated inputs over all formats: each is read, or refused with a reason.

    python -m tests.hostile.mutants 10000

Of each format a sound example is changed (`tests.hostile.strategies`) and read as commands read it.
What comes of it is a record, a problem or an LdmError, soon and with little memory, and the other
lines are kept. Every tenth is given to a whole command, if one takes it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from ldm import records
from ldm.cli.app import main as command_line
from ldm.errors import LdmError
from ldm.text import Problem, printable, read_lines
from ldm.types import Trajectory
from tests.embedder import BagOfWords
from tests.hostile.formats import subjects
from tests.hostile.strategies import mutants
from tests.hostile.subject import Subject

#: Seconds that any reading may take.
PATIENCE = 30
#: MiB that reading a file of some kilobytes may take beside what the process has.
MEMORY = 256
#: Characters that a command may print of one.
PRINTED = 100_000
#: Of so many mutants one is given to a whole command.
EVERY = 10
#: What no output may hold.
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Hangs(BaseException):
    """Reading took too long."""


def daily_seed() -> int:
    """Return the number of the day, or $LDM_SEED: other mutants every day, the same all day."""
    return int(os.environ.get("LDM_SEED") or datetime.now(UTC).date().toordinal())


def outcome(subject: Subject, path: Path) -> str:
    """Read a file; return "read", "problem" or "refused". Raises what is no way to end."""
    try:
        with bounded():
            results = list(subject.read(path))
    except LdmError as error:
        printable(str(error)).encode()
        if not str(error).strip():
            raise AssertionError("an error without words") from error
        return "refused"
    torn = subject.torn_tail and not path.read_bytes().endswith(b"\n")
    if subject.by_line and len(results) < sum(1 for _ in read_lines(path)) - torn:
        raise AssertionError(f"{len(results)} results: lines were lost")
    for one in results:
        if not isinstance(one, Problem) and hasattr(type(one), "__pydantic_config__"):
            records.loads(records.dumps(one), type(one))  # what was read can be written
    return "problem" if any(isinstance(one, Problem) for one in results) else "read"


@contextmanager
def bounded() -> Iterator[None]:
    """Raise where the work inside takes more than PATIENCE or MEMORY."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"more than {PATIENCE} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    before = _memory(reset=True)
    try:
        yield
    finally:
        signal.alarm(0)
        if (taken := _memory() - before) > MEMORY:
            raise AssertionError(f"{taken} MiB were taken")


def _memory(*, reset: bool = False) -> int:
    """Return the most MiB that the process had since the last reset; 0 where nobody can tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status.read_text())[0]) >> 10


def of_command(command: str, path: Path, by_line: bool) -> str:
    """Give a file to a whole command, in its folder; return how that ended."""
    place = path.parent / "command"
    place.mkdir()
    games = path.parents[4] if "GAMES" in command else path
    words = command.replace("FILE", str(path)).replace("FOLDER", str(path.parent))
    words = words.replace("PARENT", str(path.parent.parent)).replace("GAMES", str(games))
    words = words.replace("NEW", str(place / "new")).replace("out.jsonl", str(place / "out.jsonl"))
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["ldm", *words.split()]),
        patch("ldm.embed.load_embedder", lambda name=None: BagOfWords()),
        redirect_stdout(out),
        redirect_stderr(err),
        bounded(),
    ):
        try:
            command_line()
            code: object = 0
        except SystemExit as finished:
            code = finished.code or 0
    printed = out.getvalue() + err.getvalue()
    if code not in (0, 1) or "Error inside ldm" in printed:
        raise AssertionError(f"{words}: {code}, {printed[-1500:]}")
    if len(printed) > PRINTED or (acting := ACTING.search(printed)):
        raise AssertionError(f"{words}: prints {len(printed)} characters, {acting!r}")
    left = [one for one in place.rglob("*") if one.name.endswith(".tmp")]
    made = place / "out.jsonl"
    if left or (code and any(place.iterdir())):
        raise AssertionError(f"{words}: something is half-written: {[*place.iterdir()]}")
    if made.exists():
        count = len(records.read(made, Trajectory))
        problems = re.search(r"(\d+) invalid records? skipped", printed)
        skipped = int(problems[1]) if problems else 0
        if by_line and count + skipped < sum(1 for _ in read_lines(path)):
            raise AssertionError(f"{words}: lines were lost")
    return "command failed" if code else "command ended well"


class Attack:
    """Reads mutants of each format in turn, and counts what came of them.

    wrong: what went wrong, with the simplest mutant of its format that does.
    """

    def __init__(self, folder: Path, first: int) -> None:
        """Make the sound examples in a folder, and check them. first: the seed."""
        self.counts = Counter[str]()
        self.wrong: list[str] = []
        self._folder = folder
        self._seed = first
        self._number = 0
        self._subjects = subjects(folder / "sound")
        for subject in self._subjects:
            path = self._written(subject, subject.content)
            if (end := outcome(subject, path)) != "read":
                raise AssertionError(f"a sound {subject.name} is a {end}")

    def run(self, number: int) -> None:
        """Read `number` mutants, equally many of each format."""
        for place, subject in enumerate(self._subjects):
            share = number * (place + 1) // len(self._subjects)
            self._attack(subject, share - number * place // len(self._subjects))

    def _attack(self, subject: Subject, number: int) -> None:
        taken = 0

        @seed(self._seed)
        @settings(
            max_examples=max(number, 1),
            database=None,
            deadline=None,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        @given(mutants(subject.content, by_line=subject.by_line))
        def every(mutant: tuple[object, bytes]) -> None:
            nonlocal taken
            taken += 1
            edits, content = mutant
            path = self._written(subject, content)
            try:
                end = outcome(subject, path)
                self.counts[f"{subject.name}: {end}"] += 1
                if subject.commands and taken % EVERY == 1:
                    command = subject.commands[taken // EVERY % len(subject.commands)]
                    of_command(command, path, subject.by_line)
                    self.counts["given to whole commands"] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                raise Wrong(f"{edits}\n{traceback.format_exc()[-1500:]}") from error
            shutil.rmtree(self._folder / str(self._number))

        try:
            while taken < number:  # there may be fewer different ones than asked for
                before = taken
                every()
                if taken == before:
                    break
                self._seed += 1
        except BaseExceptionGroup as several:
            self.wrong += [f"{subject.name}: {one}" for one in several.exceptions]
        except Wrong as error:
            self.wrong.append(f"{subject.name}: {error}")

    def _written(self, subject: Subject, content: bytes) -> Path:
        self._number += 1
        path = self._folder / str(self._number) / subject.file
        path.parent.mkdir(parents=True)
        path.write_bytes(subject.wrap(content))
        return path


class Wrong(Exception):
    """What must not happen, with the edits that make it happen."""


def main() -> None:
    """Print the counts by format, and whatever went wrong; exit with 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=daily_seed())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), arguments.seed)
        attack.run(arguments.number)
    total = Counter[str]()
    for name, count in sorted(attack.counts.items()):
        print(f"{count:6} {name}")  # noqa: T201
        total[name.rpartition(": ")[2]] += count
    print(json.dumps({**total, "seed": arguments.seed, "wrong": len(attack.wrong)}))  # noqa: T201
    for one in attack.wrong:
        print(one)  # noqa: T201
    sys.exit(bool(attack.wrong))


if __name__ == "__main__":
    main()
