"""LDM²'s questions (§3) answered without a language model: by clustering, extraction and analogy.

It is also the baseline that uses memory alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from ldm.embed import Embedder
from ldm.reason import (
    VOTES,
    Agreement,
    Answer,
    Clustering,
    Notes,
    Process,
    Reasoner,
    State,
    TypeView,
    entity_votes,
    page_votes,
    quote_votes,
    shortened,
)
from ldm.reason.clusters import cluster, nearest
from ldm.reason.entities import Situation, read_situation
from ldm.reason.entity_votes import Panel, Precedent
from ldm.reason.page_votes import PagePrecedent, PageWeights
from ldm.reason.pages import Page, has_lines_of_labels, labels_of, read_call
from ldm.reason.quote_votes import QuoteWeights
from ldm.reason.running import RunningNotes
from ldm.reason.voting import NEARBY, Poll, voice_of, voters
from ldm.types import Past, Proposal, Recall, StateActionTuple

T = TypeVar("T")
#: Recalled situations cached: a memory of 20,000 tuples fits.
CACHE_SIZE = 30_000
#: Recalls whose precedents are cached together.
KEPT_PANELS = 512


class OfflineReasoner:
    """A `Reasoner` without a language model, which weighs more recalls than fit a prompt."""

    name = "offline"
    recalls = 60
    concurrency = 1
    reads_notes = False

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._precedent = _OncePerTuple(_read)
        self._panels: dict[int, tuple[Sequence[Recall], Panel]] = {}
        self._pages = _OncePerTuple(_page_precedent)
        self._quotes = _OncePerTuple(
            lambda source: quote_votes.read_precedent(source, voice_of(source.outcome))
        )
        self._latest: tuple[State | None, Sequence[Recall], Poll] = (None, (), Poll((), (), ()))

    @property
    def searching(self) -> Reasoner:
        """The reasoner itself."""
        return self

    def counts(self) -> dict[str, int]:
        """Return nothing: no model is asked."""
        return {}

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """Implement `Reasoner.annotate`."""
        running = RunningNotes(goal)
        notes = []
        for (observation, _), step in zip(steps, shortened(steps), strict=True):
            notes.append(running.notes(observation))
            running.take(*step)
        return tuple(notes)

    def notes(self, goal: str, past: Past, observation: str, previous: Notes) -> Notes:
        """Return assessment and summary of the whole past; `previous` has no influence."""
        return _running(goal, shortened(past)).notes(observation)

    def assess(self, goal: str, past: Past, observation: str) -> str:
        """Return the verbs used on each thing that the goal names: an extractive assessment."""
        return _running(goal, past).assessment()

    def summarize(self, goal: str, past: Past, observation: str) -> str:
        """Return the past actions, runs of one form merged, the latest SUMMARY_LENGTH of them."""
        return _running(goal, past).summary(observation)

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
        """Return the action with the most votes; its confidence is its share of all votes.

        Without any vote it is the admissible action done least often so far, with confidence 0,
        preferably one without opposing votes.
        """
        poll = self._poll(state, recalls)
        ranked = poll.ranked()
        votes = ranked or [(_least_done(state, poll.opposed()), 0.0)]
        action, most = votes[0]
        confidence = most / sum(share for _, share in votes) if most else 0.0
        followed = self._followed(poll, state, recalls, action)
        proposal = Proposal(action, confidence)
        return Answer((proposal,), state.notes, followed, votes=_shares(ranked))

    def votes(self, state: State, recalls: Sequence[Recall]) -> tuple[Proposal, ...]:
        """Return the vote of the recalls, see `Answer.votes`."""
        return _shares(self._poll(state, recalls).ranked())

    def followed(self, state: State, recalls: Sequence[Recall], action: str) -> tuple[int, ...]:
        """Return the places of the recalls that `action` follows, see `Answer.followed`."""
        return self._followed(self._poll(state, recalls), state, recalls, action)

    def by_need(self, state: State, recalls: Sequence[Recall]) -> list[Recall]:
        """Return the recalls, those that met the same need first, those without a ballot last.

        The weight of a ballot, for or against an action, tells how similar the need was: by the
        actions on the things of the goal, by those at hand or chosen, and by those still open.
        """
        weights = dict.fromkeys(range(len(recalls)), 0.0)
        ballots = self._poll(state, recalls).ballots
        for place, ballot in zip(self._casting(state, recalls), ballots, strict=bool(ballots)):
            weights[place] = round(abs(ballot.weight), 9)
        return [recalls[place] for place in sorted(weights, key=lambda at: -weights[at])]

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """Return the `z` alternatives with the most votes, with their shares of those votes."""
        poll = self._poll(state, recalls)
        votes = (poll.alternatives() or [(_least_done(state, poll.opposed()), 0.0)])[:z]
        total = sum(share for _, share in votes) or 1.0
        proposals = tuple(Proposal(action, share / total) for action, share in votes)
        return Answer(proposals, state.notes)

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """Return the action with the most votes; each recall counts by its weight."""
        return self._poll(state, recalls).agreement()

    def follow(self, state: State, recalls: Sequence[Recall], agreed: Agreement) -> Answer:
        """Implement `Reasoner.follow`."""
        return Answer((Proposal(agreed.action, 1.0),), state.notes)

    def weigh(self, state: State, recalls: Sequence[Recall], z: int) -> tuple[Agreement, ...]:
        """Return the `z` actions with the most votes: the share and supporters of each."""
        return self._poll(state, recalls).support()[:z]

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

    def _poll(self, state: State, recalls: Sequence[Recall]) -> Poll:
        """Let the recalls vote, once for all questions about a state."""
        last_state, last_recalls, poll = self._latest
        if last_state is not state or last_recalls is not recalls:
            poll = self._vote(state, self._voting(state, recalls))
            self._latest = state, recalls, poll
        return poll

    def _voting(self, state: State, recalls: Sequence[Recall]) -> Sequence[Recall]:
        """Return the recalls that vote: `recalls` itself if all do."""
        places = voters(state.observation, recalls)
        return recalls if len(places) == len(recalls) else [recalls[i] for i in places]

    def _vote(self, state: State, recalls: Sequence[Recall]) -> Poll:
        """Let the recalls vote: on labels or free arguments of calls, otherwise on entities."""
        if _on_pages(recalls) and _quotes(state, recalls):
            reading = quote_votes.read(state.goal, state.history.past, state.observation)
            quotes = [replace(self._quotes(r.tuple), similarity=r.similarity) for r in recalls]
            return quote_votes.poll(reading, quotes, QuoteWeights())
        if _on_pages(recalls):
            page = Page(state.goal, state.history.past, state.observation)
            pages = [self._page(recall) for recall in recalls]
            return page_votes.poll(page, state.admissible, pages, PageWeights())
        present = read_situation(state.goal, state.history.past, state.observation)
        return entity_votes.poll(present, state.admissible, self._panel(recalls))

    def _followed(
        self, poll: Poll, state: State, recalls: Sequence[Recall], action: str
    ) -> tuple[int, ...]:
        """Return the places of the recalls that `action` follows in their poll."""
        followers = poll.followers(action)
        if followers is None:
            return tuple(i for i, recall in enumerate(recalls) if recall.tuple.action == action)
        places = self._casting(state, recalls)
        return tuple(places[place] for place in followers)

    def _casting(self, state: State, recalls: Sequence[Recall]) -> Sequence[int]:
        """Return the places of the recalls that cast a ballot, in the order of the ballots."""
        places = voters(state.observation, recalls)
        voting = [recalls[i] for i in places]
        if _on_pages(voting) and not _quotes(state, voting):
            # A page without labels was not recorded and casts no ballot.
            places = [i for i in places if self._page(recalls[i]).page.labels]
        return places

    def _panel(self, recalls: Sequence[Recall]) -> Panel:
        """Return the precedents of recalls, cached, as the same ones recur often."""
        cached = self._panels.get(id(recalls))
        if cached is None or not isinstance(recalls, tuple):
            precedents = [self._precedent(recall.tuple) for recall in recalls]
            similarities = [recall.similarity for recall in recalls]
            cached = recalls, Panel(precedents, similarities)
            if len(self._panels) >= KEPT_PANELS:
                self._panels.clear()
            if isinstance(recalls, tuple):  # which is immutable
                self._panels[id(recalls)] = cached
        return cached[1]

    def _page(self, recall: Recall) -> PagePrecedent:
        """Return the recalled page."""
        nearby = recall.reach >= NEARBY
        return replace(self._pages(recall.tuple), similarity=recall.similarity, nearby=nearby)


class _OncePerTuple(Generic[T]):
    """A function of a tuple, called once per tuple: reading costs more than voting."""

    def __init__(self, read: Callable[[StateActionTuple], T]) -> None:
        self._read = read
        # Keyed by id() and kept alive for that: a key of texts would cost more than a vote.
        self._known: dict[int, tuple[StateActionTuple, T]] = {}

    def __call__(self, source: StateActionTuple) -> T:
        cached = self._known.get(id(source))
        if cached is None:
            cached = source, self._read(source)
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            self._known[id(source)] = cached
        return cached[1]


def _read(source: StateActionTuple) -> Precedent:
    situation = Situation(source.goal, source.history.past, source.observation)
    return Precedent(situation, situation.read(source.action), voice_of(source.outcome))


def _page_precedent(source: StateActionTuple) -> PagePrecedent:
    call = read_call(source.action)
    assert call is not None  # noqa: S101 - checked by `_vote`
    page = Page(source.goal, source.history.past, source.observation)
    return PagePrecedent(page, call, 0.0, voice_of(source.outcome))


def _running(goal: str, past: Past) -> RunningNotes:
    """Return the notes on a past."""
    running = RunningNotes(goal)
    for step in past:
        running.take(*step)
    return running


def _shares(ranked: Sequence[tuple[str, float]]) -> tuple[Proposal, ...]:
    """Return the actions with the most votes and their shares of all votes, for the record."""
    total = sum(vote for _, vote in ranked)
    return tuple(Proposal(action, round(vote / total, 3)) for action, vote in ranked[:VOTES])


def _on_pages(recalls: Sequence[Recall]) -> bool:
    """Return whether all recalled actions press or enter something on a page."""
    return bool(recalls) and all(read_call(recall.tuple.action) for recall in recalls)


def _quotes(state: State, recalls: Sequence[Recall]) -> bool:
    """Return whether calls have free arguments: none are listed, and most were made in prose."""
    if state.admissible is not None:
        return False
    calls = [(read_call(recall.tuple.action), recall.tuple.observation) for recall in recalls]
    on_pages = sum(
        call is not None and (call.label in labels_of(text) or has_lines_of_labels(text))
        for call, text in calls
    )
    return on_pages <= len(calls) / 2


def _least_done(state: State, opposed: frozenset[str]) -> str:
    """Return the admissible action done least often, the first of equals, or "" without any.

    opposed: actions that come last.
    """
    if not state.admissible:
        return ""
    done = state.history.actions
    return min(state.admissible, key=lambda action: (action in opposed, done.count(action)))
