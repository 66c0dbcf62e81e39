"""A memory in service: what it counts, how it follows a changing world, what it gives up again."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.errors import MemoryStoreError
from ldm.memory import generations, inspect
from ldm.memory.growing import GrowingMemory
from ldm.memory.verifying import verify
from ldm.types import Evidence, Trajectory
from tests.embedder import BagOfWords
from tests.memory.desk import episode, memory, opened, reopened, shown, told
from tests.memory.stored import content_of

__all__ = ["memory"]

pytestmark = pytest.mark.usefixtures("folds_here")
Settle = Callable[[], object]
STATE = "disk full on db", "df: 100%"


def evidence_of(memory: GrowingMemory, action: str) -> Evidence:
    (one,) = [one for one in memory.recall(*STATE, k=50) if one.tuple.action == action]
    assert one.evidence is not None
    return one.evidence


def tried(memory: GrowingMemory, action: str, *scores: float) -> list[str]:
    return [told(memory, STATE[0], (STATE[1], action), score=score) for score in scores]


@pytest.fixture(params=["pending", "folded"])
def settle(request: pytest.FixtureRequest, memory: GrowingMemory) -> Settle:
    """What a test looks at before and after the episodes are formed into a batch."""
    return memory.fold if request.param == "folded" else lambda: None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time that is recorded and compared with."""

    def at(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: seconds)

    return at


def test_a_state_like_none_in_the_memory_has_nothing_to_recall_and_says_so(
    memory: GrowingMemory,
) -> None:
    for place in ("db", "web", "mail", "queue", "cache", "proxy"):
        told(memory, f"disk full on {place}", ("df: 100%", "rotate logs"))
    alien = "knit a red scarf", "wool, needles"
    assert len(memory.recall(*alien))  # nothing tells what is usual before a batch is formed
    memory.fold()
    recalls = memory.recall(*alien)
    assert (len(recalls), recalls.as_prompt()) == (0, "")
    assert recalls.why[0].startswith("nothing in the memory is like this: its nearest state has")
    assert len(memory.recall(*alien, min_similarity=-1))
    assert [one.tuple.action for one in memory.recall("disk full on backup", "df: 100%")]


class TestEvidence:
    def test_equal_texts_are_one_recall_with_counts(
        self, memory: GrowingMemory, settle: Settle
    ) -> None:
        scores = [1.0] * 29 + [0.0]
        random.Random(0).shuffle(scores)
        tried(memory, "clean the logs", *scores)
        tried(memory, "delete the database", 0.0)
        settle()
        recalls = memory.recall(*STATE, k=5)
        assert [one.tuple.action for one in recalls].count("clean the logs") == 1
        good, bad = (evidence_of(memory, f"{a}") for a in ("clean the logs", "delete the database"))
        assert (good.tried, good.succeeded, good.failed) == (30, 29, 1)
        assert (bad.tried, bad.succeeded, bad.failed, bad.last_failed) == (1, 0, 1, True)
        assert 0 < good.first <= good.last <= time.time()
        assert good.probability > 0.5 > bad.probability

    def test_partial_scores_count_in_parts(self, memory: GrowingMemory) -> None:
        tried(memory, "act", 0.25, 0.5)
        found = evidence_of(memory, "act")
        assert (found.tried, found.succeeded, found.failed) == (2, 0.75, 1.25)

    def test_what_is_in_two_generations_and_pending_is_counted_once_each(
        self, memory: GrowingMemory
    ) -> None:
        for _ in range(2):
            tried(memory, "act", 1.0, 0.0)
            memory.fold()
        tried(memory, "act", 1.0)
        for one in (memory, reopened(memory)):
            assert (evidence_of(one, "act").tried, evidence_of(one, "act").succeeded) == (5, 3)


