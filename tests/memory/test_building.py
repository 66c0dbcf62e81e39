"""Building a memory: idempotent, and one generation at a time or none."""

import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pytest

from ldm.embed import Embedder
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import (
    FormationOptions,
    Memory,
    build,
    environments,
    formation,
    generations,
    inspect,
    record,
)
from ldm.memory.formation import BuildResult, Failures
from ldm.memory.lessons import Contents
from ldm.memory.packs import export
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import Step, Task, Trajectory
from tests.embedder import BagOfWords
from tests.memory.conftest import Places
from tests.toy import ToyOptions, expert_trajectories, rescored

TWELVE = expert_trajectories()
MORE = expert_trajectories(options=ToyOptions(tasks=20))


def make(
    place: Path | str, trajectories: Sequence[Trajectory] = TWELVE, **options: Any
) -> BuildResult:
    embedder: Embedder = options.pop("embedder", None) or BagOfWords()
    return build(str(place), trajectories, embedder, OfflineReasoner, **options)


def exported(place: Path | str) -> bytes:
    """All of the newest generation, as bytes."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "memory.jsonl"
        export(str(place), "toy", file)
        return file.read_bytes()


@pytest.fixture
def at(tmp_path: Path) -> Places:
    """Gives a name a place in the directory of the test."""
    return lambda name="memory": str(tmp_path / name)


class TestAFirstBuild:
    def test_makes_generation_0_of_all_that_it_was_given(self, at: Places) -> None:
        built = make(at(), options=FormationOptions(seed=7))
        assert built.generation.settings["seed"] == "7"
        assert (built.env, built.generation.number, built.generation.origin) == ("toy", 0, "formed")
        assert (built.trajectories, built.skipped) == (12, 0)
        assert built.generation.tuples == len(built.rows) == sum(len(t.steps) for t in TWELVE)
        assert [batch.id for batch in built.batches] == ["fetch-1", "wash-1"]
        assert [*built.rows] == [*inspect(at(), "toy").rows]

    def test_neither_order_nor_repetition_nor_idle_trajectories_matter(self, at: Places) -> None:
        idle = replace(TWELVE[0], steps=(Step("", "", thought="Hm."),))
        embedder = BagOfWords()
        make(at("once"))
        built = make(at("twice"), [*TWELVE[::-1], idle, *TWELVE], embedder=embedder)
        assert (built.trajectories, built.skipped) == (12, 13)
        assert exported(at("once")) == exported(at("twice"))
        texts = list(itertools.chain.from_iterable(embedder.calls))
        assert len(texts) == len(set(texts))
        with pytest.raises(LdmError, match="action"):
            make(at("nothing"), [idle])

    def test_environments_do_not_meet(self, at: Places) -> None:
        for env in ("toy", "Ein Ort: überall!", "tests.toy:ToyEnv", "x"):
            make(at(), [replace(t, task=replace(t.task, env=env)) for t in TWELVE])
        before = {env: inspect(at(), env).rows for env in environments(at())}
        assert len(before) == 4
        make(at(), MORE, rebuild=True)
        for env, rows in before.items():
            assert {row.tuple.env for row in rows} == {env}
            assert env == "toy" or [*inspect(at(), env).rows] == [*rows]

    def test_reports_progress_and_the_seconds_of_each_stage(self, at: Places) -> None:
        reports: list[tuple[str, int, int]] = []
        built = make(at(), on_progress=lambda *report: reports.append(report))
        assert list(built.seconds) == ["embed", "form", "store"]
        for stage in ("embed", "form"):
            done = [(d, total) for name, d, total in reports if name == stage]
            assert [d for d, _ in done] == sorted(d for d, _ in done)
            assert done[-1][0] == done[-1][1]

    def test_forms_as_many_batches_at_a_time_as_the_reasoner_answers(self, at: Places) -> None:
        both = threading.Barrier(2, timeout=20)

        class Slow(OfflineReasoner):
            concurrency = 2

            def cluster_goals(self, goals: Sequence[str]) -> Any:
                both.wait()  # comes back only when both batches have got here
                return super().cluster_goals(goals)

        make(at("one by one"))
        built = build(at("at once"), TWELVE, BagOfWords(), Slow)
        assert [batch.id for batch in built.batches] == ["fetch-1", "wash-1"]
        assert exported(at("one by one")) == exported(at("at once"))

    @pytest.mark.parametrize("text", ["", " ", "a\nb\t“c” ⟨d⟩ 🍎", "x" * 20_000, 'say "a\\b"'])
    def test_any_text_comes_back_as_it_was(self, text: str, at: Places) -> None:
        task = Task("train/1", "toy", "train", text, "fetch")
        steps = (Step("look", text), Step(text or "wait", "."))
        make(at(), [Trajectory(task, text, steps, 1.0, True, "human")])
        rows = inspect(at(), "toy").rows
        assert {row.tuple.goal for row in rows} == {text}
        assert {row.tuple.observation for row in rows} == {text}
        assert {row.tuple.action for row in rows} == {"look", text or "wait"}


class TestBuildingAgain:
    def test_with_nothing_new_does_nothing(self, at: Places) -> None:
        make(at())
        before = exported(at())
        embedder = BagOfWords()
        built = make(at(), TWELVE[3:], embedder=embedder)
        assert (built.trajectories, built.skipped, built.seconds) == (0, 9, {})
        assert built.generation.number == 0
        assert not embedder.calls
        assert exported(at()) == before

    def test_with_more_adds_batches_in_a_new_generation(self, at: Places) -> None:
        first = make(at())
        built = make(at(), MORE)
        assert (built.trajectories, built.skipped) == (8, 12)
        assert built.generation.number == 1
        assert [batch.id for batch in built.batches] == ["fetch-1", "fetch-2", "wash-1", "wash-2"]
        assert {b.id for b in built.batches if b.generation == 0} == {b.id for b in first.batches}
        assert set(first.rows) <= set(built.rows)
        assert [g.number for g in generations(at(), "toy")] == [0, 1]

    def test_an_earlier_generation_stays_as_it_was(self, at: Places) -> None:
        first = make(at())
        make(at(), MORE)
        earlier = inspect(at(), "toy", 0)
        assert ([*earlier.rows], earlier.batches) == ([*first.rows], first.batches)
        memory = Memory.open(at(), "toy", embedder=BagOfWords(), generation=0)
        assert memory.generation == 0
        recalls = memory.retrieve("put the fig in the basket", "You hold the fig.", 100)
        assert {recall.tuple.generation for recall in recalls} == {0}

    def test_rebuild_starts_over(self, at: Places) -> None:
        make(at())
        make(at(), MORE)
        built = make(at(), MORE, rebuild=True)
        assert (built.trajectories, built.generation.number) == (20, 0)
        make(at("fresh"), MORE)
        assert exported(at()) == exported(at("fresh"))

    def test_another_embedder_is_refused_unless_it_rebuilds(self, at: Places) -> None:
        make(at())
        other = BagOfWords("other", 8)
        with pytest.raises(MemoryStoreError, match="'bag-of-words', not 'other'") as refused:
            make(at(), MORE, embedder=other)
        assert "--rebuild" in refused.value.remedy
        with pytest.raises(MemoryStoreError, match="not 'other'"):
            Memory.open(at(), "toy", embedder=other)
        built = make(at(), TWELVE, embedder=other, rebuild=True)
        assert (built.generation.embedder, built.generation.dimension) == ("other", 8)
        assert len(Memory.open(at(), "toy", embedder=other)) == len(built.rows)


class Stopped(KeyboardInterrupt):
    """The user's Ctrl-C at a moment of our choice."""


