"""The entities of a state, read from its texts without a model, and the part that each plays.

A command is read as a frame with slots ("take _ from _") filled by entities. Nothing here knows a
word of any environment: an entity is a sequence of words that commands share with observations, and
the only vocabulary is a list of English function words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from ldm.types import Past

#: Closed-class English words: they join the parts of a command or a sentence and name nothing.
_CLOSED_CLASS = """a an the this that these those some any each every all both no not and or but if
then than so to from in on into onto at of off out over under up down with
without by for using via near next i you he she it we they me him her them my
your his its our their is are was were be been being am do does did done have
has had will would can could may might must shall should there here as one two"""
FUNCTION_WORDS = frozenset(_CLOSED_CLASS.split())
#: Longest entity name, in words.
LONGEST_NAME = 4

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

#: The words of a name, in lower case: ("drawer", "3").
Entity = tuple[str, ...]
#: Goal word → position among the things that the goal names, counted from its end.
Roles = Mapping[str, int]


@lru_cache(maxsize=50_000)
def words(text: str) -> tuple[str, ...]:
    """Return the words of `text`, in lower case."""
    return tuple(_WORD.findall(text.lower()))


@lru_cache(maxsize=50_000)
def phrases(text: str) -> frozenset[Entity]:
    """Return the sequences of up to LONGEST_NAME words without a function word at either end."""
    tokens = words(text)
    return frozenset(
        tokens[i:j]
        for i in range(len(tokens))
        if tokens[i] not in FUNCTION_WORDS
        for j in range(i + 1, min(i + LONGEST_NAME, len(tokens)) + 1)
        if tokens[j - 1] not in FUNCTION_WORDS
    )


@lru_cache(maxsize=50_000)
def numbered(text: str) -> frozenset[Entity]:
    """Return the entities of `text` that are written as a word and a number ("drawer 3")."""
    return frozenset(p for p in phrases(text) if len(p) == 2 and p[1].isdigit())


def name_of(entity: Entity) -> Entity:
    """Return an entity's words without a final number: the kind of thing it is."""
    return entity[:-1] if len(entity) > 1 and entity[-1].isdigit() else entity


def role_of(name: Entity, roles: Roles) -> int:
    """Return the role of the last word of `name` that has one, 0 where none has."""
    return next((roles[word] for word in reversed(name) if word in roles), 0)


@dataclass(frozen=True, slots=True)
class Command:
    """An action as a frame with slots and the entities that fill them."""

    text: str
    frame: str
    entities: tuple[Entity, ...]

    @property
    def verb(self) -> str:
        """The first word, in lower case."""
        return self.frame.partition(" ")[0]


def read_command(action: str, known: Set[Entity]) -> Command:
    """Read an action as a command; its first word is the verb.

    known: the phrases of all texts seen so far; the longest that matches becomes an entity.
    """
    tokens = words(action)
    frame, entities = list(tokens[:1]), []
    i = 1
    while i < len(tokens):
        for j in range(min(i + LONGEST_NAME, len(tokens)), i, -1):
            phrase = tokens[i:j]
            if phrase in known:
                frame.append("_")
                entities.append(phrase)
                i = j
                break
        else:
            frame.append(tokens[i])
            i += 1
    return Command(action, " ".join(frame), tuple(entities))


@dataclass(frozen=True, slots=True)
class Part:
    """The part that an entity plays; two entities are alike when their parts are.

    name: what kind of thing it is.
    role: position in the goal counted from its end (1 is the last thing named), 0 if not in it.
    in_view: whether the present observation mentions it.
    at_hand: whether the last action was on it.
    used: how often it was acted on, at most 2.
    touched: frame and slot of the last action on it, "" if there was none.
    beside: the goal's things that were in view when it was last acted on.
    joined: frame and slot of each action that joined it with a thing of the goal, with that role.
    """

    name: Entity
    role: int
    in_view: bool
    at_hand: bool
    used: int
    touched: str
    beside: frozenset[int]
    joined: frozenset[tuple[str, int]]