class TestFeedback:
    def test_bad_feedback_moves_a_recall_down_and_comes_from_any_process(
        self, memory: GrowingMemory, settle: Settle
    ) -> None:
        tried(memory, "delete it", 1.0)
        told(memory, "disk full on web", (STATE[1], "extend it"))
        recalls = memory.recall(*STATE)
        assert recalls[0].tuple.action == "delete it"
        settle()
        for _ in range(20):
            reopened(memory).feedback([recalls[0]], -1.0)
        for one in (memory, reopened(memory)):
            assert one.recall(*STATE)[0].tuple.action == "extend it"
            found = evidence_of(one, "delete it")
            assert (found.tried, found.failed, found.lately_failed) == (21, 20, True)

    @pytest.mark.parametrize("by", ["recalls", "recall id", "episode id", "trajectory id"])
    def test_it_is_given_by_recall_or_episode(
        self, memory: GrowingMemory, by: str, settle: Settle
    ) -> None:
        (name,) = tried(memory, "act", 1.0)
        recalls = memory.recall(*STATE, k=1)
        settle()
        match by:
            case "recalls":
                reopened(memory).feedback(recalls, -0.5)
            case "recall id":
                reopened(memory).feedback(recalls.id, -0.5)
            case "episode id":
                reopened(memory).feedback(name, -0.5)
            case _:
                reopened(memory).feedback(recalls[0].tuple.trajectory_id, -0.5)
        found = evidence_of(memory, "act")
        assert (found.tried, found.succeeded, found.failed) == (2, 1.25, 0.75)

    def test_the_score_of_an_episode_counts_for_what_it_followed(
        self, memory: GrowingMemory
    ) -> None:
        tried(memory, "act", 1.0)
        (first,) = memory.recall(*STATE)
        running = memory.begin("disk full on another host")
        running.step("df: 99%", "act", followed=first)
        running.finish(0)
        counted = [one.evidence for one in memory.recall(*STATE, k=5) if one.similarity == 1.0]
        assert [(e.tried, e.failed) for e in counted if e] == [(2, 1)]

    @pytest.mark.parametrize("reward", [2.0, -1.1, float("nan")])
    def test_nonsense_is_refused(self, memory: GrowingMemory, reward: float) -> None:
        tried(memory, "act", 1.0)
        with pytest.raises(ValueError, match="from -1 to 1"):
            memory.feedback(memory.recall(*STATE), reward)
        with pytest.raises(MemoryStoreError, match="no finished episode 'nonsense'"):
            memory.feedback("nonsense", 1.0)
        assert evidence_of(reopened(memory), "act").tried == 1


class TestCorrecting:
    @pytest.mark.parametrize("by", ["episode id", "trajectory id"])
    def test_a_score_is_replaced_days_later_from_another_process(
        self, memory: GrowingMemory, by: str, settle: Settle
    ) -> None:
        (name, _) = tried(memory, "act", 1.0, 1.0)
        if by == "trajectory id":
            name = memory.recall(*STATE)[0].tuple.trajectory_id
        settle()
        reopened(memory).correct(name, score=0.0)
        for one in (memory, reopened(memory)):
            found = evidence_of(one, "act")
            assert (found.tried, found.succeeded, found.failed) == (2, 1, 1)
            assert one.stats()["failed"] == 1
        memory.fold()
        assert (evidence_of(memory, "act").failed, len(memory)) == (1, 1)
        assert verify(memory.location, "desk") == []
        memory.correct(name, score=1.0)
        assert evidence_of(reopened(memory), "act").failed == 0

    def test_an_added_trajectory_is_corrected_too(self, memory: GrowingMemory) -> None:
        memory.add(episode(1))
        memory.correct(episode(1).id, score=0.0)
        assert not memory.add(episode(1))
        for one in (memory, reopened(memory)):
            assert one.recall("answer question 1", "asked 1")[0].tuple.is_warning

    def test_nonsense_is_refused_and_changes_nothing(self, memory: GrowingMemory) -> None:
        (name,) = tried(memory, "act", 1.0)
        with pytest.raises(ValueError, match="from 0 to 1"):
            memory.correct(name, score=-1)
        for unknown in ("nonsense", memory.recall(*STATE).id):
            with pytest.raises(MemoryStoreError, match="no finished episode"):
                memory.correct(unknown, score=0)
        running = memory.begin("unfinished")
        with pytest.raises(MemoryStoreError, match="no finished episode"):
            memory.correct(running.id, score=0)
        assert evidence_of(reopened(memory), "act").failed == 0


ASKED = [
    "My {i} from order {o} arrived broken, I want my money back.",
    "Order {o}: the {i} is smashed. Please refund.",
    "hi, {i} came damaged in {o}, what now?",
    "{i} broken on arrival, {o}",
]
ITEMS = ["lamp", "vase", "mirror", "rug", "clock", "chair", "kettle", "tablet"]
OLD, NEW = "issue_refund", "issue_store_credit"


def ticket(draw: random.Random) -> tuple[str, str]:
    order = f"ORD-{draw.randint(10000, 99999)}"
    price = draw.choice([12, 25, 40, 49])
    seen = f"photo received, damage visible, price {price}"
    return draw.choice(ASKED).format(i=draw.choice(ITEMS), o=order), seen


