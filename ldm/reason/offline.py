"""LDM²'s questions (§3) answered without a language model: by clustering, extraction and analogy.

It is also the baseline that uses memory alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

import numpy as np

from ldm.embed import Embedder
from ldm.parallel import cached
from ldm.reason import Agreement, Answer, Clustering, Notes, Process, Reasoner, State, TypeView
from ldm.reason.features import Pattern, Situation
from ldm.reason.indexing import cluster, nearest, running_notes
from ldm.reason.relevance import Ranking, Relevance, learn
from ldm.reason.vocabulary import lesson_of
from ldm.types import Past, Proposal, Recall, StateActionTuple

#: The number of leading actions of a vote in a decision's record.
VOTES = 3
#: Recalled situations cached: a memory of 20,000 tuples fits.
CACHE_SIZE = 30_000


class OfflineReasoner:
    """A `Reasoner` without a language model, which weighs more recalls than fit a prompt."""

    name = "offline"
    recalls = 60
    concurrency = 1
    prompted = False

    def __init__(self, embedder: Embedder, relevance: Relevance | None = None) -> None:
        """Take what a memory teaches; without it, the recalls at hand teach."""
        self._embedder = embedder
        self._memory = relevance
        self._relevance = relevance or Relevance()
        # By id() of the tuple, which is kept alive for that: hashing its texts would cost more.
        self._patterns: dict[int, tuple[StateActionTuple, Pattern]] = {}
        self._latest: tuple[State | None, Sequence[Recall], Ranking] = (None, (), Ranking())
        self._read: tuple[State | None, Situation | None] = (None, None)

    def taught(self, relevance: Relevance) -> OfflineReasoner:
        """Implement `Reasoner.taught`."""
        return OfflineReasoner(self._embedder, relevance)

    @property
    def learnt(self) -> Relevance:
        """What the memory teaches; nothing without a memory."""
        return self._relevance if self._memory else Relevance()

    @property
    def searching(self) -> Reasoner:
        """The reasoner itself."""
        return self

    def counts(self) -> dict[str, int]:
        """Return nothing: no model is asked."""
        return {}

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """Implement `Reasoner.annotate`."""
        return tuple(islice(running_notes(goal, (action for _, action in steps)), len(steps)))

    def notes(self, goal: str, past: Past) -> Notes:
        """Return assessment and summary of the whole past."""
        *_, latest = running_notes(goal, (action for _, action in past))
        return latest

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        """Implement `Reasoner.cluster_goals` by the goals' embeddings."""
        return cluster(goals, self._embedder.embed(goals))

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """Implement `Reasoner.cluster_observations` by the observations' embeddings."""
        return cluster(observations, self._embedder.embed(observations))

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        """Implement `Reasoner.classify_goal` by the nearest centroid."""
        return nearest(self._embedder.embed([goal])[0], types)

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        """Implement `Reasoner.classify_observation` by the nearest centroid."""
        return nearest(self._embedder.embed([observation])[0], types)

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """Return the most probable action, with how often such decisions were right.

        If nothing is known it is the admissible action done least often so far, with confidence 0.
        """
        ranking = self._ranking(state, recalls)
        ranked = ranking.ranked()
        action = ranked[0][0] if ranked else _least_done(state)
        proposal = Proposal(action, ranking.sure if ranked else 0.0)
        followed = self.followed(state, recalls, action)
        return Answer((proposal,), followed, votes=_shares(ranked))

    def votes(self, state: State, recalls: Sequence[Recall]) -> tuple[Proposal, ...]:
        """Return the first candidates with their probabilities, see `Answer.votes`."""
        return _shares(self._ranking(state, recalls).ranked())

    def followed(self, state: State, recalls: Sequence[Recall], action: str) -> tuple[int, ...]:
        """Return the places of the recalls that `action` follows, see `Answer.followed`."""
        mine = self._situation(state).pattern(action)
        return tuple(
            place
            for place, recall in enumerate(recalls)
            if not recall.tuple.is_warning
            and (recall.tuple.action == action or self._pattern_of(recall.tuple) == mine)
        )

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """Return the `z` most probable alternatives, with their shares of the probability."""
        first = self._ranking(state, recalls).alternatives()[:z] or [(_least_done(state), 0.0)]
        total = sum(share for _, share in first) or 1.0
        proposals = tuple(Proposal(action, share / total) for action, share in first)
        return Answer(proposals)

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """Return the most probable action, how sure that is, and the recalls that support it."""
        ranking = self._ranking(state, recalls)
        for action, _ in ranking.alternatives()[:1]:
            return Agreement(action, ranking.sure, len(self.followed(state, recalls, action)))
        return Agreement("", 0.0, 0)

    def follow(self, state: State, recalls: Sequence[Recall], agreed: Agreement) -> Answer:
        """Implement `Reasoner.follow`."""
        return Answer((Proposal(agreed.action, 1.0),))

    def weigh(self, state: State, recalls: Sequence[Recall], z: int) -> tuple[Agreement, ...]:
        """Return the `z` most probable alternatives: the share and supporters of each."""
        ranking = self._ranking(state, recalls)
        members = defaultdict[int, list[str]](list)
        for action, group in zip(ranking.texts, ranking.groups, strict=False):
            members[group].append(action)
        alike = {one[0]: tuple(one[1:]) for one in members.values()}
        return tuple(
            Agreement(action, share, len(self.followed(state, recalls, action)), alike[action])
            for action, share in ranking.alternatives()[:z]
        )

    def compare(self, best: Process, ground: Process) -> int:
        """Return the first step whose action differs."""
        for i, (mine, theirs) in enumerate(zip(best.steps, ground.steps, strict=False)):
            if mine[0] != theirs[0]:
                return i
        return min(len(ground.steps), max(0, len(best.steps) - 1))

    def choose(self, processes: Sequence[Process]) -> int:
        """Return the process with the highest mean confidence, the first of them on a tie."""
        means = [float(np.mean(p.confidences)) if p.confidences else 0.0 for p in processes]
        return max(range(len(means)), key=lambda i: (round(means[i], 9), -i))

    def _ranking(self, state: State, recalls: Sequence[Recall]) -> Ranking:
        """Rank the candidates, once for all questions about a state."""
        last_state, last_recalls, ranking = self._latest
        if last_state is not state or last_recalls is not recalls:
            if self._memory is None:
                self._relevance = learn([lesson_of(one.tuple) for one in recalls], calibrated=False)
                self._read = None, None
            ranking = self._relevance.rank(self._situation(state), state.admissible, state.refused)
            self._latest = state, recalls, ranking
        return ranking

    def _situation(self, state: State) -> Situation:
        """Read a state, once for all questions about it."""
        last_state, situation = self._read
        if last_state is not state or situation is None:
            known, past = self._relevance, state.history.past
            situation = known.situation(state.goal, state.kind, past, state.observation)
            self._read = state, situation
        return situation

    def _pattern_of(self, source: StateActionTuple) -> Pattern:
        """Return the pattern of a recalled action in its own situation."""

        def made() -> tuple[StateActionTuple, Pattern]:
            past, known = source.history.past, self._relevance.vocabulary
            then = Situation(known, source.goal, source.kind, past, source.observation)
            return source, then.pattern(source.action)

        return cached(self._patterns, id(source), made, CACHE_SIZE)[1]


def _shares(ranked: Sequence[tuple[str, float]]) -> tuple[Proposal, ...]:
    """Return the most probable actions, for the record."""
    return tuple(Proposal(action, round(share, 3)) for action, share in ranked[:VOTES])


def _least_done(state: State) -> str:
    """Return the admissible action done least often, the first of equals, or "" without any."""
    done, possible = state.history.actions, state.admissible or ("",)
    return min([x for x in possible if x not in state.refused] or possible, key=done.count)
