"""Hindsight: the actions that a solved episode should have taken, known once it is solved.

An agent that finds something in the fortieth place has searched thirty-nine others first.
Remembered unrevised, such an episode teaches to search on, and the one step that mattered is one
of forty. In hindsight the needed steps are known: without the others, the restarted environment
still gives the full score. So each step that was not needed gets the next needed action, if that
was possible there and leads to the full score from there, too. The lessons of many such episodes
are distributed like the locations of the things.

The states remain those of the episode, so that an agent that has searched in vain finds advice.
Only episodes with the full score are revised, and only by actions that were carried out. As they
are played again anyway, the actions that were possible are recorded, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ldm.episode import FULL_SCORE
from ldm.explore.positions import Position, Positions
from ldm.explore.refine import ExplorationWorker
from ldm.explore.stages import words
from ldm.memory import IndexedTuple
from ldm.types import Count, Trajectory

#: Numbers of adjacent steps left out together; pairs such as opening and closing need two.
BLOCKS = (8, 4, 2, 1)
#: The first word of an action.
_VERB = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The action that should have been taken at a step. saved: the steps that it saves."""

    step: Count
    action: str
    saved: Count


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of hindsight for an episode.

    trajectory: its id. needed: the number of needed steps. shortcuts: at the others. possible: the
    possible actions of each step, None where unknown. error: the traceback of a replay that failed;
    then nothing is revised.
    """

    index: int
    trajectory: str
    needed: Count = 0
    shortcuts: tuple[Shortcut, ...] = ()
    possible: tuple[tuple[str, ...] | None, ...] = ()
    error: str = ""


class Reviser(ExplorationWorker):
    """Revises solved episodes."""

    def __call__(self, item: tuple[int, Trajectory]) -> Revision:
        """Return the revision of an episode."""
        index, way = item

        def revision() -> Revision:
            with closing(Positions(self.setup.env, way.task)) as positions:
                return revise(positions, way, index)

        return self.attempted(revision, Revision(index, way.id))


def revise(positions: Positions, way: Trajectory, index: int = 0) -> Revision:
    """Revise an episode with the full score. Raise the errors of the environment.

    positions: of the episode's task.
    """
    actions = [step.action for _, step in way.moves()]
    needed = _needed(positions, actions)
    if not needed:
        return Revision(index, way.id)
    shortcuts: list[Shortcut] = []
    possible: list[tuple[str, ...] | None] = []
    position = positions.start()
    for number, action in enumerate(actions):
        rest = [actions[n] for n in needed if n > number]
        possible.append(position.now.admissible)
        if (
            number not in needed
            and rest
            and rest[0] != action
            and _is_possible(rest[0], way.task.goal, position)
            and _succeeds(positions, position, rest)
        ):
            shortcuts.append(Shortcut(number, rest[0], len(actions) - number - len(rest)))
        position = positions.moved(position, action)
        if position.now.done:
            break
    positions.drop(position)
    return Revision(index, way.id, len(needed), tuple(shortcuts), tuple(possible))


def revised(rows: Iterable[IndexedTuple], revisions: Iterable[Revision]) -> list[IndexedTuple]:
    """Return the tuples of solved episodes with the actions of hindsight."""
    by_way = {one.trajectory: one for one in revisions}
    return [
        _revised(row, by_way[way]) if (way := row.tuple.trajectory_id) in by_way else row
        for row in rows
    ]


def _revised(row: IndexedTuple, revision: Revision) -> IndexedTuple:
    one = row.tuple
    if one.step < len(revision.possible):
        one = replace(one, possible=revision.possible[one.step])
    for cut in revision.shortcuts:
        if cut.step == one.step and one.outcome is not None:
            one = replace(one, action=cut.action, outcome=replace(one.outcome, saved=cut.saved))
    return replace(row, tuple=one)


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
            if _succeeds(positions, position, [actions[n] for n in rest]):
                left[place:] = rest
                continue
            position = positions.moved(position, actions[left[place]])
            place += 1
        positions.drop(position)
    return left


def _is_possible(action: str, goal: str, position: Position) -> bool:
    """Return whether an action could have been taken in a state, as far as is known.

    If actions are not listed, everything that the action names must have been seen.
    """
    if position.now.admissible is not None:
        return action in position.now.admissible
    texts = [goal, position.now.observation, *(observation for observation, _ in position.past)]
    return words(_VERB.sub("", action, count=1)) <= words(" ".join(texts))


def _succeeds(positions: Positions, position: Position, actions: Sequence[str]) -> bool:
    """Return whether actions lead to the full score; `position` can be used again."""
    end = position
    for action in actions:
        if end.now.done:
            break
        before, end = end, positions.after(end, action)
        if before is not position:
            positions.drop(before)
    if end is not position:
        positions.drop(end)
    return end.score >= FULL_SCORE
