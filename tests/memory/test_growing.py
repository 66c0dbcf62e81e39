"""A memory that an agent adds to: recalled from at once, and formed into batches beside that."""

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import ldm
from ldm.embed.caching import PROBES
from ldm.errors import LdmError, MemoryLocked, MemoryStoreError
from ldm.memory import FormationOptions, build, folding, generations, growing, inspect, record
from ldm.memory.growing import GrowingMemory
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import Outcome
from tests.embedder import BagOfWords
from tests.memory.desk import episode, memory, opened, shown
from tests.toy import expert_trajectories

__all__ = ["memory"]

pytestmark = pytest.mark.usefixtures("folds_here")


def test_an_empty_memory_recalls_nothing(memory: GrowingMemory) -> None:
    recalls = memory.recall("put the fig in the basket", "You hold the fig.")
    assert (len(memory), len(recalls), recalls.as_prompt()) == (0, 0, "")
    assert memory.unfinished == ()


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
    assert memory.pending == 0
    assert not memory.add(episode(1))  # it is in a generation now
    assert not opened(place).add(episode(1))


def test_sixty_additions_leave_few_batches_each_as_large_as_all_before_it(place: Path) -> None:
    memory = opened(place)
    for number in range(60):
        memory.add(episode(number))
        memory.close()
    *_, generation = generations(str(place), "desk")
    contents = inspect(str(place), "desk")
    assert [len(b.trajectories) for b in contents.batches] == [10, 10, 20]
    assert len(contents.batches[2].goal_types) > 1  # clustered, which one by one they were not
    assert (generation.tuples, memory.pending, len(memory)) == (80, 20, 120)
    assert not verify(str(place), "desk", BagOfWords())


def test_a_full_batch_becomes_what_building_it_at_once_makes(place: Path, tmp_path: Path) -> None:
    episodes = [episode(number, kind="ab"[number % 2]) for number in range(8)]
    memory = opened(place, batch_size=4)
    for one in episodes:
        memory.add(one)
    built = str(tmp_path / "built")
    options = FormationOptions(4, failures="contrast")
    for members in (episodes[:4], episodes[4:]):
        build(built, members, BagOfWords(), OfflineReasoner, options=options)
    digests = [one.digest for one in generations(str(place), "desk")]
    assert digests == [one.digest for one in generations(built, "desk")]
    assert memory.pending == 0


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


