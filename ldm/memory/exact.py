"""The tuples that a view of a memory recalls, compared exactly over all kinds (LDM² Eq. 3).

Tuples with the same goal, observation and action are one recall, whose outcomes are counted.
Episodes that are in no generation yet are memories of their own, recalled at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from ldm.embed import Embedder
from ldm.memory import Memory
from ldm.memory.filters import EVERYTHING, Filter
from ldm.memory.formation import MIXED, failed, tuples_of
from ldm.memory.formation import texts_of as texts_of_trajectories
from ldm.memory.index import BatchIndex, GoalType, IndexedTuple
from ldm.memory.lessons import Contents, Known, empty
from ldm.memory.log import Episodes, Event, Rate
from ldm.memory.recalls import Trial
from ldm.memory.retrieval import Query, Retriever
from ldm.memory.rows import Floats, Mask, Numbers, Vectors, id_of, value_of
from ldm.parallel import cached, give_back
from ldm.reason.offline import OfflineReasoner
from ldm.reason.vocabulary import read_command
from ldm.types import Recall, StateActionTuple, Trajectory, by_key

#: Filters, and forms of actions, whose masks are cached.
KEPT = 32
#: The latest tuples with an action, in each part of a memory, whose outcomes are looked at.
RECENT = 50
#: The columns by which tuples count as equal, and the texts in them.
COLUMNS = ("goal", "observation", "action")
Texts = tuple[str, str, str]
#: The rewards of tuples by id.
Rated = Mapping[str, Sequence[Trial]]


def texts_of(one: StateActionTuple) -> Texts:
    """Return the texts by which tuples count as equal."""
    return one.goal, one.observation, one.action


class Exact:
    """The search over all visible rows, and the outcomes of rows with an action."""

    def __init__(self, retriever: Retriever, visible: Mask) -> None:
        self._rows, self._columns = retriever.rows, retriever.rows.columns
        self._texts, self._actions = retriever.texts, retriever.rows.columns["action"]
        self._visible = visible
        self._retriever = retriever
        self._masks: dict[Filter, tuple[Mask, Mask]] = {}
        self._others: dict[str, Mask] = {}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The numbers of the texts by which tuples count as equal."""
        columns = map(self._rows.distinct, COLUMNS)
        return {text: number for column in columns for number, text in column.items()}

    @cached_property
    def _forms(self) -> dict[str, list[int]]:
        """The numbers of the actions of each form."""
        return by_key((read_command(x).frame, n) for n, x in self._rows.distinct("action").items())

    @cached_property
    def _success(self) -> Floats:
        """The success of each tuple's episode, NaN if unknown."""
        outcomes = self._rows.distinct("outcome")
        values = np.full(max(outcomes, default=0) + 1, np.nan)
        for number, text in outcomes.items():
            if (outcome := value_of("outcome", text)) is not None:
                values[number] = outcome.score
        success: Floats = values[self._columns["outcome"]]
        return success

    @cached_property
    def distinct(self) -> int:
        """The number of visible tuples, those with equal texts counted once."""
        return len(np.unique(self._texts[self._visible]))

    def mask(self, accepted: Filter) -> Mask:
        """Return a mask of the tuples that are visible and accepted."""
        return self._cached(accepted)[0]

    def _cached(self, accepted: Filter) -> tuple[Mask, Mask]:
        """Return `mask`, and a mask of all but the first such tuple of each group of equal ones."""

        def made() -> tuple[Mask, Mask]:
            mask = self._visible & accepted.mask(self._rows)
            rows, others = np.flatnonzero(mask), np.ones(len(mask), np.bool_)
            others[rows[np.unique(self._texts[rows], return_index=True)[1]]] = False
            return mask, others

        return cached(self._masks, accepted, made, KEPT)

    def nearest(
        self, query: Query, count: int, accepted: Filter = EVERYTHING, form: str = ""
    ) -> list[Recall]:
        """Recall the `count` most similar distinct tuples.

        accepted: a condition on the tuples. form: of their actions; "" for any.
        """
        skipped = self._cached(accepted)[1]
        if form:
            others = partial(np.isin, self._actions, self._forms.get(form, ()), invert=True)
            skipped = skipped | cached(self._others, form, others, KEPT)
        return self._retriever.nearest(query, count, skipped)

    def holds(self, texts: Texts) -> bool:
        """Return whether a tuple with these texts is visible."""
        return len(self._having(EVERYTHING, texts)) > 0

    def trials(self, texts: Texts, rated: Rated, accepted: Filter) -> list[Trial]:
        """Return the outcomes of the tuples with these texts, and the feedback on them."""
        return self._trials_at(self._having(accepted, texts), rated)

    def trials_of(
        self, action: str, query: Query, least: float, rated: Rated, accepted: Filter
    ) -> list[Trial]:
        """Return the outcomes of the RECENT latest tuples with an action, as far as similar.

        least: the least similarity.
        """
        rows = self._having(accepted, (action,))[-RECENT:]
        return self._trials_at(rows[self._retriever.similarities(query, rows) >= least], rated)

    @cached_property
    def _by_action(self) -> Numbers:
        """All rows by action, those of one the oldest first."""
        return np.lexsort((self._columns["time"], self._actions))

    def _having(self, accepted: Filter, texts: Sequence[str]) -> Numbers:
        """Return the accepted rows with these texts, the oldest first.

        texts: goal, observation and action, or the action alone.
        """
        *others, action = (self._numbers.get(text, -1) for text in texts)
        ends = np.array([max(action, 0), action + 1], self._actions.dtype)
        rows = self._by_action[slice(*np.searchsorted(self._actions, ends, sorter=self._by_action))]
        rows = rows[self.mask(accepted)[rows]]
        for name, number in zip(COLUMNS, others, strict=False):
            rows = rows[self._columns[name][rows] == number]
        return rows

    def _trials_at(self, rows: Numbers, rated: Rated) -> list[Trial]:
        """Return the known outcomes of rows, and the feedback on all of them."""
        known = rows[~np.isnan(self._success[rows])]
        columns = self._columns["time"][known], known, self._success[known]
        trials = [Trial(*one) for one in zip(*(one.tolist() for one in columns), strict=True)]
        if rated:
            names = map(id_of, self._columns["id"][rows].tolist())
            trials += [trial for name in names for trial in rated.get(name, ())]
        return trials


