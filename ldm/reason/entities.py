"""The entities of a state, read from its texts without a model, and the part each one plays.

A command is read as a frame with slots ("take _ from _") filled by entities. No word of any
environment is known here: an entity is a sequence of words that commands share with observations,
and the only vocabulary is a list of English function words.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

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
#: No name continues after a bracket: "[white bed] (1)" is one bed, not the thing "bed 1".
_BRACKETS = r"\[\](){}<>"
_BETWEEN_NAMES = re.compile(f"[{_BRACKETS}]+")
_BETWEEN_WORDS = rf"[^\w{_BRACKETS}]+"

#: The words of a name, in lower case: ("drawer", "3").
Entity = tuple[str, ...]
#: Situations cached: a search returns to states that it left some time ago.
KEPT_SITUATIONS = 256


@lru_cache(maxsize=50_000)
def words(text: str) -> tuple[str, ...]:
    """Return the words of `text`, in lower case."""
    return tuple(_WORD.findall(text.lower()))


@lru_cache(maxsize=50_000)
def phrases(text: str) -> frozenset[Entity]:
    """Return the sequences of up to LONGEST_NAME words without a function word at either end."""
    return frozenset(
        tokens[i:j]
        for tokens in map(words, _BETWEEN_NAMES.split(text))
        for i in range(len(tokens))
        if tokens[i] not in FUNCTION_WORDS
        for j in range(i + 1, min(i + LONGEST_NAME, len(tokens)) + 1)
        if tokens[j - 1] not in FUNCTION_WORDS
    )


@lru_cache(maxsize=50_000)
def numbered(text: str) -> frozenset[Entity]:
    """Return the entities of `text` that are written as a word and a number ("drawer 3")."""
    return frozenset(p for p in phrases(text) if len(p) == 2 and p[1].isdigit())


@lru_cache(maxsize=50_000)
def name_of(entity: Entity) -> Entity:
    """Return an entity's words without a final number: the kind of thing it is."""
    return entity[:-1] if len(entity) > 1 and entity[-1].isdigit() else entity


@lru_cache(maxsize=50_000)
def pattern_of(entity: Entity) -> re.Pattern[str]:
    """Return a pattern that finds an entity in a text, whatever its separators and case."""
    return re.compile(r"\b" + _BETWEEN_WORDS.join(map(re.escape, entity)) + r"\b", re.IGNORECASE)


class Roles(dict[str, int]):
    """Goal word → position among the things that the goal names, counted from its end."""

    def __init__(self, things: tuple[str, ...]) -> None:
        """Assign roles to the goal's words for things, given in their order there."""
        self.things = things
        super().__init__({word: len(things) - i for i, word in reversed(list(enumerate(things)))})


def role_of(name: Entity, roles: Mapping[str, int]) -> int:
    """Return the role of the last word of `name` that has one, or 0."""
    for word in reversed(name):
        if word in roles:
            return roles[word]
    return 0


class Command(NamedTuple):
    """An action as a frame with slots and the entities that fill them.

    verb: the first word, in lower case. heads: the last word of each entity's name.
    """

    text: str
    frame: str
    entities: tuple[Entity, ...]
    verb: str
    heads: tuple[str, ...]


class _Template:
    """An action, read as far as possible without knowing which phrases are entities."""

    def __init__(self, action: str) -> None:
        self._action = action
        self._tokens = words(action)
        #: For each place, the phrases that may be an entity, the longest first, and their ends.
        self._options = tuple(
            tuple(
                (self._tokens[i:j], j)
                for j in range(min(i + LONGEST_NAME, len(self._tokens)), i, -1)
                if not {self._tokens[i], self._tokens[j - 1]} & FUNCTION_WORDS
            )
            for i in range(len(self._tokens))
        )
        self._commands: dict[tuple[int, ...], Command] = {}

    def read(self, known: Set[Entity]) -> Command:
        """Return the command, given the known phrases; each reading is cached."""
        spans: list[int] = []
        options = self._options
        i = 1
        while i < len(options):
            for phrase, j in options[i]:
                if phrase in known:
                    spans += (i, j)
                    i = j
                    break
            else:
                i += 1
        key = tuple(spans)
        command = self._commands.get(key)
        if command is None:
            command = self._commands[key] = self._command(key)
        return command

    def _command(self, spans: tuple[int, ...]) -> Command:
        tokens = self._tokens
        frame, entities = list(tokens[:1]), []
        end = 1
        for start, stop in zip(spans[::2], spans[1::2], strict=True):
            frame += (*tokens[end:start], "_")
            entities.append(tokens[start:stop])
            end = stop
        frame += tokens[end:]
        text = " ".join(frame)
        heads = tuple(name_of(entity)[-1] for entity in entities)
        return Command(self._action, text, tuple(entities), text.partition(" ")[0], heads)