class TestRecording:
    def test_an_episode_is_recorded_step_by_step(self, memory: GrowingMemory) -> None:
        seen = "The customer is angry."
        with memory.record("refund the parcel", kind="refund", source="ticket 7") as one:
            one.step(seen, "apologise")
            one.step("The customer is calm.", "refund", reward=0.75)
            assert one.trajectory() is None
            one.finish(observation="The customer thanks.")
        whole = one.trajectory()
        assert whole is not None
        assert not memory.add(whole)  # it is recalled already
        first, second = sorted(memory.recall("refund", "calm"), key=lambda r: r.tuple.step)
        assert (first.tuple.observation, first.tuple.action) == (seen, "apologise")
        assert second.tuple.history.past == ((seen, "apologise"),)
        assert (second.tuple.kind, second.tuple.source) == ("refund", "ticket 7")
        assert second.tuple.outcome == Outcome(0.75, 0.75)

    def test_an_exception_leaves_it_open_and_its_steps_on_the_disk(self, place: Path) -> None:
        memory = opened(place)

        def faulty() -> None:
            with memory.record("close the ticket") as one:
                one.step("open", "close it", reward=1)
                raise KeyError("an error of the program")

        with pytest.raises(KeyError):
            faulty()
        with memory.record("close the ticket"):
            pass  # without a step
        for one in (memory, opened(place)):
            assert one.pending == 0
            assert not one.recall("close the ticket", "open")  # it does not vote yet
        (name, _) = opened(place).unfinished
        resumed = opened(place).resume(name)
        assert [(step.observation, step.action) for step in resumed.steps] == [("open", "close it")]
        resumed.step("closed", "tell the customer")
        resumed.finish()
        assert {one.tuple.action for one in memory.recall("close the ticket", "open")} == {
            "close it",
            "tell the customer",
        }
        with pytest.raises(LdmError, match="is finished"):
            resumed.step("closed", "again")
        with pytest.raises(MemoryStoreError, match="no unfinished episode") as refused:
            memory.resume(name)
        assert memory.unfinished[0] in refused.value.remedy

    def test_an_open_episode_survives_folding(self, place: Path, memory: GrowingMemory) -> None:
        running = memory.begin("close the ticket")
        running.step("open", "close it")
        for number in range(3):
            memory.add(episode(number))
        memory.fold()
        assert memory.unfinished == opened(place).unfinished == (running.id,)
        opened(place).resume(running.id).finish(1)
        assert memory.recall("close the ticket", "open", k=1)[0].tuple.action == "close it"
        assert memory.pending == 1
        assert not {*memory.unfinished}
        memory.fold()
        assert (memory.pending, len(memory), len(opened(place))) == (0, 7, 7)

    def test_ten_rewards_of_a_tenth_are_a_success(self, memory: GrowingMemory) -> None:
        with memory.record("count") as one:
            for number in range(10):
                one.step(f"{number}", f"say {number}", reward=0.1)
        outcome = memory.recall("count", "3", k=1)[0].tuple.outcome
        assert outcome is not None
        assert outcome.score == 1.0
        assert memory.stats()["succeeded"] == 1

    @pytest.mark.parametrize(
        ("observation", "action"),
        [
            ({"status": "lost", "days": 3}, {"tool": "refund", "arguments": {"id": "7"}}),
            ([1, "two", None], ["a", {"b": [True]}]),
            ("line 1\n\tline 2 “ä” 🍎\r\n\0", 'say "a\\b"\n    return 1'),
            ("half \ud83d of one", "other \udc4d half"),
            ("", "wait"),
        ],
    )
    def test_texts_and_json_are_kept(
        self, observation: object, action: object, place: Path, memory: GrowingMemory
    ) -> None:
        with memory.record("handle it") as one:
            one.step(observation, action, reward=1)  # type: ignore[arg-type]
        for _ in range(2):
            (found,) = memory.recall("handle it", observation)  # type: ignore[arg-type]
            assert found.similarity == 1.0
            assert found.tuple.action == opened(place).recall("handle it", "")[0].tuple.action
            if not isinstance(action, str):
                assert json.loads(found.tuple.action) == action
            elif "\udc4d" not in action:
                assert (found.tuple.observation, found.tuple.action) == (observation, action)
            memory.fold()

    @pytest.mark.parametrize(
        "wrong",
        [
            *({"observation": one} for one in (None, b"open", 3, {"a": {1}}, {"a": float("nan")})),
            *({"observation": "x" * (65 << 20)}, {"action": "x" * (5 << 20)}),
            *({"action": one} for one in (None, b"close", " ", "")),
            *({"reward": one} for one in (2.0, -1.5, float("nan"), "much")),
        ],
    )
    def test_what_cannot_be_kept_is_refused_at_the_call_and_the_other_steps_stay(
        self, wrong: dict[str, object], place: Path, memory: GrowingMemory
    ) -> None:
        running = memory.begin("close the ticket")
        running.step("open", "close it")
        step = {"observation": "open", "action": "close it", "reward": 1.0, **wrong}
        with pytest.raises((TypeError, ValueError)):
            running.step(**step)  # type: ignore[arg-type]
        assert len(opened(place).resume(running.id).steps) == 1
        running.finish(1)
        assert len(opened(place)) == 1
        opened(place).fold()
        assert not verify(str(place), "desk")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"goal": None},
            {"goal": "x" * (5 << 20)},
            {"kind": 7},
            {"scope": {"tenant": 7}},
            {"scope": {1: "a"}},
            {"tags": {"a": None}},
            {"origin": "martian"},
        ],
    )
    def test_an_episode_that_cannot_be_kept_is_refused_when_it_begins(
        self, wrong: dict[str, object], place: Path, memory: GrowingMemory
    ) -> None:
        with pytest.raises((TypeError, ValueError)):
            memory.begin(**{"goal": "close it", **wrong})  # type: ignore[arg-type]
        assert memory.unfinished == opened(place).unfinished == ()

    @pytest.mark.parametrize("score", [-0.1, 1.5, float("nan"), None])
    def test_an_end_without_a_score_leaves_the_episode_open(
        self, score: float | None, memory: GrowingMemory
    ) -> None:
        running = memory.begin("close it")
        running.step("open", "close it")
        with pytest.raises((ValueError, LdmError)):
            running.finish(score)
        assert not running.finished
        running.finish(0.5)
        assert memory.pending == 1

    def test_what_is_no_episode_of_the_memory_is_refused(self, place: Path) -> None:
        memory = opened(place)
        long = replace(episode(1), opening="x" * (5 << 20))
        for wrong in (expert_trajectories()[0], replace(episode(1), steps=()), long):
            with pytest.raises(ValueError, match=r"is of toy, not of desk|no action|characters"):
                memory.add(wrong)
        assert memory.pending == opened(place).pending == 0


