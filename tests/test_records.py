"""The JSONL codec: what goes in comes out; what does not fit is named by file, line and field."""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm import records
from ldm.errors import LdmError, RecordError
from ldm.records import Problem
from ldm.types import EpisodeResult, Note, Step, Task, Trajectory, Usage
from tests.test_types import TRAJECTORY, TUPLE
from tests.toy import expert_trajectories

TASK = Task("ü/1", "kitchen", "test", "heat an egg", "heat")
NOTE = Note("plan", 0, {"steps": ["a", 1, None]})
USAGE = Usage(1, 2, 3, 4)
RESULT = EpisodeResult(TASK, "ldm", 1, 0, "done", 1.0, True, 3, 1, USAGE, 0.5, notes=(NOTE,))
TEXT = st.text(st.characters(codec="utf-8"))


def lines(path: Path, *texts: str) -> Path:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


class TestRoundTrip:
    @given(TEXT, TEXT, TEXT, st.floats(0, 1), st.booleans())
    def test_any_text_comes_back_on_one_line(
        self, action: str, observation: str, thought: str, reward: float, valid: bool
    ) -> None:
        step = Step(action, observation, reward, thought, valid, (("id", 0.5),))
        text = records.dumps(step)
        assert "\n" not in text
        assert records.loads(text, Step) == step

    @pytest.mark.parametrize("name", ["a.jsonl", "deep/er/a.jsonl.gz"])
    def test_files_come_back_equal_and_equal_records_give_equal_bytes(
        self, name: str, tmp_path: Path
    ) -> None:
        trajectories = expert_trajectories()
        first, second = tmp_path / "1" / name, tmp_path / "2" / name
        assert records.write(first, trajectories) == len(trajectories)
        records.write(second, trajectories)
        assert records.read(first, Trajectory) == trajectories
        assert first.read_bytes() == second.read_bytes()


class TestBadLines:
    @pytest.mark.parametrize(
        ("change", "field"),
        [({"goal": 3}, "goal"), ({"gaol": "x"}, "gaol"), ({"kind": None}, "kind")],
    )
    def test_a_field_that_does_not_fit_is_named(
        self, change: dict[str, Any], field: str, tmp_path: Path
    ) -> None:
        bad = json.dumps({**json.loads(records.dumps(TASK)), **change})
        path = lines(tmp_path / "a.jsonl", records.dumps(TASK), bad)
        with pytest.raises(RecordError, match=f"a.jsonl:2:{field}: "):
            records.read(path, Task)

    def test_a_field_within_is_named_by_its_path(self) -> None:
        values = json.loads(records.dumps(TRAJECTORY))
        values["steps"][2]["observation"] = 7
        with pytest.raises(RecordError, match=r":steps\.2\.observation: "):
            records.loads(json.dumps(values), Trajectory)

    def test_a_bad_line_does_not_hide_the_good_ones(self, tmp_path: Path) -> None:
        path = lines(tmp_path / "a.jsonl", records.dumps(TASK), "{", "", records.dumps(TASK))
        good, bad, last = records.scan(path, Task)
        assert good == last == TASK
        assert isinstance(bad, Problem)
        assert str(bad).startswith(f"{path}:2: ")

    def test_a_line_that_is_not_utf8_is_a_bad_line_like_any_other(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(b"\xff\xfe\n" + records.dumps(TASK).encode() + b"\n")
        bad, good = records.scan(path, Task)
        assert isinstance(bad, Problem)
        assert good == TASK
        assert bad.message.startswith("not JSON")


class TestTornFiles:
    @given(st.integers(0, 200))
    def test_a_torn_last_line_is_dropped_wherever_it_was_torn(self, cut: int) -> None:
        line = records.dumps(TASK).encode() + b"\n"
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "a.jsonl"
            path.write_bytes(line * 2 + line[: cut % len(line)])
            assert records.read(path, Task, torn_tail=True) == [TASK, TASK]

    def test_only_where_that_was_asked_for(self, tmp_path: Path) -> None:
        path = lines(tmp_path / "a.jsonl", records.dumps(TASK))
        path.write_bytes(path.read_bytes() + b'{"id": "\xc3')
        with pytest.raises(RecordError, match=":2"):
            records.read(path, Task)

    @pytest.mark.parametrize("damage", ["short", "not gzip"])
    def test_a_damaged_gzip_file_is_named(self, damage: str, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl.gz"
        whole = gzip.compress((records.dumps(TASK) + "\n").encode() * 50)
        path.write_bytes(whole[:-12] if damage == "short" else b"plain")
        with pytest.raises(LdmError, match=r"a\.jsonl\.gz cannot be read"):
            records.read(path, Task)


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", "old")

    def failing() -> Any:
        yield TASK
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - our own
        records.write(path, failing())
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "record"),
    [("task", TASK), ("trajectory", TRAJECTORY), ("tuple", TUPLE), ("episode", RESULT)],
)
def test_every_record_fits_its_published_schema(name: str, record: Any) -> None:
    jsonschema.Draft202012Validator(records.schema(name)).validate(
        json.loads(records.dumps(record))
    )
