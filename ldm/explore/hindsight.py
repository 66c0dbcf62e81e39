"""Hindsight: the actions that a solved episode should have taken, known once it is solved.

An agent that finds something in the fortieth place has searched thirty-nine others first.
Remembered unrevised, such an episode teaches to search on, and the one step that mattered is one
vote of forty. In hindsight the needed steps are known: without the others, the restarted
environment still gives the full score. So each step that was not needed gets the next needed
action, if that was possible there and leads to the full score from there, too. The votes of many
such episodes are distributed like the locations of the things.

The states remain those of the episode, so that an agent that has searched in vain finds advice.
Only episodes with the full score are revised, and only by actions that were carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ldm.episode import FULL_SCORE
from ldm.explore.positions import Position, Positions
from ldm.explore.stages import words
from ldm.memory import IndexedTuple
from ldm.types import Count, Task, Trajectory

#: Numbers of adjacent steps left out together; pairs such as opening and closing need two.
BLOCKS = (8, 4, 2, 1)
#: The first word of an action.
_VERB = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Solved:
    """An episode with the full score, to be revised in hindsight."""

    index: int
    way: Trajectory

    @property
    def task(self) -> Task:
        return self.way.task

    def failed(self, error: str) -> Revision:
        return Revision(self.index, self.task.id, self.way.id, error=error)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The action that should have been taken at a step. saved: the steps that it saves."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    step: Count
    action: str
    saved: Count


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of hindsight for an episode.

    trajectory: its id. needed: the number of needed steps. shortcuts: at the others. error: the
    traceback of a replay that failed; then nothing is revised.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    task: str
    trajectory: str
    needed: Count = 0
    shortcuts: tuple[Shortcut, ...] = ()
    error: str = ""


def revise(positions: Positions, solved: Solved) -> Revision:
    """Revise an episode. Raise the errors of the environment.

    positions: of the episode's task.
    """
    actions = [step.action for _, step in solved.way.moves()]
    needed = _needed(positions, actions)
    shortcuts = tuple(_shortcuts(positions, solved.way.task.goal, actions, needed))
    return Revision(
        solved.index, solved.task.id, solved.way.id, len(needed), shortcuts if needed else ()
    )


def revised(
    rows: Iterable[IndexedTuple], revisions: Iterable[Revision]
) -> tuple[IndexedTuple, ...]:
    """Return the tuples of solved episodes with actions revised in hindsight."""
    by_step = {(one.trajectory, cut.step): cut for one in revisions for cut in one.shortcuts}
    return tuple(_revised(row, by_step) for row in rows)


def _revised(row: IndexedTuple, by_step: Mapping[tuple[str, int], Shortcut]) -> IndexedTuple:
    cut = by_step.get((row.tuple.trajectory_id, row.tuple.step))
    outcome = row.tuple.outcome
    if cut is None or outcome is None:
        return row
    outcome = replace(outcome, saved=cut.saved)
    return replace(row, tuple=replace(row.tuple, action=cut.action, outcome=outcome))


def _needed(positions: Positions, actions: Sequence[str]) -> list[int]:
    """Return the numbers of the necessary actions: leaving out one misses the full score.

    Actions that became impossible because others were left out have no effect, and are left out in
    turn. The list is empty if even all actions together miss the full score.
    """
    left = list(range(len(actions)))
    if not _succeeds(positions, positions.start(), actions):
        return []
    for size in BLOCKS:
        position, place = positions.start(), 0
        while place < len(left):
            rest = left[place + size :]
            if _succeeds(positions, position, [actions[n] for n in rest], keep=True):
                left[place:] = rest
                continue
            before, position = position, positions.after(position, actions[left[place]])
            positions.drop(before)
            place += 1
        positions.drop(position)
    return left


def _shortcuts(
    positions: Positions, goal: str, actions: Sequence[str], needed: Sequence[int]
) -> Iterable[Shortcut]:
    position = positions.start()
    for number, action in enumerate(actions):
        rest = [actions[n] for n in needed if n > number]
        saved = len(actions) - number - len(rest)
        if (
            number not in needed
            and rest
            and rest[0] != action
            and _is_possible(rest[0], goal, position)
            and _succeeds(positions, position, rest, keep=True)
        ):
            yield Shortcut(number, rest[0], saved)
        before, position = position, positions.after(position, action)
        positions.drop(before)
        if position.now.done:
            break
    positions.drop(position)


def _is_possible(action: str, goal: str, position: Position) -> bool:
    """Return whether an action could have been taken in a state, as far as is known.

    If actions are not listed, everything that the action names must have been seen.
    """
    if position.now.admissible is not None:
        return action in position.now.admissible
    texts = [goal, position.now.observation, *(observation for observation, _ in position.past)]
    return words(_VERB.sub("", action, count=1)) <= words(" ".join(texts))


def _succeeds(
    positions: Positions, position: Position, actions: Sequence[str], *, keep: bool = False
) -> bool:
    """Return whether actions lead to the full score. keep: whether `position` is used again."""
    for action in actions:
        if position.now.done:
            break
        before, position = position, positions.after(position, action)
        if not keep:
            positions.drop(before)
        keep = False
    succeeded = position.score >= FULL_SCORE
    if not keep:
        positions.drop(position)
    return succeeded