class TestOpening:
    def test_generations_and_episodes_of_others_are_seen_without_reopening(
        self, place: Path
    ) -> None:
        memory, other = opened(place), opened(place)
        memory.add(episode(1))
        build(str(place), [episode(2)], BagOfWords(), OfflineReasoner)
        assert memory.recall("answer question 2", "asked 2")[0].tuple.action == "say 2 0"
        other.add(episode(3))
        assert memory.recall("answer question 3", "asked 3")[0].tuple.action == "say 3 0"
        other.fold()
        assert (memory.pending, len(memory)) == (0, 6)

    def test_reopening_takes_the_embedder_and_batch_size_that_were_taken_before(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ldm.embed.load_embedder", lambda name: BagOfWords(name or "none"))
        opened(place, batch_size=2).add(episode(1))
        memory = GrowingMemory.open(str(place), "desk", create=True)
        assert memory.recall("question", "asked")[0].tuple.action == "say 1 0"
        assert memory.batch_size == 50  # no generation says otherwise
        memory.batch_size = 2
        memory.add(episode(2))
        again = GrowingMemory.open(str(place), "desk")
        assert (again.batch_size, again.pending, len(again)) == (2, 0, 4)

    def test_reopening_embeds_nothing_again(self, place: Path) -> None:
        memory = opened(place, batch_size=3)
        for number in range(4):
            memory.add(episode(number))
        embedder = BagOfWords()
        again = opened(place, embedder=embedder)
        assert len(again) == 8
        again.fold()
        assert {text for call in embedder.calls for text in call} <= {*PROBES}

    def test_places_that_are_no_memory_are_refused(self, place: Path, tmp_path: Path) -> None:
        with pytest.raises(MemoryStoreError, match="There is no memory"):
            opened(place, create=False)
        with pytest.raises(MemoryStoreError, match="is a server"):
            opened("http://localhost:1")
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "a.txt").write_text("Dear …")
        with pytest.raises(MemoryStoreError, match="holds other files and no memory"):
            opened(tmp_path / "letters")
        opened(place).add(episode(1))
        with pytest.raises(MemoryStoreError, match="holds no memory of mars"):
            GrowingMemory.open(place, "mars", embedder=BagOfWords())
        with pytest.raises(MemoryStoreError, match="embedder 'bag-of-words', not 'other'"):
            opened(place, embedder=BagOfWords("other"))

    def test_a_condensed_text_is_what_is_embedded_and_the_whole_is_what_is_kept(
        self, place: Path
    ) -> None:
        embedder = BagOfWords()
        memory = opened(place, embedder=embedder, condense=lambda text: text[:10])
        with memory.record("a goal of many words") as one:
            one.step("an observation of many words", "act", reward=1)
        memory.fold()
        (found,) = memory.recall("a goal of quite other words", "an observation")
        assert found.similarity == 1.0
        assert found.tuple.observation == "an observation of many words"
        texts = {text for call in embedder.calls for text in call} - {*PROBES}
        assert texts == {"a goal of ", "an observa"}


def test_additions_go_on_while_another_process_writes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "FOLDING", 0.1)
    memory = opened(place, batch_size=2)
    memory.add(episode(0))
    with record.writing(str(place)):
        memory.add(episode(1))
        memory.close()
        assert memory.pending == 2
        with pytest.raises(MemoryLocked, match="Another process is writing"):
            memory.fold()
    memory.add(episode(2))
    memory.close()
    assert memory.pending == 0


