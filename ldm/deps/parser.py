"""The goal parser: from a planner's text to goals that the controller knows (DEPS, App. C.4).

A `Vocabulary` holds those that the environment's card lists. Rules read calls and sentences in any
mixture of quotes, cases and plurals; nothing is evaluated. A line that names no known goal is
looked up by its meaning, and put to a model if one is given; the rest is dropped and counted.

Programs that are policies (Code as Policies, App. G) are run by a small interpreter over `ast`. It
knows while, assert and calls, within at most one function. Anything else is malformed output;
Python executes none of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from ldm.agents.replies import forms
from ldm.embed import Embedder
from ldm.types import Card, by_key


@dataclass(frozen=True, slots=True)
class Goal:
    """One step of a plan.

    verb, item, count: such as mine, log, 3; item is "" if the goal is a sentence.
    materials: the (item, count) pairs that it uses up. tool: needed and kept, "" for none.
    rank: its place in the plan, from 1. text: the step as the planner wrote it, or the sentence.
    others: the alternatives that the step names, any of which will do as well.
    """

    verb: str
    item: str = ""
    count: int = 1
    materials: tuple[tuple[str, int], ...] = ()
    tool: str = ""
    rank: int = 0
    text: str = ""
    others: tuple[Goal, ...] = ()

    def ranked(self, rank: int) -> Goal:
        """Return the goal and its alternatives at a place in a plan."""
        return replace(self, rank=rank, others=tuple(one.ranked(rank) for one in self.others))

    @property
    def name(self) -> str:
        """The goal without count and tool: "mine log", or the sentence."""
        return f"{self.verb} {self.item}" if self.item else self.text

    @property
    def words(self) -> str:
        """The goal in words: "mine 3 log with wooden_pickaxe"."""
        if not self.item:
            return self.text
        return f"{self.verb} {self.count} {self.item}" + (f" with {self.tool}" if self.tool else "")

    def as_data(self) -> dict[str, Any]:
        """Return JSON values, for a note."""
        return {"rank": self.rank, "goal": self.words, "text": self.text}


class Plan(NamedTuple):
    """A planner's reply, and the goals parsed from it.

    dropped: lines that name no known goal.
    """

    text: str
    goals: tuple[Goal, ...] = ()
    dropped: tuple[str, ...] = ()


def listing(counts: Mapping[str, int] | Sequence[tuple[str, int]]) -> str:
    """Return counted items as text, such as "3 log, 1 stick"; "nothing" for none."""
    pairs = counts.items() if isinstance(counts, Mapping) else counts
    return ", ".join(f"{count} {item}" for item, count in pairs if count) or "nothing"


#: Minimum cosine at which the nearest known goal stands for an unknown one.
FLOOR = 0.5

_COUNTED = re.compile(r"([a-z]+) (?:(?:\d+|COUNT) )?([a-z][a-z0-9_]*)(?: with [a-z0-9_]+)?")
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name or a sentence, ignoring plurals and underscores."""
    return tuple(map(_folded, _WORD.findall(text.casefold())))


@lru_cache(maxsize=4096)
def _folded(word: str) -> str:
    """Return a form that a word shares with its plural: "torch", "torches"; "leaf", "leaves"."""
    if word.endswith("s") and not word.endswith("ss") and len(word) > 2:
        word = word[:-1]
    if word.endswith("e") and len(word) > 2:
        word = word[:-1]
    if word.endswith("y") and len(word) > 2:
        word = word[:-1] + "i"
    return word[:-1] + "f" if word.endswith("v") else word