class TestAChangedWorld:
    @pytest.mark.parametrize("feedback", [False, True])
    @pytest.mark.parametrize(
        "seed", [3, *(pytest.param(seed, marks=pytest.mark.process) for seed in (4, 5))]
    )
    def test_what_no_longer_works_gives_way_within_ten_episodes(
        self, memory: GrowingMemory, feedback: bool, settle: Settle, seed: int
    ) -> None:
        draw, right = random.Random(seed), []
        for _ in range(60):
            goal, seen = ticket(draw)
            told(memory, goal, (seen, OLD))
        settle()
        for _ in range(30):
            goal, seen = ticket(draw)
            recalls = memory.recall(goal, seen, k=5)
            worth = [one for one in recalls if one.evidence and one.evidence.probability >= 0.5]
            act = worth[0].tuple.action if worth else NEW
            right.append(act == NEW)
            told(memory, goal, (seen, act), score=float(act == NEW))
            followed = [one for one in recalls if one.tuple.action == act]
            if feedback and followed:
                memory.feedback(followed, 1.0 if act == NEW else -1.0)
        for start in (10, 20):
            assert sum(right[start : start + 10]) >= 8, right

    def test_older_outcomes_count_less_with_a_half_life(
        self, place: Path, clock: Callable[[float], None]
    ) -> None:
        day = 86_400.0
        found = {}
        for half_life in (0.0, 30 * day):
            memory = opened(place / str(half_life), half_life=half_life)
            for days in range(8):
                clock((days + 1) * day)
                tried(memory, "act", 1.0)
            clock(400 * day)
            tried(memory, "act", 0.0)
            clock(401 * day)
            found[half_life] = evidence_of(memory, "act")
        assert found[30 * day].probability < found[0.0].probability
        assert {one.tried for one in found.values()} == {9}

    def test_what_ended_before_a_time_is_erased(
        self, memory: GrowingMemory, clock: Callable[[float], None]
    ) -> None:
        for days, goal in ((1, "the old zither"), (2, "the middle one"), (3, "the new one")):
            clock(days * 86_400.0)
            told(memory, goal, ("seen", "act"))
        assert memory.expire(2 * 86_400.0) == 1
        assert {one.tuple.goal for one in memory.recall("the one", "seen")} == {
            "the middle one",
            "the new one",
        }
        assert b"zither" not in content_of(memory.location)
        assert memory.expire(2 * 86_400.0) == 0
        assert memory.expire(9 * 86_400.0) == 2
        assert (len(memory), len(reopened(memory))) == (0, 0)
        told(memory, "begun anew", ("seen", "act"))
        assert len(reopened(memory)) == 1


def of_tenants(memory: GrowingMemory) -> dict[str, str]:
    """Record two episodes of each of two tenants; return their ids by name."""
    ids = {}
    for tenant in ("anna", "bert"):
        for number in range(2):
            scope, tags = {"tenant": tenant}, {"topic": f"topic {number}"}
            running = memory.begin(f"help {tenant} {number}", scope=scope, tags=tags)
            running.step(f"{tenant} wrote {number}", f"answer {tenant} {number}")
            running.finish(number)
            ids[f"{tenant} {number}"] = running.id
    return ids


