"""A memory that an agent adds to: cheap, tidy, crash-safe, and recalled from at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.errors import LdmError, MemoryLocked, MemoryStoreError
from ldm.memory import (
    FormationOptions,
    additions,
    build,
    generations,
    inspect,
    locks,
)
from ldm.memory.growing import GrowingMemory
from ldm.memory.purging import purge
from ldm.memory.recording import Recording
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import Outcome, Step, Task, Trajectory
from tests.embedder import BagOfWords
from tests.toy import expert_trajectories

GOAL, SEEN = "put the fig in the basket", "You hold the fig."


def episode(number: int, *, kind: str = "", score: float = 1.0, steps: int = 2) -> Trajectory:
    """A short episode, unlike all others by its number."""
    task = Task(f"ask/{number}", "desk", "train", f"answer question {number}", kind)
    moves = [Step(f"say {number} {i}", f"heard {number} {i}") for i in range(steps)]
    moves[-1] = replace(moves[-1], reward=score)
    return Trajectory(task, f"asked {number}", tuple(moves), score, score >= 1, "agent")


def opened(place: Path, *, batch_size: int = 0, env: str = "desk") -> GrowingMemory:
    return GrowingMemory.open(
        str(place), env, embedder=BagOfWords(), create=True, batch_size=batch_size
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def test_an_empty_memory_recalls_nothing(place: Path) -> None:
    memory = opened(place)
    recalls = memory.recall(GOAL, SEEN)
    assert (len(memory), len(recalls), recalls.as_prompt()) == (0, 0, "")
    assert not place.exists()  # nothing is written before there is something


def test_what_was_added_is_recalled_at_once_and_after_reopening(place: Path) -> None:
    memory = opened(place)
    assert memory.add(episode(1))
    for one in (memory, opened(place)):
        (first, *_) = one.recall("answer question 1", "asked 1")
        assert (first.tuple.action, first.similarity) == ("say 1 0", 1.0)
        assert first.tuple.outcome == Outcome(1.0, 1.0)
        assert (first.batch, first.tuple.task_id) == ("mixed-pending", "ask/1")
        assert len(one) == 2


def test_what_is_there_already_is_not_added_again(place: Path) -> None:
    memory = opened(place, batch_size=2)
    assert memory.add(episode(1))
    assert not memory.add(episode(1))
    memory.add(episode(2))
    memory.close()
    assert memory.pending == 0
    assert not memory.add(episode(1))  # it is in a generation now


def test_sixty_additions_leave_one_batch_and_one_generation(place: Path) -> None:
    memory = opened(place)
    for number in range(60):
        memory.add(episode(number))
    memory.close()
    (generation,) = generations(str(place), "desk")
    contents = inspect(str(place), "desk")
    assert [(b.id, len(b.trajectories)) for b in contents.batches] == [("mixed-1", 50)]
    assert len(contents.batches[0].goal_types) > 1  # clustered, which one by one they were not
    assert (generation.tuples, memory.pending, len(memory)) == (100, 10, 120)
    assert not verify(str(place), "desk")


def test_a_full_batch_becomes_what_building_it_at_once_makes(place: Path, tmp_path: Path) -> None:
    episodes = [episode(number, kind="ab"[number % 2]) for number in range(12)]
    memory = opened(place, batch_size=5)
    for one in episodes:
        memory.add(one)
        if random.Random(one.id).random() < 0.3:  # whenever the forming comes to it
            memory.close()
    memory.close()
    built = str(tmp_path / "built")
    options = FormationOptions(5, failures="contrast")
    for members in (episodes[0:9:2], episodes[1:10:2]):
        build(built, members, BagOfWords(), OfflineReasoner, options=options)
    digests = [one.digest for one in generations(str(place), "desk")]
    assert digests == [one.digest for one in generations(built, "desk")]
    assert memory.pending == 2


def test_kinds_that_fill_no_batch_share_one(place: Path) -> None:
    memory = opened(place, batch_size=3)
    for number in range(12):
        memory.add(episode(number, kind=f"kind {number}"))
    memory.close()
    (batch,) = inspect(str(place), "desk").batches
    assert (batch.id, batch.kind, len(batch.trajectories)) == ("mixed-1", "", 3)
    assert memory.pending == 9


def test_folding_leaves_earlier_generations_as_they_are(place: Path) -> None:
    build(str(place), [episode(n) for n in range(4)], BagOfWords(), OfflineReasoner)
    (before,) = generations(str(place), "desk")
    memory = opened(place, batch_size=2)
    for number in range(4, 9):
        memory.add(episode(number))
    newest = memory.fold()
    assert newest == generations(str(place), "desk")[-1]
    assert generations(str(place), "desk")[0] == before
    assert inspect(str(place), "desk", 0).generation.tuples == 8
    assert (memory.pending, len(memory)) == (0, 18)
    assert memory.fold() == newest  # nothing new, nothing written


def test_failures_are_warnings_and_marked_as_such(place: Path) -> None:
    memory = opened(place, batch_size=2)
    memory.add(episode(1, score=0.0))
    memory.add(episode(2, score=0.5))
    for _ in range(2):  # before and after they are formed into a batch
        recalls = memory.recall("answer question 1", "asked 1")
        assert recalls[0].tuple.is_warning
        assert "say 1 0\n```\noutcome: FAILED" in recalls.as_prompt()
        assert "outcome: partial success (score 0.50)" in recalls.as_prompt()
        memory.close()
    assert memory.pending == 0


def test_an_episode_is_recorded_step_by_step(place: Path) -> None:
    memory = opened(place)
    with memory.record("refund the parcel", kind="refund", source="ticket 7") as one:
        one.step("The customer is angry.", "apologise")
        one.step("The customer is calm.", "refund", reward=0.75)
        one.finish(observation="The customer thanks.")
    first, second = sorted(memory.recall("refund", "calm"), key=lambda r: r.tuple.step)
    assert (first.tuple.observation, first.tuple.action) == ("The customer is angry.", "apologise")
    assert second.tuple.history.past == (("The customer is angry.", "apologise"),)
    assert (second.tuple.kind, second.tuple.source) == ("refund", "ticket 7")
    assert second.tuple.outcome == Outcome(0.75, 0.75)


def test_an_episode_with_an_exception_or_without_a_step_is_not_added(place: Path) -> None:
    memory = opened(place)
    with memory.record("close the ticket"):
        pass

    def faulty() -> None:
        with memory.record("close the ticket") as one:
            one.step("open", "close it", reward=1)
            raise KeyError("an error of the program")

    with pytest.raises(KeyError):
        faulty()
    assert memory.pending == 0


@pytest.mark.parametrize("wrong", [{"action": " "}, {"reward": 2.0}])
def test_a_step_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    step = {"observation": "open", "action": "close it", "reward": 1.0, **wrong}
    with pytest.raises(ValueError, match=r"must not be empty|a reward is"):
        Recording("desk", "close the ticket").step(**step)  # type: ignore[arg-type]


def test_what_is_no_episode_of_the_memory_is_refused(place: Path) -> None:
    memory = opened(place)
    for wrong in (expert_trajectories()[0], replace(episode(1), steps=())):
        with pytest.raises(ValueError, match=r"is of toy, not of desk|no action"):
            memory.add(wrong)
    with pytest.raises(LdmError, match="without a score"), memory.record("close it") as one:
        one.step("open", "close it")
    with pytest.raises(ValueError, match="from -1 to 1"):
        memory.feedback([], 2.0)
    assert memory.pending == 0


def test_generations_of_others_are_seen_without_reopening(place: Path) -> None:
    memory = opened(place)
    memory.add(episode(1))
    build(str(place), [episode(2)], BagOfWords(), OfflineReasoner)
    assert memory.recall("answer question 2", "asked 2")[0].tuple.action == "say 2 0"
    other = opened(place)
    other.add(episode(3))
    assert memory.recall("answer question 3", "asked 3")[0].tuple.action == "say 3 0"
    other.fold()
    assert (memory.pending, len(memory)) == (0, 6)


def test_reopening_takes_the_embedder_and_batch_size_that_were_taken_before(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name: BagOfWords(name or "none"))
    opened(place, batch_size=2).add(episode(1))
    memory = GrowingMemory.open(str(place), "desk", create=True)
    assert memory.recall("question", "asked")[0].tuple.action == "say 1 0"
    assert memory.batch_size == 50  # no generation says otherwise
    memory.batch_size = 2
    memory.add(episode(2))
    memory.close()
    again = GrowingMemory.open(str(place), "desk")
    assert (again.batch_size, again.pending, len(again)) == (2, 0, 4)


def test_reopening_embeds_nothing_again(place: Path) -> None:
    memory = opened(place, batch_size=3)
    for number in range(4):
        memory.add(episode(number))
    memory.close()
    embedder = BagOfWords()
    again = GrowingMemory.open(str(place), "desk", embedder=embedder)
    assert (len(again), embedder.calls) == (8, [])
    again.fold()
    assert embedder.calls == []


@pytest.mark.slow
def test_many_threads_add_and_recall(place: Path) -> None:
    memory = opened(place, batch_size=20)
    errors: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for number in range(thread * 10, thread * 10 + 10):
                memory.add(episode(number))
                memory.add(episode(number % 7))  # which others add, too
                recalls = memory.recall(f"answer question {number}", f"asked {number}")
                assert recalls[0].tuple.action == f"say {number} 0"
                memory.feedback(recalls, 1.0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory.close()
    assert not errors, errors
    assert len(memory) == len(opened(place)) == 160
    assert memory.pending < 20
    batches = inspect(str(place), "desk").batches
    assert {len(batch.trajectories) for batch in batches} == {20}
    assert not verify(str(place), "desk")


#: Adds episodes for ever, and says after each that it is there.
ADDING = """
import sys
from tests.memory.test_growing import episode, opened
from pathlib import Path
memory = opened(Path(sys.argv[1]), batch_size=4)
for number in range(int(sys.argv[2]), 10_000):
    memory.add(episode(number))
    print(number, flush=True)