@dataclass(frozen=True)
class Vocabulary:
    """The verbs, items and sentences of a card's goals.

    actions: the card's grammar. items: verb → items, for goals of the form VERB COUNT ITEM.
    sentences: those of other forms.
    Without either, goals are sub-tasks in any words, for an executor that thinks and acts.
    """

    actions: tuple[str, ...]
    items: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()

    @classmethod
    def of(cls, card: Card) -> Vocabulary:
        """Return the vocabulary of a card."""
        return _vocabulary(card.goals, card.actions)

    @property
    def counted(self) -> bool:
        """Whether goals are of the form VERB COUNT ITEM."""
        return bool(self.items)

    @property
    def free(self) -> bool:
        """Whether goals are sub-tasks in any words: the environment has no controller."""
        return not self.items and not self.sentences

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All goals without counts, as input of a sentence encoder."""
        pairs = sorted((verb, item) for verb, items in self.items.items() for item in items)
        return (*(f"{verb} {item.replace('_', ' ')}" for verb, item in pairs), *self.sentences)

    @cached_property
    def _by_words(self) -> dict[str, dict[tuple[str, ...], str]]:
        return {
            verb: {words_of(item): item for item in sorted(items, reverse=True)}
            for verb, items in self.items.items()
        }

    @cached_property
    def _any_item(self) -> dict[tuple[str, ...], str]:
        return {
            words: item
            for verb in sorted(self._by_words)
            for words, item in self._by_words[verb].items()
        }

    @cached_property
    def longest(self) -> int:
        """The number of words in the longest name of an item."""
        return max(map(len, self._any_item), default=0)

    def item(self, words: Sequence[str], verb: str = "") -> str:
        """Return the item with these words (`words_of`) among those of a verb, or ""."""
        known = self._by_words.get(verb, {}) if verb else self._any_item
        return known.get(tuple(words), "")

    def verb(self, words: Sequence[str]) -> str:
        """Return the only verb that goes with an item; "" if there are several or none."""
        verbs = [verb for verb, items in self._by_words.items() if tuple(words) in items]
        return verbs[0] if len(verbs) == 1 else ""

    def sentence(self, text: str) -> str:
        """Return the known sentence or form of the grammar that `text` is; "" for none."""
        plain = " ".join(text.strip(" .!").split())
        folded = plain.casefold()
        if folded in self._sentences:
            return self._sentences[folded]
        return folded if any(form.fullmatch(plain) for form in forms(self.actions)) else ""

    @cached_property
    def _sentences(self) -> dict[str, str]:
        return {sentence.casefold(): sentence for sentence in self.sentences}

    def action(self, goal: Goal) -> str:
        """Return the action that names a goal to the controller, in the card's grammar."""
        if not goal.item:
            return goal.text
        lines = (line.partition(":")[0] for line in self.actions)
        own = [form for line in lines for form in line.split(",") if f"{goal.verb} " in form]
        counted = any(f"{goal.verb} COUNT " in form for form in own)
        count = f"{goal.count} " if counted else ""
        tool = f" with {goal.tool}" if goal.tool and any(" with " in form for form in own) else ""
        return f"{goal.verb} {count}{goal.item}{tool}"


@lru_cache(maxsize=32)
def _vocabulary(goals: tuple[str, ...], grammar: tuple[str, ...]) -> Vocabulary:
    """Return a vocabulary, cached for all episodes."""
    matches = [_COUNTED.fullmatch(goal) for goal in goals]
    items = by_key((match[1], match[2]) for match in matches if match)
    sentences = tuple(goal for goal, match in zip(goals, matches, strict=True) if not match)
    return Vocabulary(grammar, {v: frozenset(own) for v, own in items.items()}, sentences)


def nearest(vocabulary: Vocabulary, embedding: Callable[[], Embedder], text: str) -> str:
    """Return the known goal that is nearest in meaning (§C.4); "" if none is near."""
    names = vocabulary.names
    if not names or not text.strip():
        return ""
    embedder = embedding()
    cosines = embedder.embed(names) @ embedder.embed([text])[0]
    best = int(cosines.argmax())
    return names[best] if cosines[best] >= FLOOR else ""


#: Maximum characters read of a reply and of one of its lines.
LONGEST_REPLY, LONGEST_LINE = 20_000, 400
#: Maximum goals read of a plan.
MOST_GOALS = 64

