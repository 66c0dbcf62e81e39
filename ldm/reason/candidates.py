"""The actions that a state may call for, where the environment lists none or not all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, product

from ldm.parallel import cached
from ldm.reason.excerpts import quoted
from ldm.reason.features import Situation
from ldm.reason.pages import composed, has_lines_of_labels, read_call
from ldm.reason.reading import TEXTS, Words, apart, instances, lines, shape
from ldm.reason.vocabulary import Command, Lesson, read_command

#: Candidates for one slot, for one frame, and in all, the most used frames first, where none are
#: listed.
FILLERS, FILLED, MOST = 10, 40, 1000
#: A slot takes new kinds of things if this share of its uses were each the only one of a kind.
OPEN = 0.05
#: The share of recorded actions without capitals from which new ones have none either: the capital
#: of "To the East" is that of the text, not of "move east".
LOWER_CASE = 0.95


class Candidates:
    """The actions that a state may call for where none are listed: known frames, filled anew."""

    def __init__(self, actions: Iterable[str]) -> None:
        """Learn frames, and what kinds of things fill their slots, from recorded actions."""
        self._fillers: dict[str, list[Counter[Words]]] = {}
        self._kinds: set[Words] = set()
        self._recorded: dict[str, list[str]] = {}
        self._named: dict[str, tuple[Words, ...]] = {}
        for action in actions:
            command = read_command(action)
            self._recorded.setdefault(command.frame, []).append(action)
            slots = self._fillers.setdefault(command.frame, [Counter() for _ in command.fillers])
            for slot, filler in zip(slots, command.fillers, strict=False):
                slot[shape(filler)] += 1
                self._kinds.add(shape(filler))
        self._known = {*chain.from_iterable(self._recorded.values())}
        self._lower_case = sum(x == x.lower() for x in self._known) >= LOWER_CASE * len(self._known)
        self._frames = sorted(self._recorded, key=lambda one: (-len(self._recorded[one]), one))

    def of(self, now: Situation) -> list[str]:
        """Return the candidates of a state, the most used frames first."""
        known = now.vocabulary
        if now.page:
            pressed = [f"{v}[{x}]" for x in now.page.labels for v in sorted(known.pressed)]
            return [*pressed, *self.entered(now)]
        if known.quotations:
            calls = dict.fromkeys([*known.phrases, *quoted(known.quotations, now.sources)])
            return [f"{verb}[{argument}]" for verb, argument in calls]
        names: dict[Words, None] = {}
        for text in reversed([now.goal, *now.texts]):
            names.update(dict.fromkeys(self._entities(text)))
            names.update((name, None) for role in now.roles for name in instances(role, text))
        candidates: dict[str, None] = {}
        for text in (now.goal, *now.texts):
            whole = (x for x in apart(text) if read_command(x).frame in self._recorded)
            candidates.update(dict.fromkeys(whole))
        for frame in self._frames:
            if frame in known.copied:
                continue
            if len(candidates) >= MOST:
                break
            command = read_command(self._recorded[frame][0])
            options = [self._options(slot, names) for slot in self._fillers[frame]]
            for fillers in islice(product(*options), FILLED):
                candidates[self._text(command, fillers, now)] = None
        return list(candidates)

    def against(self, now: Situation, lesson: Lesson) -> list[str]:
        """Return the actions that a lesson's action stands against, none if they are unknown."""
        possible = self.of(now) if lesson.possible is None else list(lesson.possible)
        known, call = now.vocabulary, read_call(lesson.action)
        if not known.pressed:
            return possible
        if not now.page or not has_lines_of_labels(now.page.observation) or not call:
            return []  # a page that was not recorded
        if call.label in now.page.labels:
            return [x for x in possible if x != f"{call.verb}[{call.label}]"]
        if call.verb in known.pressed:
            return []
        return [x for x in possible if read_command(x).verb != call.verb]

    def entered(self, now: Situation) -> list[str]:
        """Return the calls with an argument made up for the goal."""
        argument = composed(now.goal, dict(now.vocabulary.taken))
        return [f"{verb}[{argument}]" for verb in sorted(now.vocabulary.entered)]

    def completed(self, now: Situation, listed: Sequence[str]) -> Sequence[str]:
        """Return listed actions, with arguments made up for the goal where any may be given."""
        if not now.page:
            return listed
        labels, free = now.page.labels, now.vocabulary.entered
        calls = [(x, read_call(x)) for x in listed]
        any_kind = {x: c.verb for x, c in calls if c and c.verb in free and c.label not in labels}
        verbs = set(any_kind.values())
        made = [x for x in self.entered(now) if read_command(x).verb in verbs]
        return [*made, *(x for x in listed if x not in any_kind)]

    def _options(self, slot: Counter[Words], there: Iterable[Words]) -> list[Words]:
        known = [name for name in there if shape(name) in slot][:FILLERS]
        once = sum(count == 1 for count in slot.values())
        if once < OPEN * slot.total():  # of what fills it, this share was never there before
            return known
        amounts = all(kind[0] == "#" for kind in slot)  # what was never without an amount needs one
        new = [x for x in there if shape(x) not in self._kinds and amounts <= (shape(x)[0] == "#")]
        return [*known, *new[: max(2, FILLERS - len(known))]]

    def _entities(self, text: str) -> tuple[Words, ...]:
        """Return the things of known kinds in a text."""

        def named() -> Iterator[Words]:
            for line in lines(text):
                for i in range(len(line)):
                    runs = (line[i : i + size] for size in (4, 3, 2, 1) if i + size <= len(line))
                    yield from islice((run for run in runs if shape(run) in self._kinds), 1)

        return cached(self._named, text, lambda: tuple(dict.fromkeys(named())), TEXTS)

    def _text(self, command: Command, fillers: tuple[Words, ...], now: Situation) -> str:
        if fillers == command.fillers:
            return command.text
        text = command.filled([now.surface(filler) for filler in fillers])
        return text.lower() if self._lower_case and text not in self._known else text