#: The type, and a part of the name, of a batch that is not clustered yet.
PENDING = "pending"
#: Tuples beyond which the last memory, made anew for each episode, is added to the one before.
MOST = 300


class View:
    """What a growing memory recalls: its newest generation, and the episodes of the log since.

    One thread takes events at a time, while others recall.

    base: the generation, without any tuple if there is none. place, states: how far the log was
        read, and what the files were like then. episodes: those that the events tell of.
    pending: the finished ones that are not in the generation, by the ids of their trajectories.
    memories: of their tuples, one or two; others replace them. rated: rewards.
    """

    def __init__(self, base: Memory, embedder: Embedder) -> None:
        """Start without episodes."""
        self.base = base
        self.place = base.contents.log
        self.states: tuple[tuple[int, ...], ...] = ()
        self.episodes = Episodes()
        self.pending: dict[str, Trajectory] = {}
        self.memories: tuple[Memory, ...] = ()
        self.rated: dict[str, list[Trial]] = {}
        self._embedder = embedder
        self._reasoner = OfflineReasoner(embedder)

    @property
    def parts(self) -> tuple[Memory, ...]:
        """The memories that are searched."""
        return self.base, *self.memories

    def holds(self, trajectory: str) -> bool:
        """Return whether a trajectory is in the generation or pending, by its id."""
        return trajectory in self.pending or trajectory in self.base.contents.trajectories

    def take(
        self,
        events: Sequence[tuple[int, Event]],
        vectors_of: Callable[[Sequence[str]], Mapping[str, Vectors]],
    ) -> None:
        """Take further events. vectors_of: returns the vectors of goals and observations."""
        for at, event in events:
            if isinstance(event, Rate):
                for name in event.tuples:
                    trial = Trial(event.time, at, (1 + event.reward) / 2)
                    self.rated.setdefault(name, []).append(trial)
        finished = self.episodes.take(event for _, event in events).values()
        new = {one.id: one for one in finished if not self.holds(one.id)}
        if new:
            vectors = vectors_of(texts_of_trajectories(new.values()))
            self.memories = self._with(new.values(), vectors)
            self.pending |= new

    def _with(
        self, episodes: Iterable[Trajectory], vectors: Mapping[str, Vectors]
    ) -> tuple[Memory, ...]:
        """Return the memories of all pending episodes with more of them."""
        rows = list[IndexedTuple]()
        start = empty(replace(self.base.record, number=self.base.generation + 1, hidden=()))
        for one in episodes:
            batch = f"{one.task.kind or MIXED}-{PENDING}"
            tuples = tuples_of(one, self._reasoner, start.generation.number, warning=failed(one))
            rows += [IndexedTuple(step, batch, 0, 0) for step in tuples]
        *older, recent = self.memories or [Memory(start, self._embedder)]
        if len(recent) >= MOST:
            give_back()  # what earlier memories have left between the objects that stay
            more = [*recent.contents.rows], recent.contents.vectors_of_texts()
            older = [self._extended(one.contents, *more) for one in older] or [recent]
            recent = Memory(start, self._embedder)
        return *older, self._extended(recent.contents, rows, vectors)

    def _extended(
        self, contents: Contents, rows: Sequence[IndexedTuple], vectors: Mapping[str, Vectors]
    ) -> Memory:
        """Return a memory of contents and further rows, in batches that are not clustered."""
        names = {row.batch for row in rows} - {batch.id for batch in contents.batches}
        only, number = (GoalType(PENDING, (PENDING,)),), contents.generation.number
        batches = [BatchIndex(name, "", number, (), only) for name in sorted(names)]
        known = Known(self._embedder.name, self._embedder.dimension, vectors)
        return Memory(contents.extended(rows, known, batches), self._embedder)
