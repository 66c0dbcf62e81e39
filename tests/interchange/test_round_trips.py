"""Whatever a trajectory holds, it comes back equal from every format that is written."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldm
from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.types import Origin, Step, Task, Trajectory
from tests.test_types import TRAJECTORY
from tests.toy import expert_trajectories

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
STEPS = st.builds(
    Step,
    action=TEXT,
    observation=TEXT,
    reward=st.floats(-1, 1),
    thought=TEXT,
    valid=st.booleans(),
    recalls=st.lists(st.tuples(TEXT, st.floats(-1, 1)), max_size=2).map(tuple),
    followed=st.none() | st.lists(st.integers(0, 2**53), max_size=2).map(tuple),
    possible=st.none() | st.lists(TEXT, min_size=1, max_size=2).map(tuple),
)
LABELS = st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple)
TRAJECTORIES = st.builds(
    Trajectory,
    task=st.builds(Task, *[TEXT] * 6),
    opening=TEXT,
    steps=st.lists(STEPS, max_size=4).map(tuple),
    score=st.floats(0, 1),
    success=st.booleans(),
    origin=st.sampled_from(get_args(Origin)),
    time=st.floats(0, 1e12),
    scope=LABELS,
    tags=LABELS,
)
#: (name of the file, format)
WRITTEN = [("x.jsonl", "ldm"), ("x.jsonl", "chat"), ("x.jsonl.gz", "chat")]


@pytest.mark.parametrize(("name", "kind"), WRITTEN)
@settings(deadline=None, max_examples=25)
@given(st.lists(TRAJECTORIES, min_size=1, max_size=3))
def test_any_come_back_equal(name: str, kind: str, trajectories: list[Trajectory]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        formats.write(path, trajectories, kind)
        assert ldm.read_trajectories(path) == trajectories  # the format is told by the file


@pytest.mark.parametrize(("name", "kind"), WRITTEN)
def test_repetition_and_assumptions_change_nothing(name: str, kind: str, tmp_path: Path) -> None:
    ours = [*expert_trajectories(), *[TRAJECTORY] * 12]
    ldm.write_trajectories(tmp_path / name, ours, to=kind)
    assumed = Assumed(env="other", kind="other", score=0.5)
    assert ldm.read_trajectories(tmp_path / name) == ours
    assert ldm.read_trajectories(tmp_path / name, assumed=assumed) == ours


@pytest.mark.parametrize(("name", "kind"), WRITTEN)
def test_recorded_come_back_equal(name: str, kind: str, tmp_path: Path, shared_data: Path) -> None:
    recorded = ldm.read_trajectories(shared_data / "webshop" / "react_episodes.jsonl")
    assert any(step.thought and not step.action for one in recorded for step in one.steps)
    ldm.write_trajectories(tmp_path / name, recorded, to=kind)
    assert ldm.read_trajectories(tmp_path / name) == recorded


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("x.parquet", "chat", "Let it end in .jsonl or .jsonl.gz"),
        ("x.jsonl", "webshop-episodes", "There is no output format"),
    ],
)
def test_no_unreadable_file_is_written(name: str, kind: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LdmError, match=message):
        formats.write(tmp_path / name, [TRAJECTORY], kind)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["[" * 100_000, "null}", '[{"role": 1, "source": 1}]}'], ids=len)
def test_hostile_lines_lose_no_others(value: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    formats.write(path, [TRAJECTORY], "chat")
    path.write_text(f'{{"messages": {value}\n{path.read_text()}')
    formats.format_of(path)  # no traceback, whatever it is taken for
    bad, good = formats.read(path, "chat", Assumed(env="kitchen"))
    assert isinstance(bad, Problem)
    assert (bad.file, bad.line, good) == (str(path), 1, TRAJECTORY)
