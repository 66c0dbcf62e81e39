"""Learn from searches what could have been done at once: what is found last was there all the time.

A recorded search shows the way of its recorder, not where to look first. A step counts if a later
one that counts needs what it names or shows; the last one counts. Detours are steps that do not
count, where the next one that does was possible already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ldm.reason.features import Situation, role_of
from ldm.reason.reading import Words, kind_of, lines, lines_with, place_of
from ldm.reason.vocabulary import INSTEAD, Lesson, Vocabulary, read_command
from ldm.types import by_key

#: What a detour weighs as it was, where it tried the form of what counts: less than any other step
#: of a success, and more than what counts. Chosen as INSTEAD.
TRIED = 0.49


def without_detours(lessons: Sequence[Lesson], vocabulary: Vocabulary) -> list[Lesson]:
    """Return lessons in which detours of successes become the next step that counts.

    Those that tried its form with something else stay as well, weighing less: they teach to go on
    to what was not tried yet.
    """
    if vocabulary.pressed:  # what is seen on one page cannot be done on all
        return [*lessons]
    episodes = by_key((lesson.episode, lesson) for lesson in lessons)
    courses = [Course(steps, vocabulary) for steps in episodes.values()]
    named = {word for one in courses for names in one.names for name in names for word in name}
    worked = (one for one in courses if one.last.weight > 0)
    uses = by_key((one.last.kind, Counter(one.frames)) for one in worked)
    better: dict[int, list[Lesson]] = {}
    for one, steps in zip(courses, episodes.values(), strict=True):
        of_kind = uses.get(one.last.kind, ())
        needed = {frame for frame in one.frames if len({used[frame] for used in of_kind}) == 1}
        instead = dict(one.instead(needed, named))
        for lesson in steps:
            old, action = instead.get(len(lesson.past), ("", ""))
            if lesson.weight > 0 and lesson.action == old and _possible(action, lesson):
                tried = read_command(old).frame == read_command(action).frame
                as_it_was = [replace(lesson, weight=TRIED * lesson.weight)] if tried else []
                as_it_counts = replace(lesson, action=action, weight=INSTEAD * lesson.weight)
                better[id(lesson)] = [*as_it_was, as_it_counts]
    return [one for lesson in lessons for one in better.get(id(lesson), [lesson])]


class Course:
    """The steps of an episode, as far as they are recorded.

    last: the last one. actions, frames, names: of each step; names are the things that it names.
    news: the lines that each step but the last shows for the first time.
    """

    def __init__(self, steps: Sequence[Lesson], vocabulary: Vocabulary) -> None:
        """Read the longest past."""
        self._vocabulary = vocabulary
        self.last = max(steps, key=lambda one: len(one.past))
        self._texts = [*(text for text, _ in self.last.past), self.last.observation]
        self.actions = [*(action for _, action in self.last.past), self.last.action]
        self.frames = [read_command(action).frame for action in self.actions]
        self.names = [*map(_names, self.actions)]
        known: set[Words] = set()
        self.news: list[frozenset[Words]] = []
        for before, after in pairwise(self._texts):
            known.update(lines(before))
            self.news.append(frozenset(lines(after)) - known)

    def instead(self, needed: set[str], named: set[str]) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield (step, (its action, the next one that counts)) of detours.

        Of runs of steps that count for nothing, from where the frame of the next one that counts
        was tried with something else. They have several steps and change nothing that lasts.

        needed: frames that every success of the kind has equally often. named: words of things.
        """
        counting, run = self._counting(needed), list[int]()
        for step, action in enumerate(self.actions):
            if step not in counting:
                run.append(step)
                continue
            same = [self.frames[i] == self.frames[step] and self.actions[i] != action for i in run]
            lasting = any(self._lasts(i, named) for i in run)
            run = run[same.index(True) :] if any(same) and not lasting else []
            if len(run) > 1 and action not in self._vocabulary.closed:
                yield from ((i, (self.actions[i], action)) for i in run)
            run = []

    def _counting(self, needed: set[str]) -> set[int]:
        """Return the steps that count.

        Also what names nothing, is written the same in many episodes or has a needed frame, and
        the last step that names a thing of the goal.
        """
        last, count = self.last, len(self.actions)
        state = Situation(self._vocabulary, last.goal, last.kind, last.past, last.observation)
        last_of = {role_of(x, state.roles): i for i, names in enumerate(self.names) for x in names}
        counting = {count - 1, *(i for role, i in last_of.items() if role)}
        fixed = self._vocabulary.closed
        counting.update(i for i in range(count) if not self.names[i] or self.actions[i] in fixed)
        counting.update(i for i in range(count) if self.frames[i] in needed)
        for step in reversed(range(count)):
            for name in self.names[step] if step in counting else ():
                counting.update(i for i in range(step) if self._naming(i, name))
                counting.update([i for i in range(step) if self._showing(i, name)][-1:])
        return counting

    def _naming(self, step: int, name: Words) -> bool:
        return any(place_of(one, name) >= 0 for one in self.names[step])

    def _showing(self, step: int, name: Words) -> bool:
        return not self.news[step].isdisjoint(lines_with(name, self._texts[step + 1]))

    def _lasts(self, step: int, named: set[str]) -> bool:
        """Return whether something of a thing is shown on after the next step."""
        after = lines(self._texts[step + 2]) if step + 2 < len(self._texts) else ()
        return any(not named.isdisjoint(line) for line in self.news[step].intersection(after))


def _names(action: str) -> list[Words]:
    """Return the things that an action names; amounts of one kind are one thing."""
    return [one if one[-1].isdigit() else kind_of(one) for one in read_command(action).fillers]


def _possible(action: str, lesson: Lesson) -> bool:
    """Return whether an action was possible.

    Where that is unknown: whether it names only things that were seen, and not only in the goal.
    """
    if lesson.possible is not None:
        return action in lesson.possible
    texts = (*(text for text, _ in lesson.past), lesson.observation)
    return not any(lines_with(name, lesson.goal) for name in _names(action)) and all(
        any(lines_with(name, text) for text in texts) for name in _names(action)
    )
