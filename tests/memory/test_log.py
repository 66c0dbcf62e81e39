"""The log of episodes: what was appended is there, whole, in order, whoever wrote meanwhile."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.embed.caching import FILES
from ldm.errors import MemoryStoreError
from ldm.memory import build, log
from ldm.memory.index import Place
from ldm.memory.log import Add, Begin, EpisodeLog, Episodes, Finish, StepTaken
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import Task
from tests.embedder import BagOfWords
from tests.memory.desk import episode, opened, told

pytestmark = pytest.mark.usefixtures("folds_here")


def path_of(place: Path) -> Path:
    return place / "environments" / "desk" / "episodes.log"


def test_a_torn_line_was_never_added_and_disturbs_no_later_one(place: Path) -> None:
    memory = opened(place)
    memory.add(episode(1))
    whole = path_of(place).read_bytes()
    for torn in (whole[-50:-1], b"Add\t{", b"x" * 100):
        path_of(place).write_bytes(path_of(place).read_bytes() + torn)
        assert opened(place).pending == memory.pending
        memory.add(episode(memory.pending + 1))
        assert opened(place).pending == memory.pending
    assert memory.pending == 4


@pytest.mark.parametrize(("at", "line"), [(0, 1), (20, 1), (-300, 2), (-10, 2)])
def test_a_damaged_line_is_named(place: Path, at: int, line: int) -> None:
    opened(place).add(episode(1))
    content = bytearray(path_of(place).read_bytes())
    content[at] ^= 1
    path_of(place).write_bytes(content)
    with pytest.raises(MemoryStoreError, match=f"damaged in line {line}") as caught:
        opened(place)
    assert caught.value.remedy == "Remove that line; the others stay."
    build(str(place), [episode(2)], BagOfWords(), OfflineReasoner)
    (problem,) = verify(str(place), "desk")
    assert problem.startswith("log: ")
    assert f"damaged in line {line}" in problem


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a folder", "a loop"])
@pytest.mark.parametrize("name", ["episodes.log", FILES])
def test_nothing_is_written_through_a_link_or_waits_for_a_pipe(
    place: Path, tmp_path: Path, name: str, kind: str
) -> None:
    memory = opened(place)
    memory.add(episode(1))
    memory.feedback(memory.recall("question", "asked"), 1.0)
    (path,), target = path_of(place).parent.glob(name), tmp_path / "target"
    path.rename(target)
    before = target.read_bytes()
    match kind:
        case "a pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case _:
            path.symlink_to(target if kind == "a link" else path)
    try:
        again = opened(place)
        again.add(episode(2))
        again.feedback(again.recall("question", "asked"), 1.0)
    except MemoryStoreError:
        pass
    else:
        assert name == FILES  # which can be lost without harm
    assert target.read_bytes() == before


def test_all_events_of_a_call_are_appended_or_none(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(place)
    memory.add(episode(1))
    before = path_of(place).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ldm.memory.log.os.fsync", full)
        with pytest.raises(MemoryStoreError, match="No space left") as refused:
            memory.add(episode(2))
    assert "nothing was lost" in refused.value.remedy
    assert path_of(place).read_bytes() == before
    assert memory.add(episode(2))
    assert opened(place).pending == 2


def test_vectors_can_be_lost_cut_and_changed_without_harm(place: Path) -> None:
    memory = opened(place)
    memory.add(episode(1))
    memory.add(episode(2))
    expected = [(r.id, r.similarity) for r in memory.recall("question", "asked", k=9)]
    (path,) = path_of(place).parent.glob(FILES)
    content = path.read_bytes()
    for changed in (b"", content[:-3], content[5:], bytes(len(content)), b"\xff" * len(content)):
        path.write_bytes(changed)
        again = opened(place)
        assert [(r.id, r.similarity) for r in again.recall("question", "asked", k=9)] == expected
        again.add(episode(7))
        again.forget(episodes=[episode(7).id], purge=True)
    assert verify(str(place), "desk", BagOfWords()) == []


def test_a_log_that_an_older_copy_replaced_is_read_from_its_beginning(place: Path) -> None:
    memory = opened(place)
    told(memory, "first", ("seen", "one"))
    older = path_of(place).read_bytes()
    told(memory, "second", ("seen", "two"))
    memory.fold()
    path_of(place).write_bytes(older)
    again = opened(place)
    told(again, "third, which is longer than the second one was", ("seen", "three"))
    for one in (again, opened(place)):
        assert {r.tuple.action for r in one.recall("x", "seen")} == {"one", "two", "three"}


def test_an_idle_reader_sees_what_was_added_whatever_number_the_file_has(
    place: Path, tmp_path: Path
) -> None:
    idle = opened(place)
    idle.add(episode(1))
    other = opened(place)
    other.add(episode(2))
    other.forget(episodes=[episode(1).id], purge=True)
    other.add(episode(3))
    found = path_of(place).stat()
    shutil.copyfile(path_of(place), tmp_path / "copy")
    os.utime(tmp_path / "copy", ns=(found.st_atime_ns, found.st_mtime_ns))
    (tmp_path / "copy").rename(path_of(place))  # another file with the same bytes
    actions = {one.tuple.action for one in idle.recall("answer question 3", "asked 3", k=9)}
    assert actions == {f"say {number} {i}" for number in (2, 3) for i in range(2)}
    other.add(episode(4))
    assert idle.recall("answer question 4", "asked 4")[0].tuple.action == "say 4 0"


@pytest.mark.filterwarnings("ignore:Pydantic:UserWarning")
@pytest.mark.parametrize(
    "wrong",
    [
        {"score": 7.0},
        {"score": float("nan")},
        {"time": -1.0},
        {"origin": "martian"},
        {"scope": (("tenant", 7),)},
        {"success": "yes"},
    ],
)
def test_a_trajectory_that_could_not_be_read_again_is_refused(
    place: Path, wrong: dict[str, Any]
) -> None:
    memory = opened(place)
    memory.add(episode(1))
    try:
        trajectory = replace(episode(2), **wrong)
    except (TypeError, ValueError):
        return  # refused even earlier
    with pytest.raises((TypeError, ValueError)):
        memory.add(trajectory)
    assert opened(place).pending == memory.pending == 1


def test_an_episode_that_is_too_long_for_a_line_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_LENGTH", 3_000)
    memory = opened(place)
    memory.add(episode(1))
    with pytest.raises(ValueError, match="too long: record its steps"):
        memory.add(episode(2, steps=100))
    running = memory.begin("a long one")
    for number in range(100):
        running.step(f"seen {number}", f"do {number}")
    running.finish(1)
    assert len(opened(place)) == len(memory) == 102


def test_the_log_of_an_episode_grows_linearly_with_its_length(place: Path) -> None:
    sizes = []
    for count in (50, 100):
        memory = opened(place / str(count))
        running = memory.begin("walk")
        for number in range(count):
            running.step(f"{number}: " + "you see " * 50, f"go {number}")
        running.finish(1)
        sizes.append(path_of(place / str(count)).stat().st_size)
    assert sizes[1] < 2.1 * sizes[0]


def test_events_without_a_beginning_or_of_two_ends_tell_of_nothing_twice() -> None:
    begin = Begin("a", Task("recorded/a", "desk", "train", "goal", ""), "agent")
    step = StepTaken("a", "seen", "act")
    episodes = Episodes()
    assert episodes.take([StepTaken("b", "seen", "act"), Finish("b", 1.0)]) == {}
    assert episodes.take([begin, step]) == {}
    assert [*episodes.take([Finish("a", 1.0), Finish("a", 0.0)])] == ["a"]
    assert episodes.finished["a"].score == 1.0
    assert episodes.running == {}
    assert len(episodes.take([Add(episode(1)), Add(episode(1))])) == 1
    assert episodes.take([Add(episode(1))]) == {}


def test_threads_and_a_rewriting_lose_no_line(tmp_path: Path) -> None:
    one = EpisodeLog(tmp_path / "log", "bag")
    begin = Begin("", Task("recorded/", "desk", "train", "goal", ""), "agent")

    def write(thread: int) -> None:
        own = EpisodeLog(tmp_path / "log", "bag") if thread % 2 else one
        for number in range(20):
            own.append([replace(begin, episode=f"{thread}/{number}")])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()

    def of_others(event: log.Event) -> bool:
        return not str(getattr(event, "episode", "")).startswith("0/")

    removed = sum(one.keep(of_others) for _ in range(20))
    for thread in threads:
        thread.join()
    events, place = one.read()
    names = [event.episode for _, event in events]  # type: ignore[union-attr]
    assert sorted(n for n in names if n[0] != "0") == sorted(
        f"{thread}/{number}" for thread in (1, 2, 3) for number in range(20)
    )
    assert sum(name.startswith("0/") for name in names) + removed == 20
    assert one.read(place) == ([], place)
    assert one.read(Place("other", place.end))[0] == events
