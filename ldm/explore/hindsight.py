"""What a solved episode should have done, known once it is solved.

Who finds something in the fortieth place has been in thirty-nine others first. Remembered as it
was, such an episode teaches to search on, and the one step that mattered is one voice of forty. In
hindsight it is known which steps were needed: the others can be left out, and the environment,
started anew, still gives the full score. So at each step that was not needed the next needed action
is what was to be done, if it was possible there and leads to the full score from there, too. Where
many episodes are remembered like this, their voices are spread as the things were: where most of
them were found, most voices say to look.

The states stay those that the episode came to, so that there is advice for whoever has searched in
vain. Only full scores are revised, and only by what was carried out.
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

#: How many steps in a row are left out together; pairs such as opening and closing need two.
BLOCKS = (8, 4, 2, 1)
#: The first word of an action.
_VERB = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Solved:
    """An episode with the full score, to be looked at in hindsight."""

    index: int
    way: Trajectory

    @property
    def task(self) -> Task:
        return self.way.task

    def failed(self, error: str) -> Revision:
        return Revision(self.index, self.task.id, self.way.id, error=error)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What was to be done at a step. saved: how many steps fewer lead to the end from there."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    step: Count
    action: str
    saved: Count


@dataclass(frozen=True, slots=True)
class Revision:
    """What hindsight found about an episode.

    trajectory: its id. needed: how many of its steps were. shortcuts: at steps that were not.
    error: the traceback of a replay that failed; then nothing is revised.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    task: str
    trajectory: str
    needed: Count = 0
    shortcuts: tuple[Shortcut, ...] = ()
    error: str = ""


def revise(positions: Positions, solved: Solved) -> Revision:
    """Look at an episode in hindsight. Raises what the environment raises.

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
    """Return tuples of solved episodes with the actions of hindsight."""
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
    """Return the numbers of actions without any of which the full score is missed.

    Actions that have become impossible, as what they rest on was left out, do nothing, and are left
    out in their turn. Empty where even all actions together miss the full score.
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

    Where actions are not listed, everything that it names must have been seen: nobody can answer
    with what they have not read.
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
