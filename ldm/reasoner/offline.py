"""LDM²'s questions answered without any model service: clustering, extraction, analogy.

It is a baseline in its own right: how far does memory alone go, without a language model?
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from ldm.embed import Embedder
from ldm.reasoner import (
    Agreement,
    Answer,
    Clustering,
    Notes,
    Process,
    State,
    TypeView,
    analogy,
    labels,
    shortened,
)
from ldm.reasoner.analogy import Precedent, Weights
from ldm.reasoner.clusters import cluster, nearest
from ldm.reasoner.situation import FUNCTION_WORDS, Situation, name_of
from ldm.reasoner.voting import Poll
from ldm.types import Past, Proposal, Recall

#: Merged actions that a summary keeps, the latest ones.
SUMMARY_LENGTH = 12
#: Recalled situations kept read; a memory of 20,000 tuples fits.
REMEMBERED = 30_000


class OfflineReasoner:
    """A `Reasoner` without a language model.

    It compares recalls one by one and weighs them, so it makes use of more than the 5 that fit a
    prompt.
    """

    name = "offline"
    recalls = 60
    concurrency = 1

    def __init__(
        self,
        embedder: Embedder,
        weights: Weights | None = None,
        page_weights: labels.PageWeights | None = None,
    ) -> None:
        self._embedder = embedder
        self._weights = weights or Weights()
        self._page_weights = page_weights or labels.PageWeights()
        self._precedents: dict[Hashable, Precedent] = {}
        self._pages: dict[Hashable, labels.PagePrecedent] = {}

    def counts(self) -> dict[str, int]:
        return {}

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        return tuple(
            self.notes(goal, shortened(steps[:number]), observation, Notes())
            for number, (observation, _) in enumerate(steps)
        )

    def notes(self, goal: str, past: Past, observation: str, kept: Notes) -> Notes:
        """Assessment and summary of the whole past; what was noted before is not needed."""
        assessment = self.assess(goal, past, observation)
        return Notes(assessment, self.summarize(goal, past, observation))

    def assess(self, goal: str, past: Past, observation: str) -> str:
        """Extractive: what was done with each thing that the goal names."""
        situation = Situation(goal, past, observation)
        dealt: dict[str, dict[str, None]] = {}
        for command in situation.past:
            for entity in command.entities:
                dealt.setdefault(name_of(entity)[-1], {})[command.verb] = None
        sentences = []
        for word in dict.fromkeys(w for w in situation.goal if w not in FUNCTION_WORDS):
            if word in dealt:
                sentences.append(f"{word}: {', '.join(dealt[word])}")
            elif any(command.verb == word for command in situation.past):
                sentences.append(f"{word}: done")
            else:
                sentences.append(f"{word}: not yet")
        return "; ".join(sentences)

    def summarize(self, goal: str, past: Past, observation: str) -> str:
        """The past actions, runs of the same form merged, the latest SUMMARY_LENGTH of them."""
        situation = Situation(goal, past, observation)
        merged = []
        for frame, run in groupby(situation.past, key=lambda command: command.frame):
            commands = list(run)
            if frame.count("_") == 1 and frame.endswith("_"):
                things = dict.fromkeys(situation.surface(c.entities[0]) for c in commands)
                merged.append(f"{frame[:-2]} {', '.join(things)}")
            else:
                merged.extend(command.text for command in commands)
        dropped = len(merged) - SUMMARY_LENGTH
        shown = merged[-SUMMARY_LENGTH:]
        return "; ".join(([f"({dropped} earlier)"] if dropped > 0 else []) + shown)

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        return cluster(goals, self._embedder.embed(goals))

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        return cluster(observations, self._embedder.embed(observations))

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        return self._nearest(goal, types)

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        return self._nearest(observation, types)

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """The action with most votes; its confidence is its share of all votes.

        Without any vote: an admissible action done least often so far, with confidence 0.
        """
        votes = self._poll(state, recalls).ranked() or [(_least_done(state), 0.0)]
        action, most = votes[0]
        confidence = most / sum(share for _, share in votes) if most else 0.0
        return Answer((Proposal(action, confidence),), state.notes)

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """The `z` alternatives with most votes; confidences are their shares of those votes."""
        found = self._poll(state, recalls).alternatives()
        votes = (found or [(_least_done(state), 0.0)])[:z]
        total = sum(share for _, share in votes) or 1.0
        proposals = tuple(Proposal(action, share / total) for action, share in votes)
        return Answer(proposals, state.notes)

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """Each recall comes to the action most like its own, and says so with its voice."""
        return self._poll(state, recalls).agreement()

    def weigh(self, state: State, recalls: Sequence[Recall], z: int) -> tuple[Agreement, ...]:
        """The `z` actions with most votes: the share of each, and the recalls it is nearest to."""
        return self._poll(state, recalls).support()[:z]

    def compare(self, best: Process, ground: Process) -> int:
        """The first step whose action differs."""
        for i, (mine, theirs) in enumerate(zip(best.steps, ground.steps, strict=False)):
            if mine[0] != theirs[0]:
                return i
        return min(len(ground.steps), max(0, len(best.steps) - 1))

    def choose(self, processes: Sequence[Process]) -> int:
        """The process with the highest mean confidence, the first of them on a tie."""
        means = [float(np.mean(p.confidences)) if p.confidences else 0.0 for p in processes]
        return max(range(len(means)), key=lambda i: (round(means[i], 9), -i))

    def _poll(self, state: State, recalls: Sequence[Recall]) -> Poll:
        """How the recalls vote: by what is written on a page, or by the parts that things play."""
        if recalls and all(labels.read_call(recall.tuple.action) for recall in recalls):
            page = labels.Page(state.goal, state.history.past, state.observation)
            pages = [self._page(recall) for recall in recalls]
            return labels.poll(page, state.admissible, pages, self._page_weights)
        present = Situation(state.goal, state.history.past, state.observation)
        precedents = [self._precedent(recall) for recall in recalls]
        return analogy.poll(present, state.admissible, precedents, self._weights)

    def _nearest(self, text: str, types: Sequence[TypeView]) -> int:
        return nearest(self._embedder.embed([text])[0], types)

    def _precedent(self, recall: Recall) -> Precedent:
        """The recalled situation, read once per tuple: reading costs more than voting."""
        source = recall.tuple
        # A tuple in the words of another dialect shares its id with the original.
        key = (source.id, source.action, source.observation, source.history.past)
        kept = self._precedents.get(key)
        if kept is None:
            situation = Situation(source.goal, source.history.past, source.observation)
            kept = Precedent(situation, situation.read(source.action), 0.0)
            if len(self._precedents) >= REMEMBERED:
                self._precedents.clear()
            self._precedents[key] = kept
        return Precedent(kept.situation, kept.command, recall.similarity)

    def _page(self, recall: Recall) -> labels.PagePrecedent:
        """The recalled page, read once per tuple."""
        source = recall.tuple
        key = (source.id, source.action, source.observation, source.history.past)
        kept = self._pages.get(key)
        if kept is None:
            call = labels.read_call(source.action)
            assert call is not None  # noqa: S101 - the caller looked
            page = labels.Page(source.goal, source.history.past, source.observation)
            kept = labels.PagePrecedent(page, call, 0.0)
            if len(self._pages) >= REMEMBERED:
                self._pages.clear()
            self._pages[key] = kept
        return replace(kept, similarity=recall.similarity)


def _least_done(state: State) -> str:
    if not state.admissible:
        return ""
    done = state.history.actions
    return min(state.admissible, key=done.count)
