"""The offline notes on every step of a trajectory, in one pass over it.

They say what `OfflineReasoner.notes` says of each step by itself, but each step is read once: the
cost of a trajectory grows with its length, not with the square of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ldm.reason import Notes, shortened
from ldm.reason.entities import (
    FUNCTION_WORDS,
    Command,
    Entity,
    name_of,
    pattern_of,
    phrases,
    read_command,
    words,
)
from ldm.types import Past


@dataclass(slots=True)
class _Run:
    """Commands of one frame in a row. things: the distinct entities in its only slot."""

    frame: str
    texts: list[str] = field(default_factory=list)
    things: dict[Entity, None] = field(default_factory=dict)

    @property
    def listed(self) -> bool:
        """Whether a summary merges it into one item: a verb, and what it was done with."""
        return self.frame.count("_") == 1 and self.frame.endswith("_")

    def __len__(self) -> int:
        """Return how many items of a summary it takes."""
        return 1 if self.listed else len(self.texts)


class RunningNotes:
    """Reads the steps of a trajectory one after the other, and writes notes on what was read."""

    def __init__(self, goal: str, length: int) -> None:
        """Begin before the first step. length: items of a summary."""
        self._goal = words(goal)
        self._length = length
        self._known = set(phrases(goal))
        self._texts = [goal]
        self._verbs: dict[str, dict[str, None]] = {}
        self._done: set[str] = set()
        self._runs: list[_Run] = []
        self._items = 0
        self._spelt: dict[Entity, tuple[int, str]] = {}

    def over(self, steps: Past) -> Iterator[Notes]:
        """Yield the notes on each of the steps (o_τ, a_τ), of what came before it."""
        for step, (text, action) in zip(steps, shortened(steps), strict=True):
            yield Notes(self._assessment(), self._summary(step[0]))
            self._known |= phrases(text)
            self._texts.append(text)
            self._take(read_command(action, self._known))

    def _take(self, command: Command) -> None:
        for entity in command.entities:
            self._verbs.setdefault(name_of(entity)[-1], {})[command.verb] = None
        self._done.add(command.verb)
        if not self._runs or self._runs[-1].frame != command.frame:
            self._runs.append(_Run(command.frame))
        run = self._runs[-1]
        before = len(run) if run.texts else 0
        run.texts.append(command.text)
        if run.listed:
            run.things[command.entities[0]] = None
        self._items += len(run) - before

    def _assessment(self) -> str:
        sentences = []
        for word in dict.fromkeys(w for w in self._goal if w not in FUNCTION_WORDS):
            if word in self._verbs:
                sentences.append(f"{word}: {', '.join(self._verbs[word])}")
            else:
                sentences.append(f"{word}: {'done' if word in self._done else 'not yet'}")
        return "; ".join(sentences)

    def _summary(self, observation: str) -> str:
        latest: list[str] = []
        for run in reversed(self._runs):
            if len(latest) >= self._length:
                break
            if run.listed:
                things = dict.fromkeys(self._surface(thing, observation) for thing in run.things)
                latest.append(f"{run.frame[:-2]} {', '.join(things)}")
            else:
                latest.extend(reversed(run.texts[-self._length :]))
        latest = latest[: self._length][::-1]
        dropped = self._items - self._length
        return "; ".join(([f"({dropped} earlier)"] if dropped > 0 else []) + latest)

    def _surface(self, entity: Entity, observation: str) -> str:
        """Return `entity` as the latest text spells it; see `Situation.surface`."""
        pattern = pattern_of(entity)
        if match := pattern.search(observation):
            return match.group()
        searched, spelling = self._spelt.get(entity, (0, " ".join(entity)))
        for text in reversed(self._texts[searched:]):
            if match := pattern.search(text):
                spelling = match.group()
                break
        self._spelt[entity] = (len(self._texts), spelling)
        return spelling