"""


@pytest.mark.process
def test_a_killed_process_loses_nothing_that_it_added(place: Path) -> None:
    generator, reported = random.Random(5), set[int]()
    for start in (0, 1_000, 2_000):
        command = [sys.executable, "-c", ADDING, str(place), str(start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(5):
                reported.add(int(process.stdout.readline()))
            time.sleep(generator.uniform(0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
            reported.update(map(int, process.stdout.read().split()))
        memory = opened(place, batch_size=4)
        memory.close()
        present = {t.tuple.goal for t in memory.recall("answer", "asked", 100_000)}
        assert {f"answer question {number}" for number in reported} <= present
    memory.fold()
    problems = verify(str(place), "desk")
    assert all(problem.startswith("left over") for problem in problems), problems
    assert len(inspect(str(place), "desk").rows) == len(memory)


@pytest.mark.process
def test_processes_add_beside_each_other(place: Path) -> None:
    commands = [[sys.executable, "-c", ADDING, str(place), str(n)] for n in (0, 9_970)]
    commands[0][2] = ADDING.replace("10_000", "30")
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert [process.wait(60) for process in processes] == [0, 0]
    memory = opened(place)
    assert len(memory) == 120
    newest = memory.fold()
    assert newest is not None
    assert newest.tuples == 120


def test_a_torn_line_was_never_added_and_disturbs_no_later_one(place: Path) -> None:
    memory = opened(place)
    memory.add(episode(1))
    path = additions.additions(str(place), "desk").path
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-40])
    assert opened(place).pending == 1
    memory.add(episode(2))
    assert opened(place).pending == memory.pending == 2


@pytest.mark.parametrize("at", [0, 30, -10])
def test_a_damaged_line_is_named(place: Path, at: int) -> None:
    opened(place).add(episode(1))
    path = additions.additions(str(place), "desk").path
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(MemoryStoreError, match="damaged in line 1") as caught:
        opened(place)
    assert caught.value.remedy == "Remove that line; the others stay."
    build(str(place), [episode(2)], BagOfWords(), OfflineReasoner)
    (problem,) = verify(str(place), "desk")
    assert problem.startswith("added: ")
    assert "damaged in line 1" in problem


def test_an_interrupted_folding_doubles_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(place, batch_size=3)
    with monkeypatch.context() as patch:
        patch.setattr(additions, "drop", lambda *_: 0)  # as if killed before it
        patch.setattr(additions, "first_full", lambda *_: None)
        for number in range(3):
            memory.add(episode(number))
        memory.fold()
    assert additions.environments(str(place)) == ("desk",)
    again = opened(place, batch_size=3)
    assert (again.pending, len(again)) == (0, 6)
    again.add(episode(3))
    again.fold()
    assert additions.environments(str(place)) == ()
    assert inspect(str(place), "desk").generation.tuples == 8


def test_additions_go_on_while_another_process_writes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    memory = opened(place, batch_size=2)
    memory.add(episode(0))
    with locks.of_directory(place):
        memory.add(episode(1))
        memory.close()
        assert memory.pending == 2
        with pytest.raises(MemoryLocked, match="is locked by"):
            memory.fold()
    memory.add(episode(2))
    memory.close()
    assert memory.pending == 1


def test_what_went_wrong_with_a_batch_is_raised_by_the_next_call(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(place, batch_size=1)

    def full(*_: object, **__: object) -> None:
        raise MemoryStoreError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr("ldm.memory.growing.build", full)
        memory.add(episode(0))
        with pytest.raises(MemoryStoreError, match="disk is full"):
            memory.close()
    assert memory.pending == 1  # nothing is lost
    memory.add(episode(1))
    memory.close()
    assert memory.pending == 0


def test_feedback_is_counted_and_shown(place: Path) -> None:
    memory = opened(place)
    for number, reward in ((1, 1.0), (2, 0.0), (2, 0.5)):
        memory.add(episode(number, steps=1))
        recalls = memory.recall(f"answer question {number}", f"asked {number}", 1)
        memory.feedback(recalls, reward)
    good, bad = (opened(place).recall(f"question {n}", f"asked {n}", 1) for n in (1, 2))
    worth = [(one.worth[one[0].id].uses, one.worth[one[0].id].reward) for one in (good, bad)]
    assert worth == [(1, 1.0), (2, 0.25)]
    assert "feedback: recalled once, mean reward 1.00" in good.as_prompt()
    assert "feedback: recalled 2 times, mean reward 0.25" in bad.as_prompt()


def test_places_that_are_no_memory_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="holds no memory of desk") as caught:
        GrowingMemory.open(str(place), "desk", embedder=BagOfWords())
    assert "create=True" in caught.value.remedy
    with pytest.raises(MemoryStoreError, match="is a server"):
        GrowingMemory.open("http://localhost:1", "desk", embedder=BagOfWords(), create=True)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("Dear …")
    with pytest.raises(MemoryStoreError, match="holds other files and no memory"):
        opened(tmp_path / "letters")
    opened(place).add(episode(1))
    with pytest.raises(MemoryStoreError, match="embedder 'bag-of-words', not with 'other'"):
        GrowingMemory.open(str(place), "desk", embedder=BagOfWords("other"))


def test_a_rebuild_and_a_purge_reach_what_was_added(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(place)
    with monkeypatch.context() as patch:
        patch.setattr(additions, "drop", lambda *_: 0)  # as if killed before it
        for number in range(3):
            memory.add(episode(number))
        memory.fold()
    ids = [row.tuple.id for row in inspect(str(place), "desk").rows if row.tuple.task_id == "ask/1"]
    purge(str(place), "desk", ids)
    text = additions.additions(str(place), "desk").path.read_text()
    assert ("question 1" in text, "question 2" in text) == (False, True)
    build(str(place), [episode(9)], BagOfWords(), OfflineReasoner, rebuild=True)
    assert additions.environments(str(place)) == ()
    assert len(opened(place)) == 2


def test_nothing_is_written_through_a_link(place: Path, tmp_path: Path) -> None:
    opened(place).add(episode(1))
    path = additions.additions(str(place), "desk").path
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(MemoryStoreError):
        opened(place).add(episode(2))
    assert target.read_bytes() == before