def test_what_went_wrong_with_a_batch_is_raised_by_the_next_call(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(place, batch_size=1)

    def full(*_: object, **__: object) -> None:
        raise MemoryStoreError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(folding, "form", full)
        memory.add(episode(0))
        with pytest.raises(MemoryStoreError, match="disk is full"):
            memory.close()
    assert memory.pending == 1  # nothing is lost
    memory.add(episode(1))
    memory.close()
    assert memory.pending == 0


def test_a_rebuild_removes_what_was_added(place: Path, memory: GrowingMemory) -> None:
    memory.add(episode(1))
    build(str(place), [episode(9)], BagOfWords(), OfflineReasoner, rebuild=True)
    assert len(opened(place)) == len(memory) == 2
    assert memory.pending == 0


@pytest.mark.process
def test_a_batch_is_formed_in_a_process_of_its_own(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with opened(place, batch_size=2) as memory:
        memory.add(episode(1))
        memory.add(episode(2))
    assert (memory.pending, len(generations(str(place), "desk"))) == (0, 1)
    memory.add(episode(3))
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(MemoryStoreError, match="could not be formed") as refused:
        memory.fold()
    assert "Nothing is lost" in refused.value.remedy
    assert memory.pending == 1


def test_recalls_do_not_depend_on_folding_and_are_those_of_brute_force(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact over all kinds: equal texts count once, the most similar first."""
    monkeypatch.setattr("ldm.reason.relevance.Relevance.form", lambda *_: "")  # all by likeness
    monkeypatch.setattr("ldm.memory.exact.MOST", 7)  # episodes are merged while they are pending
    memory, embedder, draw = opened(place), BagOfWords(), random.Random(0)
    words = ["lost", "late", "torn", "lamp", "vase", "rug", "refund", "reply", "photo"]

    def text() -> str:
        return " ".join(draw.choices(words, k=4))

    goals, known = [text() for _ in range(9)], set[tuple[str, str, str]]()
    for number in range(39):
        goal = draw.choice(goals)
        with memory.record(goal, kind="abc"[number % 3]) as one:
            for step in range(3):
                seen, done = text(), draw.choice(words)
                one.step(seen, done, reward=float(step == 2))
                known.add((goal, seen, done))
        if number == 19:
            memory.fold()  # some are in a generation, some are not
    assert [len(one) >= 7 for one in memory._current().memories] == [True, False]
    vectors = {one: embedder.embed([one])[0] for texts in known for one in texts[:2]}
    for _ in range(2):
        for _ in range(15):
            goal, seen = draw.choice([draw.choice(goals), text()]), text()
            to_goal, to_seen = embedder.embed([goal, seen])
            cosines = (vectors[g] @ to_goal + vectors[s] @ to_seen for g, s, _ in known)
            similar = sorted((round(float(both) / 2, 5) for both in cosines), reverse=True)
            recalls = memory.recall(goal, seen, k=20, utility=False)
            nearest = [round(one.similarity, 5) for one in recalls]
            assert nearest == pytest.approx(similar[:20], abs=2e-5)
            texts = [(r.tuple.goal, r.tuple.observation, r.tuple.action) for r in recalls]
            assert len({*texts}) == len(texts) == 20
        memory.fold()
    assert memory.pending == 0


def test_the_same_is_recalled_before_and_after_folding(memory: GrowingMemory) -> None:
    for number in range(30):
        memory.add(episode(number % 25, kind=f"kind {number % 4}", score=float(number % 3 > 0)))
    asked = [(f"answer question {n}", f"heard {n} 0") for n in range(0, 25, 4)]
    before = [memory.recall(*one, k=12) for one in asked]
    counted = [[one.evidence for one in recalls] for recalls in before]
    memory.fold()
    after = [memory.recall(*one, k=12) for one in asked]
    assert [shown(one) for one in after] == [shown(one) for one in before]
    assert [[one.evidence for one in recalls] for recalls in after] == counted
    assert [one.id for one in after[0]] == [one.id for one in before[0]]


def test_a_recall_may_be_awaited(memory: GrowingMemory) -> None:
    memory.add(episode(1))
    recalls = asyncio.run(memory.arecall("answer question 1", "asked 1", k=1))
    assert shown(recalls) == shown(memory.recall("answer question 1", "asked 1", k=1))


def test_the_memory_is_opened_by_the_public_name(place: Path) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        ldm.Memory.open(str(place), "desk", embedder=BagOfWords(), create=True).recall("", "", k=0)
    with pytest.raises(TypeError, match="generation"):
        ldm.Memory.open(str(place), "desk", embedder=BagOfWords(), create=True, generation=0)
