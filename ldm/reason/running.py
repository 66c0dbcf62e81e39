"""The offline notes on a trajectory: an assessment and a summary, extracted from its actions.

Each step is read once, so that the cost of a trajectory grows with its length.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ldm.reason import Notes
from ldm.reason.frames import read_command
from ldm.reason.reading import FUNCTION_WORDS, Words, kind_of, pattern_of, words

#: Items of a summary, the latest ones.
SUMMARY_LENGTH = 12


@dataclass(slots=True)
class _Run:
    """Commands of one frame in a row. things: the distinct entities in its only slot."""

    frame: str
    texts: list[str] = field(default_factory=list)
    things: dict[Words, None] = field(default_factory=dict)

    @property
    def listed(self) -> bool:
        """Whether a summary merges it into one item: a verb, and what it was done with."""
        return self.frame.count("_") == 1 and self.frame.endswith("_")

    def __len__(self) -> int:
        """Return the number of its items in a summary."""
        return 1 if self.listed else len(self.texts)


class RunningNotes:
    """Reads the steps of a trajectory one after the other, and writes notes on those read."""

    def __init__(self, goal: str) -> None:
        self._goal = words(goal)
        self._texts = [goal]
        self._verbs: dict[str, dict[str, None]] = {}
        self._done: set[str] = set()
        self._runs: list[_Run] = []
        self._items = 0
        self._spelt: dict[Words, tuple[int, str]] = {}

    def notes(self, observation: str) -> Notes:
        """Return the notes at the present observation."""
        return Notes(self.assessment(), self.summary(observation))

    def take(self, observation: str, action: str) -> None:
        """Read the next step (o_τ, a_τ)."""
        self._texts.append(observation)
        command = read_command(action)
        for filler in command.fillers:
            self._verbs.setdefault(kind_of(filler)[-1], {})[command.verb] = None
        self._done.add(command.verb)
        if not self._runs or self._runs[-1].frame != command.frame:
            self._runs.append(_Run(command.frame))
        run = self._runs[-1]
        before = len(run) if run.texts else 0
        run.texts.append(command.text)
        if run.listed:
            run.things[command.fillers[0]] = None
        self._items += len(run) - before

    def assessment(self) -> str:
        """Return the verbs used on each thing that the goal names."""
        sentences = []
        for word in dict.fromkeys(w for w in self._goal if w not in FUNCTION_WORDS):
            if word in self._verbs:
                sentences.append(f"{word}: {', '.join(self._verbs[word])}")
            else:
                sentences.append(f"{word}: {'done' if word in self._done else 'not yet'}")
        return "; ".join(sentences)

    def summary(self, observation: str) -> str:
        """Return the latest actions, runs of one form merged, things spelt as in the texts."""
        latest: list[str] = []
        for run in reversed(self._runs):
            if len(latest) >= SUMMARY_LENGTH:
                break
            if run.listed:
                things = dict.fromkeys(self._surface(thing, observation) for thing in run.things)
                latest.append(f"{run.frame[:-2]} {', '.join(things)}")
            else:
                latest.extend(reversed(run.texts[-SUMMARY_LENGTH:]))
        latest = latest[:SUMMARY_LENGTH][::-1]
        dropped = self._items - SUMMARY_LENGTH
        return "; ".join(([f"({dropped} earlier)"] if dropped > 0 else []) + latest)

    def _surface(self, thing: Words, observation: str) -> str:
        """Return a thing as the latest text spells it."""
        pattern = pattern_of(thing)
        if match := pattern.search(observation):
            return match.group()
        searched, spelling = self._spelt.get(thing, (0, " ".join(thing)))
        for text in reversed(self._texts[searched:]):
            if match := pattern.search(text):
                spelling = match.group()
                break
        self._spelt[thing] = (len(self._texts), spelling)
        return spelling
