"""Episodes that are in no generation yet: recalled at once, compared one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ldm.memory import ranking
from ldm.memory.evidence import Trial, success_of
from ldm.memory.formation import MIXED, FormationOptions, tuples_of
from ldm.reason import Reasoner
from ldm.types import Past, Recall, StateActionTuple, Trajectory

#: The type, and a part of the name, of a batch that is not clustered yet.
PENDING = "pending"
#: Episodes of the first batch. Each later one is at most as large as all before it together, until
#: it has the size that was asked for: a memory learns early what its episodes call for.
FIRST = 10
#: The number of latest tuples with an action whose outcomes are looked at.
RECENT = 50
#: Tuples and vectors for which there is room at first; each further time there is twice as much.
ROOM = 256
#: A tuple's goal, observation and action.
Texts = tuple[str, str, str]


def enough(batch_size: int, folded: int) -> int:
    """Return the number of episodes of the next batch. folded: the number in batches."""
    return min(batch_size, max(FIRST, folded))


def texts_of(one: StateActionTuple) -> Texts:
    """Return the texts by which tuples count as equal."""
    return one.goal, one.observation, one.action


class _Growing:
    """An array that is appended to; a reader's view of its beginning stays as it is."""

    def __init__(self, shape: tuple[int, ...], kind: type[np.generic]) -> None:
        self._array = np.empty((ROOM, *shape), kind)
        self.size = 0

    def append(self, value: object) -> int:
        """Append a value; return its number."""
        if self.size == len(self._array):
            self._array = np.concatenate([self._array, np.empty_like(self._array)])
        self._array[self.size] = value
        self.size += 1
        return self.size - 1

    def first(self, count: int) -> NDArray[np.generic]:
        """Return a view of the first values."""
        return self._array[:count]


class Pending:
    """The tuples of pending episodes. One thread adds at a time, while others recall."""

    def __init__(self, reasoner: Reasoner, dimension: int, generation: int) -> None:
        """Start without episodes.

        reasoner: writes histories. generation: the number that they may become.
        """
        self.generation = generation
        self.rows: list[StateActionTuple] = []
        self.trajectories: dict[str, Trajectory] = {}
        self._reasoner = reasoner
        self._numbers: dict[str, int] = {}
        self._vectors = _Growing((dimension,), np.float32)
        self._goals, self._observations = _Growing((), np.int64), _Growing((), np.int64)
        self._of_texts: dict[Texts, list[int]] = {}
        self._of_action: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._goals.first(self._goals.size))

    def add(
        self, episode: str, trajectory: Trajectory, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Add an episode. vectors: of its goal and observations."""
        warns = FormationOptions(failures="contrast").warns(trajectory)
        tuples = tuples_of(trajectory, self._reasoner, self.generation, warning=warns)
        self.trajectories[episode] = trajectory
        for one in tuples:
            self._of_texts.setdefault(texts_of(one), []).append(len(self.rows))
            self._of_action.setdefault(one.action, []).append(len(self.rows))
            self.rows.append(one)
            self._observations.append(self._number(one.observation, vectors))
            self._goals.append(self._number(one.goal, vectors))  # its size is that of all

    def _number(self, text: str, vectors: Mapping[str, NDArray[np.float32]]) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = self._vectors.append(vectors[text])
        return number

    def nearest(
        self,
        goal: NDArray[np.float32],
        observation: NDArray[np.float32],
        count: int,
        accepted: Callable[[StateActionTuple], bool] | None = None,
    ) -> list[tuple[float, StateActionTuple]]:
        """Return (similarity, tuple) of the nearest distinct tuples, the most similar first.

        goal, observation: (dimension,) unit vectors. accepted: a filter, or None for all.
        """
        size = self._goals.size
        if not size:
            return []
        goals, observations = self._goals.first(size), self._observations.first(size)
        distinct = self._vectors.first(self._vectors.size)
        to_goal, to_observation = (np.vecdot(distinct, one) for one in (goal, observation))
        similar = ranking.score(to_goal[goals], to_observation[observations])
        if accepted is None and count < size:
            least = np.partition(similar, size - count)[size - count]
            chosen = np.flatnonzero(similar >= least)
        else:
            chosen = np.arange(size)
        order = chosen[np.argsort(-similar[chosen], kind="stable")]
        matches: dict[Texts, tuple[float, StateActionTuple]] = {}
        for number in order.tolist():
            one = self.rows[number]
            if accepted is not None and not accepted(one):
                continue
            matches.setdefault(texts_of(one), (float(similar[number]), one))
            if len(matches) == count:
                break
        return list(matches.values())

    def trials(
        self, texts: Texts, accepted: Callable[[StateActionTuple], bool] | None = None
    ) -> list[tuple[str, Trial]]:
        """Return the id and the trial of each tuple with these texts."""
        trials = []
        for number in self._of_texts.get(texts, ()):
            one = self.rows[number]
            success = success_of(one.outcome)
            if success is not None and (accepted is None or accepted(one)):
                trials.append((one.id, Trial(one.time, number, success)))
        return trials

    def trials_of(
        self,
        action: str,
        goal: NDArray[np.float32],
        observation: NDArray[np.float32],
        least: float,
        accepted: Callable[[StateActionTuple], bool] | None = None,
    ) -> list[tuple[str, Trial]]:
        """Return the ids and trials of the latest tuples with an action in similar situations."""
        latest = self._of_action.get(action, ())[-RECENT:]
        numbers = [i for i in latest if accepted is None or accepted(self.rows[i])]
        if not numbers:
            return []
        size, vectors = self._goals.size, self._vectors.first(self._vectors.size)
        to_goal = np.vecdot(vectors[self._goals.first(size)[numbers]], goal)
        to_observation = np.vecdot(vectors[self._observations.first(size)[numbers]], observation)
        near = ranking.score(to_goal, to_observation) >= least
        matches = [(i, self.rows[i]) for i, is_near in zip(numbers, near, strict=True) if is_near]
        return [
            (one.id, Trial(one.time, i, success))
            for i, one in matches
            if (success := success_of(one.outcome)) is not None
        ]

    @property
    def distinct(self) -> set[tuple[Texts, Past]]:
        """What tells its distinct tuples apart: texts and past."""
        return {(texts_of(one), one.history.past) for one in self.rows}

    def recall(self, one: StateActionTuple, similarity: float) -> Recall:
        """Return a tuple as a recall."""
        batch = f"{one.kind or MIXED}-{PENDING}"
        return Recall(one, similarity, batch, PENDING, PENDING)