class TestScope:
    def test_recalls_statistics_and_exports_take_conditions(
        self, memory: GrowingMemory, tmp_path: Path, settle: Settle
    ) -> None:
        ids = of_tenants(memory)
        settle()
        state = "help anna 0", "anna wrote 0"

        def actions(**more: object) -> set[str]:
            recalls = memory.recall(*state, k=9, **more)  # type: ignore[arg-type]
            return {one.tuple.action for one in recalls}

        everything = {f"answer {name}" for name in ids}
        assert actions() == everything
        assert actions(where={"tenant": "bert"}) == {"answer bert 0", "answer bert 1"}
        assert actions(where={"tenant": ["anna", "bert"]}) == everything
        assert actions(where={"tenant": "anna", "topic": "topic 1"}) == {"answer anna 1"}
        assert actions(where={"episode": ids["bert 0"]}) == {"answer bert 0"}
        assert actions(where={"tenant": "carl"}) == actions(where={"country": "de"}) == set()
        assert actions(outcomes="failure") == {"answer anna 0", "answer bert 0"}
        assert actions(outcomes="success") == {"answer anna 1", "answer bert 1"}
        assert actions(min_similarity=0.999) == {"answer anna 0"}
        assert actions(min_similarity=1.1) == set()
        stats = memory.stats(where={"tenant": "anna"})
        assert (stats["episodes"], stats["succeeded"], stats["failed"]) == (2, 1, 1)
        assert memory.export(tmp_path / "anna.jsonl", where={"tenant": "anna"}) == 2
        exported = records.read(tmp_path / "anna.jsonl", Trajectory)
        assert {one.task.goal for one in exported} == {"help anna 0", "help anna 1"}
        assert {one.scope for one in exported} == {(("tenant", "anna"),)}
        assert memory.export(tmp_path / "all.jsonl") == 4
        with pytest.raises(TypeError, match="must be a text"):
            actions(where={"tenant": [7]})
        with pytest.raises(ValueError, match="outcomes is one of"):
            actions(outcomes="none")

    def test_evidence_of_another_tenant_does_not_count(self, memory: GrowingMemory) -> None:
        for tenant, score in (("anna", 1.0), ("bert", 0.0)):
            running = memory.begin(STATE[0], scope={"tenant": tenant})
            running.step(STATE[1], "act")
            running.finish(score)
        for _ in range(2):
            for tenant, failed in (("anna", 0), ("bert", 1)):
                (one,) = memory.recall(*STATE, where={"tenant": tenant})
                assert one.evidence is not None
                assert (one.evidence.tried, one.evidence.failed) == (1, failed)
            memory.fold()

    def test_kinds_are_searched_alone_only_where_asked(
        self, memory: GrowingMemory, settle: Settle
    ) -> None:
        for kind in ("refund", "reply"):
            with memory.record(f"a {kind} for the lamp", kind=kind) as one:
                one.step(f"{kind} is due", kind, reward=1)
        settle()
        state = "a reply for the lamp", "reply is due"
        assert shown(memory.recall(*state))[0] == ("reply", 1.0)
        assert len(memory.recall(*state)) == 2
        assert [one.tuple.action for one in memory.recall(*state, kind="refund")] == ["refund"]

    def test_the_history_breaks_ties(self, memory: GrowingMemory) -> None:
        for first, then in (("look", "left"), ("wait", "right")):
            told(memory, "get out", ("a door", first), ("a hall", then))
        for first, then in (("look", "left"), ("wait", "right")):
            history = [("a door", first)]
            recalls = memory.recall("get out", "a hall", 2, history)
            assert recalls[0].tuple.action == then