@contextmanager
def stopped_at(moment: int) -> Iterator[Callable[[], int]]:
    """Interrupt before the `moment`-th write, counted from 0; yields the number of writes."""
    writes = 0
    patch = pytest.MonkeyPatch()

    def interrupting(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **kwargs: Any) -> Any:
            nonlocal writes
            if writes == moment:
                raise Stopped
            writes += 1
            return original(*args, **kwargs)

        return write

    for owner, name in [
        *((os, name) for name in ("fsync", "rename", "replace", "unlink")),
        *((Path, name) for name in ("rename", "replace", "unlink", "mkdir")),
        (np, "save"),
        (shutil, "rmtree"),
    ]:
        patch.setattr(owner, name, interrupting(getattr(owner, name)))
    try:
        yield lambda: writes
    finally:
        patch.undo()


SMALL, SLOW = FormationOptions(batch_size=4), pytest.mark.slow


@pytest.mark.parametrize(
    ("before", "after", "rebuild"),
    [(0, 8, False), pytest.param(4, 8, False, marks=SLOW), pytest.param(8, 4, True, marks=SLOW)],
)
def test_a_build_that_is_stopped_at_any_write_is_complete_or_absent_and_completed_by_the_next(
    before: int, after: int, rebuild: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before:
        make(tmp_path / "before", TWELVE[:before], options=SMALL)

    def fresh(name: str) -> Path:
        return shutil.copytree(tmp_path / "before", tmp_path / name) if before else tmp_path / name

    formed: dict[bool, Contents] = {}  # what is formed is always the same, and takes the time
    form = formation.form

    def remembered(*given: Any, **more: Any) -> Contents:
        if (first := given[-1] is None) not in formed:
            formed[first] = form(*given, **more)
        return formed[first]

    monkeypatch.setattr(formation, "form", remembered)
    work = partial(make, trajectories=TWELVE[:after], options=SMALL, rebuild=rebuild)
    whole = fresh("whole")
    whole_ones = {exported(whole)} if before else set[bytes]()
    with stopped_at(-1) as writes:
        work(whole)
    expected = exported(whole)
    whole_ones.add(expected)
    assert writes() > 5
    for moment in range(before % 3, writes(), 3):
        stopped = fresh(f"stopped-{moment}")
        with pytest.raises(Stopped), stopped_at(moment):
            work(stopped)
        if (stopped / record.MARK).exists() and generations(str(stopped), "toy"):
            assert exported(stopped) in whole_ones, moment
        work(stopped)
        assert exported(stopped) == expected, moment
        assert verify(str(stopped), "toy") == []


class TestFailures:
    """Trajectories that earned little or nothing are remembered as the options say."""

    @pytest.mark.parametrize(
        ("options", "left_out", "warned"),
        [({}, 1, []), ({"min_reward": 0.6}, 2, []), ({"failures": "keep"}, 0, []),
         ({"failures": "contrast"}, 0, [2]), ({"failures": "contrast", "min_reward": 0.6}, 1, [2])],
    )  # fmt: skip
    def test_are_remembered_as_the_options_say(
        self, options: dict[str, Any], left_out: int, warned: list[int], tmp_path: Path
    ) -> None:
        trajectories = rescored({2: 0.0, 5: 0.5, 7: 0.6})
        built = make(tmp_path, trajectories, options=FormationOptions(**options))
        assert (built.trajectories, built.left_out, built.skipped) == (12 - left_out, left_out, 0)
        warnings = {row.tuple.trajectory_id for row in built.rows if row.tuple.is_warning}
        assert warnings == {trajectories[number].id for number in warned}
        settings = {"failures": "drop", **options, **({"left_out": left_out} if left_out else {})}
        expected = {} if settings == {"failures": "keep"} else settings
        named = ("failures", "left_out", "min_reward")
        recorded = {n: v for n, v in built.generation.settings.items() if n in named}
        assert recorded == {name: str(value) for name, value in expected.items()}
        assert [*built.rows] == [*inspect(str(tmp_path), "toy").rows]

    def test_options_that_make_no_difference_change_nothing(self, tmp_path: Path) -> None:
        make(tmp_path / "default")
        for failures in get_args(Failures):
            place = tmp_path / failures
            make(place, options=FormationOptions(failures=failures, min_reward=1.0))
            assert exported(place) == exported(tmp_path / "default")

    def test_where_nothing_is_left_an_error_says_what_to_do(self, tmp_path: Path) -> None:
        make(tmp_path)
        before = exported(tmp_path)
        lost = rescored(dict.fromkeys(range(12), 0.0))
        with pytest.raises(LdmError, match="All 12 trajectories are failures") as caught:
            make(tmp_path, lost, rebuild=True)
        assert "--failures keep" in caught.value.remedy
        low = rescored(dict.fromkeys(range(12), 0.25))
        with pytest.raises(LdmError, match=r"None of the 12 .* 0\.5 or more: the best is 0.25"):
            make(tmp_path, low, rebuild=True, options=FormationOptions(min_reward=0.5))
        assert exported(tmp_path) == before


@pytest.mark.process
def test_a_large_memory_is_published_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldm.memory.places.LARGE", 1)
    stages = list[str]()
    make(tmp_path, on_progress=lambda stage, *_: stages.append(stage))
    assert (stages[-1], verify(str(tmp_path), "toy")) == ("publish", [])
    (tmp_path / "chroma" / "mine").touch()
    with pytest.raises(MemoryStoreError, match=r"not published to Chroma: .* other"):
        make(tmp_path, MORE)
