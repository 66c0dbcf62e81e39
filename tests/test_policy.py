"""One decision: what the reasoner gets to see of the past and of the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ldm.memory import Memory
from ldm.policy import Policy, PolicyOptions
from ldm.reason import Answer, State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.relevance import Relevance
from ldm.types import History, Past, Recall, StateActionTuple
from tests.embedder import BagOfWords
from tests.memory.conftest import memory, toy
from tests.toy import expert_trajectories

__all__ = ["memory", "toy"]

GOAL = "put a washed fig in the basket"
PAST: Past = (("You are in a shed. You see: shelf 1, shelf 2 and a sink.", "go to shelf 1"),)
REASONER = OfflineReasoner(BagOfWords())


def now(past: Past = PAST, **changes: Any) -> State:
    fields: dict[str, Any] = {
        "goal": GOAL,
        "history": History(past=past),
        "observation": "You are at shelf 1. On it you see: fig.",
        "admissible": ("go to sink", "take fig from shelf 1"),
        "key": "test/1",
    }
    return State(**{**fields, **changes})


def policy(memory: Memory, seed: int = 0, **options: Any) -> Policy:
    return Policy(memory, REASONER, PolicyOptions(**options), seed)


def refined(memory: Memory) -> tuple[StateActionTuple, Memory]:
    """Return a tuple as a refinement adds it, and the memory with it."""
    source = policy(memory, k=1).recall(now(), memory.batches_for(GOAL))[0]
    changes: Any = {"action": "go to sink", "trajectory_id": "explored", "origin": "explored"}
    again = replace(source.tuple, **changes, generation=1)
    return again, memory.with_rows(memory.place(source.batch, [again]))


class TestRecalls:
    def test_are_as_many_as_asked_for_or_as_the_reasoner_wants(self, memory: Memory) -> None:
        batches = memory.batches_for(GOAL)
        assert len(policy(memory, k=3).recall(now(), batches)) == 3
        expected = memory.retrieve(GOAL, now().observation, REASONER.recalls, batches=batches)
        assert policy(memory).recall(now(), batches) == tuple(expected)

    def test_the_control_random_depends_on_seed_task_and_step_alone(self, memory: Memory) -> None:
        def choice(seed: int = 0, **changes: Any) -> object:
            return policy(memory, seed, control="random", k=5).recall(now(**changes), ["wash-1"])

        assert choice() == choice() == choice(observation="It rains.")
        assert choice() != choice(seed=1)
        assert choice() != choice(key="test/2")
        assert choice() != choice(past=())

    def test_are_put_into_the_words_of_the_present_task(self, memory: Memory) -> None:
        batches = memory.batches_for(GOAL)
        plain = policy(memory, k=4).recall(now(), batches)
        loud = policy(memory, k=4).recall(now(localize=str.upper), batches)
        for one, other in zip(plain, loud, strict=True):
            assert other.tuple.action == one.tuple.action.upper()
            assert other.tuple.observation == one.tuple.observation.upper()
            assert other.tuple.history.actions == tuple(map(str.upper, one.tuple.history.actions))
            assert other.tuple.history.summary == one.tuple.history.summary.upper()
            assert other.tuple.history.assessment == one.tuple.history.assessment.upper()
            assert other.similarity == one.similarity
            assert other.id == one.id == one.tuple.id != other.tuple.id
            assert other.tuple.trajectory_id == one.tuple.trajectory_id
            assert other.tuple.step == one.tuple.step


def test_a_history_is_the_past_and_as_published_has_notes_on_it(memory: Memory) -> None:
    assert policy(memory).state(now()).history == History(past=PAST)
    published = PolicyOptions(wording="reworded")
    noted = Policy(memory, Watching(), published).state(now()).history
    assert (noted.past, noted.summary) == (PAST, "go to shelf 1")
    assert "fig: not yet" in noted.assessment


def test_a_decision_holds_its_action_and_the_ids_it_rests_on(memory: Memory) -> None:
    decided = policy(memory, k=5).decide(now(), memory.batches_for(GOAL))
    assert decided.action in (now().admissible or ())
    assert [tuple_id for tuple_id, _ in decided.used] == [r.tuple.id for r in decided.recalls]


def test_proposals_are_admissible_and_share_all_confidence(memory: Memory) -> None:
    proposed = policy(memory).branch(now(), memory.batches_for(GOAL), 2, 2)
    assert proposed.action == proposed.proposals[0].action
    assert {p.action for p in proposed.proposals} <= set(now().admissible or ())
    assert sum(p.confidence for p in proposed.proposals) == pytest.approx(1)


class TestWhatIsDoneOnce:
    """Decisions about the same sight share what does not depend on the past."""

    def test_the_same_sight_is_recalled_once(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queries: list[str] = []
        retrieve = Memory.retrieve

        def counted(self: Memory, goal: str, observation: str, *rest: Any, **named: Any) -> Any:
            queries.append(observation)
            return retrieve(self, goal, observation, *rest, **named)

        monkeypatch.setattr(Memory, "retrieve", counted)
        deciding, batches = policy(memory), memory.batches_for(GOAL)
        first = deciding.recall(now(), batches)
        assert deciding.recall(now(past=()), batches) == first
        assert deciding.recall(now(observation="You hold the fig."), batches) != first
        assert deciding.recall(now(), ["fetch-1"]) != first
        assert len(queries) == 3

    def test_another_memory_recalls_anew(self, memory: Memory) -> None:
        deciding, batches = policy(memory), memory.batches_for(GOAL)
        first = deciding.recall(now(), batches)
        view = memory.without([first[0].id])
        again = deciding.with_memory(view).recall(now(), batches)
        assert first[0].id not in {one.id for one in again}

    def test_notes_are_written_for_those_who_read_them(self, memory: Memory) -> None:
        class Noting(OfflineReasoner):
            noted = 0

            def notes(self, *arguments: Any) -> Any:
                self.noted += 1
                return super().notes(*arguments)

        class Reading(Noting):
            prompted = True

        batches = memory.batches_for(GOAL)
        for kind, times in ((Noting, 0), (Reading, 1)):
            reasoner = kind(BagOfWords())
            decision = Policy(memory, reasoner, PolicyOptions(wording="reworded")).decide(
                now(), batches
            )
            assert reasoner.noted == times
            assert decision.action == policy(memory).decide(now(), batches).action


class Watching(OfflineReasoner):
    """Reads what a model would, and remembers the states."""

    prompted = True

    def __init__(self) -> None:
        super().__init__(BagOfWords())
        self.states: list[State] = []

    def taught(self, relevance: Relevance) -> Watching:
        return self

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        self.states.append(state)
        return super().act(state, recalls)


def test_a_model_sees_how_one_recorded_task_was_done_to_its_end(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(memory: Memory, **options: Any) -> State:
        watching = Watching()
        Policy(memory, watching, PolicyOptions(**options)).decide(now(localize=str.upper), batches)
        return watching.states[-1]

    batches = memory.batches_for(GOAL)
    near = policy(memory).recall(now(), batches)[0].tuple
    (recorded,) = (one for one in expert_trajectories() if one.id == near.trajectory_id)
    actions = tuple(step.action.upper() for step in recorded.steps)
    assert (seen(memory).example, seen(memory).demonstration) == (near.goal, actions)
    assert seen(memory.without([], [near.trajectory_id])).demonstration != actions
    assert seen(memory, control="none").demonstration == ()
    assert seen(memory, wording="reworded").demonstration == ()
    monkeypatch.setattr("ldm.policy.DEMONSTRATION", 1)  # none has room: the shortest of the nearest
    monkeypatch.setattr("ldm.policy.NEAR", 60)
    recalled = {one.tuple.trajectory_id for one in policy(memory).recall(now(), batches)}
    lengths = {one.id: len(one.steps) for one in expert_trajectories()}
    assert len(seen(memory).demonstration) == min(lengths[one] for one in recalled) < len(actions)


class Costly(OfflineReasoner):
    """Names what decides in its place in a search, and must not be asked there."""

    searching = REASONER

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        raise AssertionError("asked in a search")

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        raise AssertionError("asked in a search")


def test_a_search_is_decided_by_what_the_reasoner_names_for_it(memory: Memory) -> None:
    batches = memory.batches_for(GOAL)
    searched = Policy(memory, Costly(BagOfWords()), PolicyOptions()).rank(now(), batches, 3)
    assert searched == policy(memory).rank(now(), batches, 3)
    assert len(searched.proposals) > 1
