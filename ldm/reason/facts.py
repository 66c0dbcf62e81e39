"""The facts of recorded steps, in words that a person understands.

Facts are values of structured texts and thresholds of their numbers, wherever in the episode they
were read; what was done; words of the goal; what the text in sight says of the goal's things, which
are called "thing 1", "thing 2", … from the goal's end; and when the episode was.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ldm.reason.features import Situation
from ldm.reason.frames import read_command
from ldm.reason.reading import (
    FUNCTION_WORDS,
    leaves,
    lines,
    mentioned,
    number,
    prose,
    shape,
    structure,
    words,
)
from ldm.reason.vocabulary import Lesson, Vocabulary

#: The sorts of facts, in the order in which those that always hold together are named.
KIND, DEED, VALUE, GOAL, SIGHT, NOT, TIME = range(7)
#: Beginnings of facts.
SAYS, AFTER, JUST, LATELY = "the goal says ", "after ", "just after ", "in the latest "
SAID, NOT_DONE = "said of ", "not done: "
#: A thing that a description of an action does not name.
ANY = "…"
#: Episodes that must show a fact.
SUPPORT = 3
#: Words of a line that is a fact, things of the goal that are told apart, and values of a path.
LINE, THINGS, VALUES = 12, 8, 8
#: The latest episodes, by share, in which other facts may matter, and distinct times from which.
LATEST, TIMES = (0.1, 0.25, 0.5, 0.75), 20


def described(action: str, now: Situation, *, named: bool) -> str:
    """Return an action in words. named: whether things are named that the goal does not name."""
    command = read_command(action)
    if structure(action) is not None:
        called = [v for v in leaves(action) if named or " ".join(v) in command.frame]
        arguments = ", ".join(f"{path.rpartition('.')[2]} {value}" for path, value in called[1:])
        return f"{called[0][1]} ({arguments})" if arguments else called[0][1] if called else action
    parts = iter(
        f"thing {r}" if (r := now.role_of(x)) else " ".join(shape(x)) if named else ANY
        for x in command.fillers
    )
    pieces = command.frame.split()
    return " ".join(x.replace("_", next(parts)) if x in ("_", "[_]") else x for x in pieces)


def descriptions(action: str, now: Situation) -> tuple[str, ...]:
    """Return an action in words, with and without the names of things."""
    return tuple(dict.fromkeys(described(action, now, named=named) for named in (True, False)))


def holds(fact: str, facts: Mapping[str, int]) -> bool:
    """Return whether a fact of a rule is true of a state with these facts, which is the latest."""
    if " != " in fact:
        path = fact.partition(" != ")[0]
        equal = fact.replace(" != ", " = ", 1)
        return equal not in facts and any(one.startswith(f"{path} = ") for one in facts)
    if fact.startswith(NOT_DONE):
        return AFTER + fact.removeprefix(NOT_DONE) not in facts
    return fact in facts or fact.startswith(LATELY)


def recurring(rows: Sequence[Mapping[str, int]], lessons: Sequence[Lesson]) -> set[str]:
    """Return the facts of several episodes that some steps lack."""
    where: dict[str, set[str]] = defaultdict(set)
    often: Counter[str] = Counter()
    for facts, lesson in zip(rows, lessons, strict=True):
        often.update(facts.keys())
        for name in facts:
            where[name].add(lesson.episode)
    return {name for name, n in often.items() if len(where[name]) >= SUPPORT and n < len(rows)}


class FactReader:
    """Reads recorded steps as facts in words, each with its sort."""

    def __init__(self, vocabulary: Vocabulary, lessons: Sequence[Lesson]) -> None:
        """Learn from all steps how much is said of what."""
        self._vocabulary = vocabulary
        self._kinds = len({one.kind for one in lessons})
        self._limits = dict(vocabulary.thresholds)
        paths = {path for one in lessons for path, _ in leaves(one.observation, named=True)}
        ends = Counter(end for path in paths for end in _ends(path))
        self._short = {path: next(e for e in _ends(path) if ends[e] == 1) for path in paths}
        self._texts: dict[str, dict[str, tuple[str, ...]]] = {}
        self._states: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
        self._paths: dict[str, str] = {}
        when = sorted({one.time for one in lessons})
        shares = LATEST if len(when) >= TIMES else ()
        self._latest = {
            f"{LATELY}{x:.0%} of the episodes": when[-round(x * len(when))] for x in shares
        }

    def read_all(self, lessons: Sequence[Lesson]) -> tuple[list[dict[str, int]], list[list[str]]]:
        """Return the facts of each step, and the descriptions of its action, the exact one first.

        Facts are also which of the usual values a path has not, and what was not done yet.
        """
        read = [self.read(one) for one in lessons]
        rows = [facts for facts, _ in read]
        done = [descriptions(one.action, now) for one, (_, now) in zip(lessons, read, strict=True)]
        common = recurring(rows, lessons)
        deeds = [name for name in common if name.startswith(AFTER)]
        values: dict[str, list[str]] = defaultdict(list)
        for name in common & self._paths.keys():
            values[self._paths[name]].append(name)
        several = {path: v for path, v in values.items() if 2 < len(v) <= VALUES}
        for facts in rows:
            here = {self._paths[name] for name in facts if name in self._paths} & several.keys()
            others = [
                x.replace(" = ", " != ", 1) for p in here for x in several[p] if x not in facts
            ]
            others += [f"{NOT_DONE}{x.removeprefix(AFTER)}" for x in deeds if x not in facts]
            facts.update(dict.fromkeys(others, NOT))
        return rows, [list(actions) for actions in done]

    def read(self, one: Lesson) -> tuple[dict[str, int], Situation]:
        """Return the facts of a step, each with its sort, and its state."""
        now = Situation(self._vocabulary, one.goal, one.kind, one.past, one.observation)
        facts: dict[str, int] = {}
        for values in self._state(tuple(now.texts)).values():
            facts.update(dict.fromkeys(values, VALUE))
        done = [descriptions(action, now) for _, action in now.past]
        facts.update((f"{AFTER}{name}", DEED) for names in done for name in names)
        last = [f"{JUST}{name}" for name in done[-1]] if done else ["at the start"]
        facts.update(dict.fromkeys(last, DEED))
        if self._kinds > 1:
            facts[f"kind {one.kind}"] = KIND
        known = {x for x in words(one.goal) if x in self._vocabulary.goal_words}
        facts.update((f'{SAYS}"{word}"', GOAL) for word in known - FUNCTION_WORDS)
        for r, thing in enumerate(now.roles[:THINGS], 1):
            words_of = {x for line in now.instructions if mentioned(thing, line) for x in line}
            words_of -= {*FUNCTION_WORDS, *thing}
            facts.update((f'asked of thing {r}: "{word}"', GOAL) for word in words_of)
        facts.update(dict.fromkeys(_sights(now), SIGHT))
        time = one.time
        facts.update((name, TIME) for name, least in self._latest.items() if time >= least)
        return facts, now

    def _state(self, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the latest values of each path, as facts."""
        if texts not in self._states:
            before = self._state(texts[:-1]) if len(texts) > 1 else {}
            self._states[texts] = {**before, **self._read(texts[-1])}
        return self._states[texts]

    def _read(self, text: str) -> dict[str, tuple[str, ...]]:
        if text not in self._texts:
            values: dict[str, list[str]] = defaultdict(list)
            for path, value in leaves(text, named=True):
                name = self._short.get(path, path)
                values[path].append(f"{name} = {value}")
                if (amount := number(value)) is None:
                    self._paths[f"{name} = {value}"] = path
                    continue
                for limit in self._limits.get(path, ()):
                    values[path].append(f"{name} {'<=' if amount <= limit else '>'} {limit:g}")
            self._texts[text] = {path: tuple(dict.fromkeys(v)) for path, v in values.items()}
        return self._texts[text]


def _ends(path: str) -> list[str]:
    """Return the ends of a path, the shortest first, and all of it."""
    parts = path.split(".")
    return [*(".".join(parts[i:]) for i in range(len(parts) - 1, 0, -1)), f".{path}"[1:]]


def _sights(now: Situation) -> Iterator[str]:
    """Yield what the prose in sight says of the goal's things, and what else it says."""
    present = lines(prose(now.sight))
    rest = [line for line in present if len(line) <= LINE]
    for r, thing in enumerate(now.roles[:THINGS] if present else (), 1):
        about = [(line, place) for line in present if (place := mentioned(thing, line))]
        yield f"thing {r} {'' if about else 'not '}in sight"
        for line, (at, size) in about:
            rest = [one for one in rest if one != line]
            others = (*line[:at], f"[thing {r}]", *line[at + size :])
            yield f'in sight: "{" ".join(others)}"'
            yield f'in sight: "{" ".join("N" if x.isdigit() else x for x in others)}"'
            telling = [x for x in others if x not in FUNCTION_WORDS and x.isalpha()]
            yield from (f'{SAID}thing {r}: "{word}"' for word in telling)
    for line in rest:
        yield f'in sight: "{" ".join(line)}"'