class Situation:
    """A state with its past, read once: its entities, and what happened to each of them."""

    def __init__(self, goal: str, past: Past, observation: str) -> None:
        """Read a state; past: the pairs (observation, action) before the present `observation`."""
        self.goal = words(goal)
        self.texts = (goal, *(seen for seen, _ in past), observation)
        self.past: list[Command] = []
        self._in_view = phrases(observation)
        self._events: dict[Entity, list[str]] = {}
        self._after: dict[Entity, str] = {}
        self._joined: dict[Entity, list[tuple[str, Entity]]] = {}
        self._known = set(phrases(goal))
        for (before, action), after in zip(past, self.texts[2:], strict=True):
            self._known |= phrases(before)
            self._record(read_command(action, self._known), after)
        self._known |= self._in_view
        self._memo: dict[Hashable, Any] = {}

    def _record(self, command: Command, after: str) -> None:
        self.past.append(command)
        distinct = tuple(dict.fromkeys(command.entities))  # a reply may repeat one a thousand times
        for slot, entity in enumerate(command.entities):
            event = f"{command.frame}:{slot}"
            self._events.setdefault(entity, []).append(event)
            self._after[entity] = after
            others = ((event, other) for other in distinct if other != entity)
            self._joined.setdefault(entity, []).extend(others)

    def read(self, action: str) -> Command:
        """Read `action` as a command in this situation."""
        return read_command(action, self._known)

    def entities(self) -> frozenset[Entity]:
        """Return all that was acted on, is written with a number or is named by the goal."""
        goal_words = frozenset((word,) for word in self.goal if word not in FUNCTION_WORDS)
        return frozenset(self._events).union(goal_words, *(numbered(t) for t in self.texts))

    @cached_property
    def frames(self) -> Counter[str]:
        """How often each frame occurs in the past."""
        return Counter(command.frame for command in self.past)

    @cached_property
    def done(self) -> Counter[str]:
        """How often each action occurs in the past."""
        return Counter(command.text for command in self.past)

    @cached_property
    def head_words(self) -> frozenset[str]:
        """The last name word of all that was acted on or is written with a number."""
        heads = {name_of(entity)[-1] for entity in self._events}
        return frozenset(heads.union(*({e[0] for e in numbered(text)} for text in self.texts)))

    def roles(self, lexicon: Set[str]) -> Roles:
        """Return the roles of the things that the goal names; lexicon: words that name things."""
        things = [w for w in self.goal if w in lexicon or _singular(w) in lexicon]
        return {word: len(things) - i for i, word in reversed(list(enumerate(things)))}

    def part(self, entity: Entity, roles: Roles) -> Part:
        """Return the part that `entity` plays here."""
        key = (entity, *roles.items())
        part: Part | None = self._memo.get(key)
        if part is None:
            part = self._memo[key] = self._part(entity, roles)
        return part

    def _part(self, entity: Entity, roles: Roles) -> Part:
        events = self._events.get(entity, [])
        after = self._after.get(entity)
        beside: set[int] = set()
        if after is not None:
            beside = {role for word, role in roles.items() if (word,) in phrases(after)}
        joined = ((e, role_of(name_of(o), roles)) for e, o in self._joined.get(entity, ()))
        return Part(
            name=name_of(entity),
            role=role_of(name_of(entity), roles),
            in_view=entity in self._in_view,
            at_hand=bool(self.past) and entity in self.past[-1].entities,
            used=min(len(events), 2),
            touched=events[-1] if events else "",
            beside=frozenset(beside),
            joined=frozenset((event, role) for event, role in joined if role),
        )

    def scene(self, roles: Roles) -> frozenset[tuple[str, int]]:
        """Return, for the goal's things in view, what was last done with each, and its role."""
        key = ("scene", *roles.items())
        scene: frozenset[tuple[str, int]] | None = self._memo.get(key)
        if scene is None:
            scene = self._memo[key] = self._scene(roles)
        return scene

    def _scene(self, roles: Roles) -> frozenset[tuple[str, int]]:
        scene = set()
        for phrase in self._in_view:
            role = role_of(name_of(phrase), roles)
            if role and name_of(phrase) != phrase:
                events = self._events.get(phrase)
                scene.add((events[-1] if events else "", role))
        return frozenset(scene)

    def progress(self, roles: Roles) -> frozenset[tuple[str, int, int]]:
        """Return what was done with the goal's things.

        Each item is (frame and slot, role, how often), counted up to 2.
        """
        key = ("progress", *roles.items())
        progress: frozenset[tuple[str, int, int]] | None = self._memo.get(key)
        if progress is None:
            progress = self._memo[key] = self._progress(roles)
        return progress

    def _progress(self, roles: Roles) -> frozenset[tuple[str, int, int]]:
        counts: dict[tuple[str, int], int] = {}
        for entity, events in self._events.items():
            if role := role_of(name_of(entity), roles):
                for event in events:
                    counts[event, role] = min(2, counts.get((event, role), 0) + 1)
        return frozenset((event, role, times) for (event, role), times in counts.items())

    def surface(self, entity: Entity) -> str:
        """Return `entity` as the latest text spells it, its words where no text does."""
        pattern = re.compile(r"\b" + r"\W+".join(map(re.escape, entity)) + r"\b", re.IGNORECASE)
        for text in reversed(self.texts):
            if match := pattern.search(text):
                return match.group()
        return " ".join(entity)


@lru_cache(maxsize=64)
def read_situation(goal: str, past: Past, observation: str) -> Situation:
    """Return a state as read; several questions in a row are about the same one."""
    return Situation(goal, past, observation)


@lru_cache(maxsize=5_000)
def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