_QUOTES = re.compile("[\"'`‘’‚‛“”„´′]")
_NAMESPACE = re.compile(r"\bminecraft\s*:\s*", re.IGNORECASE)
_LEAD = re.compile(
    r"^[\s>*•\-]*(?:(?:sub-?)?(?:step|action|goal)s?\s*#?\s*\d+\s*[:.)\-]?|#\s*\d+\s*[:.)]?"
    r"|\(?\d+\s*[.):](?!\d))\s*",
    re.IGNORECASE,
)
_CALL = re.compile(r"^\W*([A-Za-z]+(?:_\w+)*)\s*\(")
#: The parts of code other than calls of goals.
_CODE = re.compile(
    r"^\W*(?:def|return|from|import|if|else|elif|while|for|assert|class|print|pass|null|none)\b",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"^\W*(?:thinking|thought|think|robot thought|scene)\s*:", re.IGNORECASE)
_BRACES = re.compile(r"\{([^{}]*)\}?")
_PAIR = re.compile(r"([A-Za-z][\w \-]*?)\s*[:=]\s*(\d{1,4})")
_NAMED = re.compile(r"([A-Za-z_]+)\s*=\s*([^,{}]*)")
_NUMBER = re.compile(r"\b(?:num|count|quantity|amount)\s*=\s*(\d{1,4})\b", re.IGNORECASE)
_TOKEN = re.compile(r"[a-z0-9]+|,")
#: What stands between alternatives.
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_COUNTS = {"num", "n", "count", "number", "quantity", "amount", "qty"}
_OBJECTS = {"obj", "object", "item", "goal", "target"}
_NUMERALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: number for number, word in enumerate(_NUMERALS, 1)}
_FILLERS = {"a", "an", "the", "some", "of", "more", "x", "at", "least"}
_BY_TOOL = {"with", "on", "using", "in", "by"}
#: The words of an item, its count, and where it ends.
_Counted = tuple[tuple[str, ...], int, int]
#: Words after which no item of the goal itself follows.
_PARTS = _BY_TOOL | {"from", "without", "to", "for", "and", ","}


