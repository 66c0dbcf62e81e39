"""Read texts of any world: words, lines that say one thing each, and the facts of structured text.

No word of any environment is known here; the only vocabulary is a list of English function words.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from ldm.text import value_in

#: Closed-class English words: they join the parts of a command or a sentence and name nothing.
FUNCTION_WORDS = frozenset(
    """a an the this that these those some any each every all both no not and or but if then than so
    to from in on into onto at of off out over under up down with without by for using via near next
    i you he she it we they me him her them my your his its our their is are was were be been being
    am do does did done have has had will would can could may might must shall should there here as
    left right front back behind beside between above below before after one two""".split()  # noqa: SIM905
)
#: Items of a list, leaves of a structure, and characters of a value that are read.
ITEMS, LEAVES, VALUE = 50, 400, 60
#: Characters of XML that is read.
LONG = 1 << 20
#: Lines of a text, and words of a line, that are read.
LINES, LINE = 200, 60
#: The share of the lines of two texts that both have if they show one place.
SAME = 0.5

#: The words of a name or of a line, in lower case: ("drawer", "3").
Words = tuple[str, ...]

#: Parts of an identifier are words of their own, unless they hold a digit: "oak_slab", "usr_12".
TOKEN = re.compile(r"[^\W_]+(?:['’@.-][^\W_]+|_(?=[^\W_]*\d)[^\W_]+)*")
_ENDS = re.compile(r"[\n;:,]+|\.(?=\s|$)")
_FIELD = re.compile(r"^\s*[-*]?\s*([A-Za-z][\w /-]{0,40}?)\s*[:=]\s*(\S.*)$")
#: One of several "key=value" in a line, and the name of a column.
_PAIR = re.compile(r"\s*([A-Za-z][\w.-]*)=(\"[^\"]*\"|[^\s,;]*)[,;]?(?=\s|$)")
_NAME = re.compile(r"[A-Za-z][\w.-]*(?: [\w.-]+)?")
_BLANK = re.compile(r"\n\s*\n")
#: A number, with a currency or a unit before or after it.
_AMOUNT = re.compile(
    r"(?:[A-Z]{3} |[$€£¥] ?)?"
    r"([-+]?(?:\d[\d,]*)?\.?\d+(?:[eE][-+]?\d+)?)(?: ?[%€£¥]| [A-Za-z]{1,8})?"
)
_DIGITS = re.compile(r"\d+")
#: Letters and digits in turn, or after a sign that joins them to more.
_CODE = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]+\d+[^\W\d_]|\d+[^\W\d_]|(?<=[^\W_][-_.])[^\W\d_]+\d)[^\W_]*"
)
#: What is in quotes; an apostrophe within a word is none.
_QUOTES = re.compile(r"""(?<!\w)['"`“‘]([^'"`“”‘’\n]+)['"`”’](?!\w)""")
_ADDRESSEE = re.compile(r"[^\s@]+@")
#: Texts whose readings are cached: a reading of a long text takes twenty times its size.
TEXTS = 500


@lru_cache(20_000)
def words(text: str) -> Words:
    """Return the words of a text, in lower case."""
    return tuple(TOKEN.findall(text.lower()))


@lru_cache(TEXTS)
def word_set(text: str) -> frozenset[str]:
    """Return the distinct words of a text."""
    return frozenset().union(*lines(text))


@lru_cache(TEXTS)
def lines(text: str) -> tuple[Words, ...]:
    """Return the distinct pieces of a text that say one thing each, as words."""
    if structure(text) is not None:
        text = "\n".join(f"{path} {value}" for path, value in leaves(text))
    pieces: dict[Words, None] = {}
    for piece in _ENDS.split(text):
        if len(pieces) == LINES:
            break
        pieces[words(piece)[:LINE]] = None
    return tuple(piece for piece in pieces if piece)


@lru_cache(TEXTS)
def alike(text: str, other: str) -> bool:
    """Return whether two texts share most of their lines, as those that show one place do."""
    one, two = {*lines(text)}, {*lines(other)}
    return len(one & two) >= SAME * len(one | two)


@lru_cache(TEXTS)
def words_beside(goal: str, text: str) -> frozenset[str]:
    """Return the words of a text without the lines that repeat the goal."""
    repeated = lines(goal)
    if not any(line in repeated for line in lines(text)):
        return word_set(text)
    return frozenset(word for line in lines(text) if line not in repeated for word in line)


@lru_cache(TEXTS)
def paragraphs(text: str) -> tuple[tuple[Words, ...], ...]:
    """Return the lines of each paragraph of a text that is not structured."""
    return () if structure(text) is not None else tuple(map(lines, _BLANK.split(text)))


@lru_cache(TEXTS)
def apart(text: str) -> tuple[str, ...]:
    """Return what stands apart in a text, as it is written: lines, and what is in quotes."""
    whole = (line.strip() for line in text.splitlines()[:LINES])
    return tuple(dict.fromkeys([*whole, *_QUOTES.findall(text)]))


@lru_cache(TEXTS)
def structure(text: str) -> tuple[Any, str] | None:
    """Return the JSON, XML or tables in a text, as values, with the text around them, or None."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start >= 0 and (not start or "\n" in text[:start] or ":" in text[:start]):
        value, end = value_in(text, start) or (None, start)
        if isinstance(value, (dict, list)) and value:
            return value, text[:start] + text[end:]
    if text.lstrip().startswith("<") and "<!" not in text and len(text) < LONG:
        with suppress(ElementTree.ParseError, RecursionError):
            root = ElementTree.fromstring(f"<all>{text}</all>")  # noqa: S314 - it has no entities
            if not any((one.tail or "").strip() for one in root.iter()):  # else it is prose
                return _value(root), ""
    rows, others = _rows(text)
    return (rows, "\n".join(others)) if rows else None


def _value(element: ElementTree.Element) -> Any:
    """Return the content of an element of XML; children of one name are a list."""
    children = defaultdict[str, list[Any]](list)
    for child in element:
        children[child.tag].append(_value(child))
    inner = {tag: of if len(of) > 1 else of[0] for tag, of in children.items()}
    parts, text = {**element.attrib, **inner}, (element.text or "").strip()
    return {**parts, "text": text} if parts and text else parts or text


def _rows(text: str) -> tuple[list[dict[str, str]], list[str]]:
    """Return the rows of tables, cells between the same signs below as many names, and the rest."""
    head, rows, others = list[str](), list[dict[str, str]](), list[str]()
    for line in text.splitlines()[:LEAVES]:
        pairs = _PAIR.findall(line) if "=" in line else ()
        if len(pairs) > 1 and not _PAIR.sub("", line).strip():
            rows.append({name: value.strip('"') for name, value in pairs})
            continue
        mark = next((one for one in "|\t" if one in line), "\n" if ", " in line else ",")
        cells = [cell.strip() for cell in line.strip().strip("|").split(mark)]
        if len(cells) > 1 and len(cells) == len(head):
            if line.strip("|:- "):  # no rule below the names
                rows.append(dict(zip(head, cells, strict=True)))
            continue
        named = len({*cells}) == len(cells) >= 2 + (mark == ",")
        head = cells if named and all(map(_NAME.fullmatch, cells)) else []
        others += [] if head else [line]
    return rows, others


def prose(text: str) -> str:
    """Return a text without its JSON, whose facts are its leaves."""
    read = structure(text)
    return text if read is None else read[1]


@lru_cache(TEXTS)
def leaves(text: str, named: bool = False) -> tuple[tuple[str, str], ...]:
    """Return (path, value) of each leaf of a structured text, identical ones once.

    JSON is read as it is nested; the places in a list are no part of a path. In other texts a line
    "key: value" is a leaf.

    named: whether an object in a list that says a name first has leaves of that name as well, as
        "papers[passport].state" beside "papers.state".
    """
    read = structure(text)
    if read is None:
        matches = (_FIELD.match(line) for line in text.splitlines()[:LINES])
        pairs = [(m[1].lower(), m[2].strip()) for m in matches if m]
        return tuple(dict.fromkeys((path, value[:VALUE]) for path, value in pairs))
    pairs = [*_leaves(read[0], named), *(leaves(read[1]) if read[1].strip() else ())]
    return tuple(dict.fromkeys(pairs))[:LEAVES]


def _leaves(value: Any, named: bool) -> Iterator[tuple[str, str]]:
    todo, count = [("", value)], 0
    while todo and count < LEAVES:
        path, one = todo.pop()
        if isinstance(one, dict):
            todo += [(f"{path}.{key}" if path else str(key), v) for key, v in reversed(one.items())]
        elif isinstance(one, list):
            todo += [(path, item) for item in reversed(one[:ITEMS])]
            each = map(_named, one[:ITEMS] if named else ())
            todo += [(f"{path}[{name}]", rest) for name, rest in each if name]
        else:
            count += 1
            yield path, plain(one)


def _named(item: Any) -> tuple[str, Any]:
    """Return what an object of a list says first, if that is a name, and what else it says."""
    first, *rest = item.items() if isinstance(item, dict) and item else [("", None)]
    name = first[1] if isinstance(first[1], str) and rest else ""
    return (name if masked(name) == name and len(name) < VALUE else ""), dict(rest)


def plain(value: Any) -> str:
    """Return a leaf of JSON as a short text."""
    return (value if isinstance(value, str) else json.dumps(value))[:VALUE].strip()


@lru_cache(20_000)
def masked(text: str) -> str:
    """Return a text in which addressees, codes, and digits inside names and times, are one sign.

    A code is a part of an identifier that mixes letters and digits: "c-1dfef0" is "c-#". A word
    that ends in digits keeps its letters: "ac1439" is "ac#".
    """
    if text.isalpha() or _number(text) is not None:
        return text
    text = _CODE.sub("#", _ADDRESSEE.sub("#@", text.lower()))
    return _DIGITS.sub("#", text)


@lru_cache(20_000)
def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e12 else None


@lru_cache(20_000)
def number(text: str) -> float | None:
    """Return the finite number that a text is, also with a currency or a unit, or None."""
    match = _AMOUNT.fullmatch(text)
    return _number(match[1].replace(",", "")) if match else None


@lru_cache(20_000)
def place_of(name: Words, line: Words) -> int:
    """Return where a name begins in a line, or -1."""
    size, first = len(name), name[0]
    for i in range(len(line) - size + 1):
        if line[i] == first and line[i : i + size] == name:
            return i
    return -1


@lru_cache(20_000)
def lines_with(name: Words, text: str) -> tuple[Words, ...]:
    """Return the lines of a text that name a thing in full."""
    by_word = _lines_by_word(text)
    fewest = min((by_word.get(word, []) for word in name), key=len)
    return tuple(line for line in fewest if place_of(name, line) >= 0)


@lru_cache(TEXTS)
def _lines_by_word(text: str) -> Mapping[str, list[Words]]:
    by_word = defaultdict[str, list[Words]](list)
    for line in lines(text):
        for word in dict.fromkeys(line):
            by_word[word].append(line)
    return dict(by_word)


@lru_cache(20_000)
def instances(name: Words, text: str) -> tuple[Words, ...]:
    """Return the things of a kind in a text: a name, with the number that follows it."""
    names: dict[Words, None] = {}
    for line in lines_with(name, text):
        end = place_of(name, line) + len(name)
        names[name + line[end : end + (end < len(line) and line[end].isdigit())]] = None
    return tuple(names)


@lru_cache(20_000)
def kind_of(name: Words) -> Words:
    """Return a name without a number before or after it: the kind of thing that it names."""
    if len(name) > 1 and name[-1].isdigit():
        return name[:-1]
    return name[1:] if len(name) > 1 and name[0].isdigit() else name


@lru_cache(20_000)
def shape(name: Words) -> Words:
    """Return the kind of thing that a name means, with the digits in its words as one sign.

    So is a number before it: "4 planks" is an amount of planks.
    """
    kind = kind_of(name)
    if kind == name[1:]:
        return ("#", *kind)
    return kind if len(kind) < len(name) else tuple(map(masked, kind))


@lru_cache(20_000)
def mentioned(name: Words, line: Words) -> tuple[int, int] | None:
    """Return where a line mentions a name, and with how many of its words, or None.

    Of a name of several words, two in a row count.
    """
    for size in range(len(name), max(0, min(2, len(name)) - 1), -1):
        for i in range(len(name) - size + 1):
            if (at := place_of(name[i : i + size], line)) >= 0:
                return at, size
    return None


@lru_cache(20_000)
def pattern_of(name: Words) -> re.Pattern[str]:
    """Return a pattern that finds a name in a text, whatever its separators and case."""
    between = r"(?:_|[^\w\[\](){}<>]+)"
    return re.compile(rf"\b{between.join(map(re.escape, name))}\b", re.IGNORECASE)
