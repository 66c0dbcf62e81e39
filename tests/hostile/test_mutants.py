"""Every mutant of every format is read, or refused with a reason, and no other line is lost."""

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ldm import records
from ldm.errors import LdmError
from ldm.text import Problem, printable, printable_json, read_lines
from tests.cli.conftest import run
from tests.embedder import BagOfWords
from tests.hostile.formats import subjects
from tests.hostile.strategies import ACTING, mutants, texts, values
from tests.hostile.subject import Subject

#: Characters that a command may print of one file.
PRINTED = 100_000
QUIET = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


def end_of(subject: Subject, path: Path) -> str:
    """Read a file; return "read", "problem" or "refused". Raises whatever is no way to end."""
    try:
        results = list(subject.read(path))
    except LdmError as error:
        return "refused" if printable(str(error)).encode().strip() else "an error without words"
    torn = subject.torn_tail and not path.read_bytes().endswith(b"\n")
    if subject.by_line:
        assert len(results) >= sum(1 for _ in read_lines(path)) - torn, "lines were lost"
    for one in results:
        if subject.by_line and not isinstance(one, Problem):
            records.loads(records.dumps(one), type(one))  # what was read can be written
    return "problem" if any(isinstance(one, Problem) for one in results) else "read"


def give(command: str, path: Path) -> None:
    """Give a file to a whole command."""
    place = path.parent.parent / "command"
    place.mkdir()
    words = command.replace("FILE", str(path)).replace("FOLDER", str(path.parent))
    outcome = run(*words.replace("NEW", str(place / "new.jsonl")).split())
    printed = outcome.out + outcome.err
    assert outcome.code in (0, 1)
    assert "Error inside ldm" not in printed
    assert len(printed) < PRINTED
    assert not ACTING.search(printed)
    assert not outcome.code or not any(place.iterdir()), "something is half-written"


@pytest.mark.slow
def test_every_mutant_is_read_or_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords())
    ends, number = Counter[str](), int(os.environ.get("LDM_MUTANTS", "10"))

    def read(subject: Subject, content: bytes, command: str = "") -> str:
        with TemporaryDirectory(dir=tmp_path) as folder:
            path = Path(folder) / "in" / subject.file
            path.parent.mkdir(parents=True)
            path.write_bytes(subject.wrap(content))
            end = end_of(subject, path)
            if command:
                give(command, path)
        return end

    def attack(subject: Subject) -> None:
        commands = st.sampled_from(["", "", "", *subject.commands])

        @settings(QUIET, max_examples=number, phases=(Phase.generate, Phase.shrink))
        @given(mutants(subject.content, subject.by_line), commands)
        def every(content: bytes, command: str) -> None:
            ends[read(subject, content, command)] += 1

        every()

    for subject in subjects(tmp_path / "sound"):
        try:
            assert read(subject, subject.content) == "read", "a sound file is refused"
            attack(subject)
        except BaseException as error:
            error.add_note(f"format: {subject.name}")
            raise
    print(dict(ends))  # noqa: T201 - `pytest -s` shows it
    assert set(ends) == {"read", "problem", "refused"}, ends


@QUIET
@given(texts(), values())
def test_nothing_acts_once_it_is_printable(text: str, value: object) -> None:
    assert not ACTING.search(printable(text))
    printable(text).encode()
    assert not ACTING.search(printable_json(value))