class TestForgetting:
    @pytest.mark.parametrize("purge", [False, True])
    def test_one_tenant_is_forgotten_and_can_be_remembered_again(
        self, memory: GrowingMemory, settle: Settle, purge: bool
    ) -> None:
        of_tenants(memory)
        settle()
        open_one = memory.begin("help anna 7", scope={"tenant": "anna"})
        open_one.step("anna wrote 7", "answer anna 7")
        assert memory.forget(where={"tenant": "anna"}, purge=purge) == 2
        for one in (memory, reopened(memory)):
            recalled = {r.tuple.action for r in one.recall("help anna 0", "anna wrote 0", k=9)}
            assert recalled == {"answer bert 0", "answer bert 1"}
            assert len(one) == 2
        assert (b"anna" in content_of(memory.location)) == (not purge)
        assert verify(memory.location, "desk") == []
        assert memory.forget(where={"tenant": "anna"}, purge=purge) == 0
        running = memory.begin("help anna 0", scope={"tenant": "anna"})
        running.step("anna wrote 0", "answer anna 0")
        running.finish(1)
        assert (
            reopened(memory).recall("help anna 0", "anna wrote 0")[0].tuple.action
            == "answer anna 0"
        )

    @pytest.mark.parametrize("purge", [False, True])
    def test_the_only_tenant_can_be_forgotten(self, memory: GrowingMemory, purge: bool) -> None:
        with memory.record("help anna", scope={"tenant": "anna"}) as one:
            one.step("anna wrote", "answer anna", reward=1)
        assert memory.forget(where={"tenant": "anna"}, purge=purge) == 1
        for growing_one in (memory, reopened(memory)):
            assert len(growing_one.recall("help anna", "anna wrote")) == len(growing_one) == 0
        assert (b"anna" in content_of(memory.location)) == (not purge)
        told(memory, "help bert", ("bert wrote", "answer bert"))
        assert len(reopened(memory).recall("help bert", "bert wrote")) == 1

    @pytest.mark.parametrize("purge", [False, True])
    def test_an_added_trajectory_is_forgotten_and_added_again(
        self, memory: GrowingMemory, purge: bool
    ) -> None:
        for number in range(3):
            memory.add(episode(number))
        assert memory.forget(episodes=[episode(1).id], purge=purge) == 2
        assert (b"question 1" in content_of(memory.location)) == (not purge)
        for one in (memory, reopened(memory)):
            assert "say 1 0" not in {r.tuple.action for r in one.recall("answer question 1", "x")}
        assert reopened(memory).add(episode(1))
        assert not memory.add(episode(1))
        (first, *_) = memory.recall("answer question 1", "asked 1")
        assert (first.tuple.action, len(memory)) == ("say 1 0", 6)

    def test_what_was_hidden_corrected_rated_or_empty_leaves_nothing(
        self, memory: GrowingMemory
    ) -> None:
        ids = of_tenants(memory)
        memory.correct(ids["anna 0"], score=1.0)
        memory.feedback(ids["anna 1"], -1.0)
        memory.begin("help anna with nothing", scope={"tenant": "anna"}).finish(1)
        memory.begin("anna again", scope={"tenant": "anna"})
        memory.fold()
        gone = [r.tuple.id for r in inspect(memory.location, "desk").rows if "anna" in r.tuple.goal]
        memory.forget(where={"tenant": "anna"})
        memory.forget(where={"tenant": "anna"}, purge=True)
        left = content_of(memory.location)
        for trace in ("anna", ids["anna 0"], ids["anna 1"], *gone):
            assert trace.encode() not in left, trace

    def test_nothing_named_is_refused(self, memory: GrowingMemory) -> None:
        of_tenants(memory)
        conditions: tuple[dict[str, Any], ...] = ({}, {"where": {}}, {"episodes": []})
        for nothing in conditions:
            with pytest.raises(ValueError, match="name what to forget"):
                memory.forget(**nothing)
        with pytest.raises(MemoryStoreError, match="no finished episode 'x'"):
            memory.forget(episodes=["x"])
        assert memory.forget(where={"tenant": "nobody"}) == 0
        assert len(memory) == 4


class TestTheDirectory:
    def test_a_moved_one_is_an_error_and_is_not_begun_anew(
        self, memory: GrowingMemory, place: Path
    ) -> None:
        tried(memory, "act", 1.0)
        place.rename(place.with_name("moved"))
        running: list[Callable[[], object]] = [
            lambda: tried(memory, "act", 1.0),
            lambda: memory.add(episode(1)),
            lambda: memory.begin("x"),
            lambda: memory.feedback([*opened(place.with_name("moved")).recall(*STATE)], 1.0),
        ]
        for call in running:
            with pytest.raises(MemoryStoreError, match="There is no memory at"):
                call()
        assert not place.exists()
        assert len(opened(place.with_name("moved"))) == 1

    def test_another_working_directory_does_not_split_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        memory = opened("mine")
        tried(memory, "act", 1.0)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        tried(memory, "act", 1.0)
        memory.fold()
        assert [path.name for path in Path().iterdir()] == []
        assert evidence_of(opened(tmp_path / "mine"), "act").tried == 2

    def test_one_that_is_removed_and_begun_anew_is_the_new_one(
        self, memory: GrowingMemory, place: Path
    ) -> None:
        tried(memory, "old", 1.0)
        memory.fold()
        shutil.rmtree(place)
        tried(reopened(memory), "new", 1.0)
        assert [one.tuple.action for one in memory.recall(*STATE)] == ["new"]

    def test_what_only_readers_may_do_needs_no_permission(
        self, memory: GrowingMemory, place: Path
    ) -> None:
        tried(memory, "act", 1.0)
        before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
        reader = opened(place, create=False)
        assert reader.recall(*STATE)
        assert reader.stats()["episodes"] == 1
        assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before

    def test_two_environments_do_not_meet(self, memory: GrowingMemory, place: Path) -> None:
        tried(memory, "act", 1.0)
        other = GrowingMemory.open(place, "other", embedder=BagOfWords(), create=True)
        told(other, STATE[0], (STATE[1], "else"))
        memory.fold()
        memory.forget(where={"source": "nothing"}, purge=True)
        assert [one.tuple.action for one in other.recall(*STATE)] == ["else"]
        assert [one.tuple.action for one in memory.recall(*STATE)] == ["act"]
        assert generations(memory.location, "other") == ()