_template = lru_cache(maxsize=10_000)(_Template)


def read_command(action: str, known: Set[Entity]) -> Command:
    """Read an action as a command; its first word is the verb.

    known: the phrases of all texts seen so far; the longest that matches becomes an entity.
    """
    return _template(action).read(known)


class Part(NamedTuple):
    """The part that an entity plays; two entities are alike when their parts are.

    name: its kind of thing.
    role: position in the goal counted from its end (1 is the last thing named), 0 if not in it.
    in_view: whether the present observation mentions it.
    at_hand: whether the last action was on it.
    used: the number of actions on it, at most 2.
    touched: frame and slot of the last action on it, "" without one.
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


#: Nothing beside, nothing joined.
NONE: frozenset[Any] = frozenset()

#: Sets of (event, …): actions on the goal's things, or the things in view.
Events = frozenset[tuple[str, int] | tuple[str, int, int]]


class _Deeds:
    """The actions on an entity, and the parts that it plays because of them.

    events: frame and slot of each action. after: the observation after the last one. joined:
    (event, other entity) of each action that joined it with another one.
    """

    __slots__ = ("_parts", "after", "events", "joined")

    def __init__(
        self,
        events: tuple[str, ...] = (),
        after: str = "",
        joined: tuple[tuple[str, Entity], ...] = (),
    ) -> None:
        self.events = events
        self.after = after
        self.joined = joined
        self._parts: dict[tuple[tuple[str, ...], bool, bool], Part] = {}

    def part(self, name: Entity, roles: Roles, *, in_view: bool, at_hand: bool) -> Part:
        """Return the part of the entity with this name, cached."""
        key = roles.things, in_view, at_hand
        part = self._parts.get(key)
        if part is None:
            after = phrases(self.after)
            joined = ((event, role_of(name_of(other), roles)) for event, other in self.joined)
            part = self._parts[key] = Part(
                name=name,
                role=role_of(name, roles),
                in_view=in_view,
                at_hand=at_hand,
                used=min(len(self.events), 2),
                touched=self.events[-1],
                beside=frozenset(role for word, role in roles.items() if (word,) in after),
                joined=frozenset((event, role) for event, role in joined if role),
            )
        return part


class Situation:
    """A state with its past, read once: its entities, and the actions on each of them.

    past: the commands so far. frames, done: the counts of frames and of actions among them.
    head_words: the last name word of all things acted on or written with a number.
    """

    def __init__(self, goal: str, past: Past, observation: str) -> None:
        """Read a state; past: the pairs (observation, action) before the present `observation`."""
        self.goal = words(goal)
        self.texts = (goal, *(text for text, _ in past), observation)
        self.past: list[Command] = []
        self.frames: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.head_words = set(_numbered_heads(observation)).union(_numbered_heads(goal))
        self._in_view = phrases(observation)
        self._deeds: dict[Entity, _Deeds] = {}
        self._known = set(phrases(goal))
        for (before, action), after in zip(past, self.texts[2:], strict=True):
            self._known |= phrases(before)
            self.head_words |= _numbered_heads(before)
            self._record(read_command(action, self._known), after)
        self._known |= self._in_view
        self._views: dict[tuple[str, ...], View] = {}
        self._surfaces: dict[Entity, str] = {}

    def after(self, action: str, observation: str) -> Situation:
        """Return the situation that an action leads to. observation: the one made there."""
        later = object.__new__(Situation)
        later.goal = self.goal
        later.texts = (*self.texts, observation)
        later.past = self.past.copy()
        later.frames, later.done = self.frames.copy(), self.done.copy()
        later.head_words = self.head_words | _numbered_heads(observation)
        later._in_view = phrases(observation)
        later._deeds = self._deeds.copy()
        later._known = self._known.copy()
        later._record(read_command(action, later._known), observation)
        later._known |= later._in_view
        later._views, later._surfaces = {}, {}
        return later

    def _record(self, command: Command, after: str) -> None:
        self.past.append(command)
        self.frames[command.frame] = self.frames.get(command.frame, 0) + 1
        self.done[command.text] = self.done.get(command.text, 0) + 1
        self.head_words.update(command.heads)
        # A reply may name an entity a thousand times: events are gathered before they are added.
        distinct = tuple(dict.fromkeys(command.entities))
        events: dict[Entity, list[str]] = {entity: [] for entity in distinct}
        for slot, entity in enumerate(command.entities):
            events[entity].append(f"{command.frame}:{slot}")
        for entity, new in events.items():
            before = self._deeds.get(entity, _UNTOUCHED)
            joined = [(event, other) for event in new for other in distinct if other != entity]
            self._deeds[entity] = _Deeds((*before.events, *new), after, (*before.joined, *joined))

    def read(self, action: str) -> Command:
        """Read `action` as a command in this situation."""
        return read_command(action, self._known)

    def entities(self) -> frozenset[Entity]:
        """Return all things acted on, written with a number or named by the goal."""
        goal_words = frozenset((word,) for word in self.goal if word not in FUNCTION_WORDS)
        return frozenset(self._deeds).union(goal_words, *(numbered(t) for t in self.texts))

    def view(self, roles: Roles) -> View:
        """Return the situation with the goal's things in these roles."""
        view = self._views.get(roles.things)
        if view is None:
            view = self._views[roles.things] = View(self, roles)
        return view

    def surface(self, entity: Entity) -> str:
        """Return `entity` as the latest text spells it, or its words if no text does."""
        spelling = self._surfaces.get(entity)
        if spelling is None:
            spelling = self._surfaces[entity] = self._spelling(entity)
        return spelling

    def _spelling(self, entity: Entity) -> str:
        for text in reversed(self.texts):
            if match := pattern_of(entity).search(text):
                return match.group()
        return " ".join(entity)