@dataclass(frozen=True, slots=True)
class Parser:
    """Reads plans in the words of a vocabulary.

    nearest: returns the known goal that is nearest in meaning to a text, "" for none. extract: asks
    a model what a line says, and returns it as a line that the rules can read, "" for nothing.
    most: the maximum number of goals read of a plan.
    """

    vocabulary: Vocabulary
    nearest: Callable[[str], str] | None = None
    extract: Callable[[str], str] | None = None
    most: int = MOST_GOALS

    def plan(self, text: str) -> Plan:
        """Return the goals of a reply, in their order; lines that name none are dropped."""
        goals: list[Goal] = []
        dropped: list[str] = []
        for line, comment in _lines(text[:LONGEST_REPLY]):
            if len(goals) >= self.most:
                break
            goal = self.goal(line, comment)
            if goal is not None:
                goals.append(goal.ranked(len(goals) + 1))
            elif _is_step(line):
                dropped.append(line.strip())
        return Plan(text, tuple(goals), tuple(dropped))

    def goal(self, line: str, comment: str = "") -> Goal | None:
        """Return the goal that a line names, or None if it is no step or names no known goal."""
        if self.vocabulary.free:
            return _sub_task(line)
        own = " ".join(line.split()).rstrip(" ;")
        goal = self._chosen(line) or (self._chosen(comment) if comment else None)
        if goal is None and _is_step(line):
            goal = self._by_meaning(line, comment)
            if goal is None and self.extract is not None:
                goal = self.by_rules(self.extract(line))
        return None if goal is None else replace(goal, text=goal.text or own)

    def _chosen(self, line: str) -> Goal | None:
        """Return the goal that a line names first, with the alternatives after each "or"."""
        first, *parts = _OR.split(line) if self.vocabulary.counted else [line]
        goal = self.by_rules(first) or self.by_rules(line)
        if goal is None:
            return None
        others = []
        for part in parts:
            other = self.by_rules(part) or self.by_rules(f"{goal.verb} {goal.count} {part}")
            if other is not None and other.verb == goal.verb:
                others.append(replace(other, text=" ".join(part.split()).rstrip(" ;")))
        return replace(goal, others=tuple(others))

    def by_rules(self, line: str) -> Goal | None:
        """Return the goal that a line names by its form, None if it names none."""
        text = _NAMESPACE.sub("", line)
        if not self.vocabulary.counted:
            sentence = self.vocabulary.sentence(_QUOTES.sub("", _LEAD.sub("", text)).strip())
            return Goal(sentence.split()[0], text=sentence) if sentence else None
        plain = _QUOTES.sub("", text)
        if (call := _CALL.match(_LEAD.sub("", plain))) is not None:
            arguments = _LEAD.sub("", plain)[call.end() :].rpartition(")")
            goal = self._called(call[1].casefold(), arguments[0] or arguments[2])
            if goal is not None:
                return goal
        return self._worded(plain)

    def _called(self, name: str, arguments: str) -> Goal | None:
        """Return the goal of a call: mine({log: 3}, {…}, tool), mine_log(num = 3), mine(obj=…)."""
        verb, _, rest = name.partition("_")
        known = verb in self.vocabulary.items
        if not known or (rest and name in self.vocabulary.items):
            verb, rest = name, ""
        groups = [_pairs(group) for group in _BRACES.findall(arguments)]
        named = {key.casefold(): value.strip() for key, value in _NAMED.findall(arguments)}
        plain = [part.strip() for part in _BRACES.sub("", arguments).split(",")]
        plain = [part for part in plain if part and "=" not in part]
        if rest:
            objects = [(rest, _count([*named.values(), *plain]))]
        elif groups and groups[0]:
            objects, groups = groups[0], groups[1:]
        elif pairs := [
            (name, int(count))
            for name, count in _PAIR.findall(arguments)
            if self.vocabulary.item(words_of(name))
        ]:
            objects = pairs
        else:
            item = next((named[key] for key in sorted(_OBJECTS) if named.get(key)), "")
            item = item or next((part for part in plain if not part.isdecimal()), "")
            objects = [(item, _count([v for k, v in named.items() if k in _COUNTS] or plain))]
            plain = [part for part in plain if part != item]
        item, count = objects[0]
        goal = self._named(verb, words_of(item), count)
        if goal is None:
            return None
        items = [(self.vocabulary.item(words_of(name)), n) for group in groups for name, n in group]
        materials = tuple((item, number) for item, number in items if item)
        tool = named.get("tool") or next(
            (part for part in reversed(plain) if not part.isdecimal()), ""
        )
        return replace(goal, materials=materials, tool=self.vocabulary.item(words_of(tool)))

    def _named(self, verb: str, words: Sequence[str], count: int) -> Goal | None:
        """Return the goal with this item; with its only verb if `verb` does not fit it."""
        own = self.vocabulary.item(words, verb) if verb in self.vocabulary.items else ""
        if not own and (verb := self.vocabulary.verb(words)):
            own = self.vocabulary.item(words, verb)
        return Goal(verb, own, max(1, count)) if own else None

    def _worded(self, text: str) -> Goal | None:
        """Return the goal of a sentence: mine 3 log with wooden_pickaxe."""
        lead = _LEAD.sub("", text)
        tokens = _TOKEN.findall(lead.casefold())
        places = range(len(tokens)) if len(lead) < len(text) or "#" in text else range(1)
        for place in places:
            if place < len(tokens) and tokens[place] in self.vocabulary.items:
                goal = self._from(tokens[place], tokens[place + 1 :])
                if goal is not None:
                    number = _NUMBER.search(lead)
                    return goal if number is None else replace(goal, count=int(number[1]))
        return None

    def _from(self, verb: str, tokens: Sequence[str]) -> Goal | None:
        """Return the goal of a verb and what follows it."""
        counted = self._item_at(tokens, 0)
        if counted is None:
            return None
        words, count, place = counted
        goal = self._named(verb, words, count)
        if goal is None:
            return None
        materials: list[tuple[str, int]] = []
        tool, part = "", ""
        while place < len(tokens):
            token = tokens[place]
            if token in _PARTS and token not in ("and", ","):
                part = token
            measured = self._item_at(tokens, place + 1) if token in _PARTS else None
            if measured is None:
                place += 1
                continue
            words, count, place = measured
            item = self.vocabulary.item(words)
            if part == "from":
                materials.append((item, count))
            elif part in _BY_TOOL and not tool:
                tool = item
        return replace(goal, materials=tuple(materials), tool=tool)

    def _item_at(self, tokens: Sequence[str], place: int) -> _Counted | None:
        """Return the longest item that begins here, after its count."""
        count = 1
        while place < len(tokens):
            token = tokens[place]
            if token.isdecimal() or re.fullmatch(r"x?\d+x?", token):
                count = int(token.strip("x")[:4])
            elif token in _NUMBERS:
                count = _NUMBERS[token]
            elif token not in _FILLERS:
                break
            place += 1
        for end in range(min(len(tokens), place + self.vocabulary.longest), place, -1):
            words = words_of(" ".join(tokens[place:end]))
            if self.vocabulary.item(words):
                return words, count, end
        return None

    def _by_meaning(self, line: str, comment: str) -> Goal | None:
        if self.nearest is None:
            return None
        text = _phrase(line) or _phrase(comment)
        name = self.nearest(text)
        if not name:
            return None
        if not self.vocabulary.counted:
            return Goal(name.split()[0], text=name)
        verb, _, item = name.partition(" ")
        number = re.search(r"(?<!\w)\d{1,4}(?!\w)", _LEAD.sub("", line))
        return self._named(verb, words_of(item), int(number[0]) if number else 1)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield (line, comment): each statement, and the comment beside or above it."""
    above = ""
    for line in _statements(text):
        head, mark, comment = line.partition("#")
        if not head.strip() and mark and not re.match(r"\s*\d", comment):
            above = line if _LEAD.match(comment.strip()) else above
            # A comment on its own line is a step only if no call follows; `_statements` decides.
            continue
        if not head.strip():  # "#1 mine 3 log" is a step
            yield line[:LONGEST_LINE], ""
        else:
            yield head[:LONGEST_LINE], (comment or above).lstrip("# ")[:LONGEST_LINE]
        above = ""


def _statements(text: str) -> Iterator[str]:
    """Yield the lines of a reply that may be steps; two steps in one line are divided."""
    unfenced = re.sub(r"```\w*", "\n", text)
    lines = [line.strip() for line in unfenced.splitlines()]
    # If no line calls anything, the comments are the plan.
    calls = any(_CALL.match(_QUOTES.sub("", _LEAD.sub("", line))) for line in lines)
    for line in lines:
        plain = line if calls else re.sub(r"^#\s*(?=step|action|goal)", "", line, flags=re.I)
        if not plain or _CODE.match(plain) or _THOUGHT.match(plain):
            continue
        yield from (part for part in re.split(r";(?=\s*\w)", plain) if part.strip())


def _is_step(line: str) -> bool:
    """Return whether a line is meant as a step of the plan: a call, or numbered."""
    plain = _QUOTES.sub("", line)
    return _LEAD.match(plain) is not None or _CALL.match(plain) is not None


def _sub_task(line: str) -> Goal | None:
    """Return a numbered line as a sub-task in any words."""
    text = _LEAD.sub("", line, count=1).strip().strip("\"'`*").rstrip(" .;")
    if _LEAD.match(line) is None or not re.search(r"\w", text):
        return None
    return Goal(text.split()[0].casefold(), text=" ".join(text.split()))


def _pairs(group: str) -> list[tuple[str, int]]:
    """Return the names and counts between braces; a missing count is 1."""
    pairs = [(name.strip(), int(count)) for name, count in _PAIR.findall(group)]
    if not pairs:
        pairs = [(name.strip(), 1) for name in group.split(",") if re.search(r"[A-Za-z]", name)]
    return pairs


def _count(values: Sequence[str]) -> int:
    return next((int(value[:4]) for value in values if value.isdecimal()), 1)


def _phrase(line: str) -> str:
    """Return a line in plain words, for a sentence encoder: without numbers and signs."""
    text = _QUOTES.sub("", _NAMESPACE.sub("", _LEAD.sub("", line)))
    words = re.findall(r"[A-Za-z]+", text.replace("_", " "))
    ignored = {"null", "none", "obj", "tool", "num", "materials"}
    return " ".join(word.casefold() for word in words if word.casefold() not in ignored)[:200]


#: Maximum rounds of one loop, and maximum statements in all.
MOST_ROUNDS, MOST_STATEMENTS = 200, 5000
#: Maximum depth of nested brackets that Python's parser is given.
_DEEPEST = 30
_FENCED = re.compile(r"```\w*\n?(.*?)(?:```|\Z)", re.DOTALL)
_TYPOGRAPHIC = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})


class Malformed(Exception):
    """The program is malformed; the text says why."""


class Unmet(Exception):
    """An assert failed; the text is its message."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Runs a program. has: whether that many of an item are held. act: pursues a goal once."""

    parser: Parser
    has: Callable[[str, int], bool]
    act: Callable[[Goal], None]

    def run(self, text: str) -> None:
        """Run the program in a reply.

        Raise Malformed, Unmet, and the errors of `act`.
        """
        self._all(_body(text), [MOST_STATEMENTS])

    def _all(self, statements: Sequence[ast.stmt], left: list[int]) -> None:
        for statement in statements:
            left[0] -= 1
            if left[0] < 0:
                raise Malformed(f"it takes more than {MOST_STATEMENTS} statements")
            match statement:
                case ast.While(test=test, body=body, orelse=[]):
                    rounds = 0
                    while self._holds(test):
                        rounds += 1
                        if rounds > MOST_ROUNDS:
                            raise Malformed(f"a loop goes round more than {MOST_ROUNDS} times")
                        self._all(body, left)
                case ast.Assert(test=test, msg=message):
                    if not self._holds(test):
                        raise Unmet(_text(message) or ast.unparse(test))
                case ast.Expr(value=ast.Call() as call):
                    self.act(self._goal(call))
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Return():
                    return
                case _:
                    raise Malformed(f"{type(statement).__name__} is no while, assert or call")

    def _holds(self, test: ast.expr) -> bool:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._holds(operand)
            case ast.Call(func=ast.Attribute(attr="has"), args=[ast.Dict() as items], keywords=[]):
                return all(self.has(item, count) for item, count in _counts(items).items())
        raise Malformed("a condition is not inventory.has({item: count})")

    def _goal(self, call: ast.Call) -> Goal:
        text = ast.unparse(call)
        goal = self.parser.by_rules(text)
        if goal is None or goal.verb != ast.unparse(call.func).casefold():
            raise Malformed(f"{text} names no known goal")
        return replace(goal, text=text)


def _body(text: str) -> Sequence[ast.stmt]:
    """Return the statements of a program, or of the function that it consists of."""
    source = text[:LONGEST_REPLY].translate(_TYPOGRAPHIC)
    if fenced := _FENCED.search(source):
        source = fenced[1]
    if not source.strip() or max(source.count(sign) for sign in "([{") > 40 * _DEEPEST:
        raise Malformed("there is no program in it")
    try:
        module = ast.parse(source.strip("\n"))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Malformed("it is no Python") from error
    functions = [one for one in module.body if isinstance(one, ast.FunctionDef)]
    others = [one for one in module.body if not isinstance(one, ast.FunctionDef | ast.ImportFrom)]
    if len(functions) == 1 and not others:
        return functions[0].body
    if functions:
        raise Malformed("it is more than one function")
    if not others:
        raise Malformed("there is no statement in it")
    return others


def _counts(items: ast.Dict) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for key, value in zip(items.keys, items.values, strict=True):
        number = value.value if isinstance(value, ast.Constant) else None
        if not isinstance(number, int) or not _text(key):
            raise Malformed("an inventory is not of the form {item: count}")
        counts[_text(key)] = number
    return counts


def _text(value: ast.expr | None) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