class View:
    """A situation in which the things of the goal have roles: parts, progress and scene."""

    def __init__(self, situation: Situation, roles: Roles) -> None:
        """View a situation. roles: of its goal, see `roles_of`."""
        # The situation holds its views: a reference back would wait for the cycle collector.
        self._roles = roles
        self._observation = situation.texts[-1]
        self._in_view = situation._in_view
        self._deeds = situation._deeds
        self._at_hand = situation.past[-1].entities if situation.past else ()

    def part(self, entity: Entity) -> Part:
        """Return the part that `entity` plays here."""
        in_view = entity in self._in_view
        deeds = self._deeds.get(entity)
        name = name_of(entity)
        if deeds is None:
            return Part(name, role_of(name, self._roles), in_view, False, 0, "", NONE, NONE)
        at_hand = entity in self._at_hand
        return deeds.part(name, self._roles, in_view=in_view, at_hand=at_hand)

    @cached_property
    def scene(self) -> frozenset[tuple[str, int]]:
        """The last event of each of the goal's things in view, with its role."""
        scene = set()
        for phrase in _with_numbers(self._observation):
            if role := role_of(name_of(phrase), self._roles):
                deeds = self._deeds.get(phrase)
                scene.add((deeds.events[-1] if deeds else "", role))
        return frozenset(scene)

    @cached_property
    def progress(self) -> frozenset[tuple[str, int, int]]:
        """The events of the goal's things: (frame and slot, role, count up to 2)."""
        counts: dict[tuple[str, int], int] = {}
        for entity, deeds in self._deeds.items():
            if role := role_of(name_of(entity), self._roles):
                for event in deeds.events:
                    counts[event, role] = min(2, counts.get((event, role), 0) + 1)
        return frozenset((event, role, times) for (event, role), times in counts.items())


#: An entity without actions.
_UNTOUCHED = _Deeds()
#: The roles of the words in a goal that name things, in their order there.
roles_of = lru_cache(maxsize=1_000)(Roles)


def things_in(goal: Iterable[str], lexicon: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the words of a goal that name things. lexicon: tells which words do."""
    return tuple(word for word in goal if lexicon(word) or lexicon(_singular(word)))


#: The latest situations read: several questions in a row are about the same one.
_RECENT: OrderedDict[tuple[str, Past, str], Situation] = OrderedDict()


def read_situation(goal: str, past: Past, observation: str) -> Situation:
    """Return the situation of a state; if the one before is known, read only the last step."""
    key = goal, past, observation
    situation = _RECENT.get(key)
    if situation is None:
        before = _RECENT.get((goal, past[:-1], past[-1][0])) if past else None
        if before is None:
            situation = Situation(goal, past, observation)
        else:
            situation = before.after(past[-1][1], observation)
        _RECENT[key] = situation
        while len(_RECENT) > KEPT_SITUATIONS:
            _RECENT.popitem(last=False)
    return situation


@lru_cache(maxsize=50_000)
def _numbered_heads(text: str) -> frozenset[str]:
    return frozenset(entity[0] for entity in numbered(text))


@lru_cache(maxsize=5_000)
def _with_numbers(text: str) -> tuple[Entity, ...]:
    """Return the phrases of a text that end in a number."""
    return tuple(phrase for phrase in phrases(text) if name_of(phrase) != phrase)


@lru_cache(maxsize=5_000)
def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
