"""Plans as models write them, with faults: quotes missing, capitals, plurals, fences, bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

from ldm.deps.parser import Goal
from ldm.types import stable_seed

VERBS = ("mine", "craft", "smelt", "kill", "equip")


def some_goals(items: Mapping[str, Sequence[str]], draw: random.Random) -> list[Goal]:
    """Three to nine goals with counts, materials and tools, by verb → items."""
    verbs = [verb for verb in VERBS if items.get(verb)]
    made = [*items["craft"]]
    goals = []
    for rank in range(1, draw.randint(3, 9) + 1):
        verb = draw.choice(verbs)
        count = 1 if verb == "equip" else draw.randint(1, 64)
        materials: tuple[tuple[str, int], ...] = ()
        if verb in ("craft", "smelt"):
            names = draw.sample(made, draw.randint(1, min(3, len(made))))
            materials = tuple((name, draw.randint(1, 9)) for name in names)
        tool = draw.choice(made) if verb != "equip" and draw.random() < 0.5 else ""
        goals.append(Goal(verb, draw.choice(items[verb]), count, materials, tool, rank))
    return goals


def braces(pairs: Sequence[tuple[str, int]]) -> str:
    """Return counted items between braces."""
    return "{" + ", ".join(f"'{name}': {count}" for name, count in pairs) + "}"


def in_words(goal: Goal) -> str:
    """Return a goal as a sentence."""
    materials = ", ".join(f"{count} {name}" for name, count in goal.materials)
    made_from = f" from {materials}" if materials else ""
    return f"{goal.verb} {goal.count} {goal.item}{made_from}" + (
        f" with {goal.tool}" if goal.tool else ""
    )


def call(goal: Goal) -> str:
    """Return a goal as a call, with a comment that says the same."""
    materials = f", {braces(goal.materials)}" if goal.materials else ""
    tool = f"'{goal.tool}'" if goal.tool else "null"
    objects = braces([(goal.item, goal.count)])
    return f"{goal.verb}({objects}{materials}, {tool}); # step {goal.rank}: {in_words(goal)}"


def keywords(goal: Goal) -> str:
    """Return a goal as a call with keywords."""
    tool = f"'{goal.tool}'" if goal.tool else "None"
    return f"{goal.verb}(obj = {braces([(goal.item, goal.count)])}, tool = {tool})"


def function(goal: Goal) -> str:
    """Return a goal as a function of its own."""
    return f"{goal.verb}_{goal.item}(num = {goal.count}); # step {goal.rank}"


#: The forms of the goal parser's list.
FORMS: Sequence[Callable[[Goal], str]] = (
    call,
    keywords,
    function,
    lambda goal: f"step {goal.rank}: {in_words(goal)}",
    lambda goal: f"#{goal.rank} {in_words(goal)}",
    lambda goal: f"{goal.rank}. {in_words(goal)}",
)


def _each(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) for line in text.split("\n"))


def _without_some_quotes(text: str, draw: random.Random) -> str:
    return "".join(c for c in text if c not in "'\"" or draw.random() < 0.6)


def _other_quotes(text: str, draw: random.Random) -> str:
    return "".join(draw.choice("'\"’‘`") if c == "'" else c for c in text)


def _capitals(text: str, draw: random.Random) -> str:
    return draw.choice((str.upper, str.title, str.capitalize))(text)


def _fenced(text: str, draw: random.Random) -> str:
    return f"Here is the plan:\n```{draw.choice(('', 'python', 'text'))}\n{text}\n```\nGood luck!"


def _namespaces(text: str, draw: random.Random) -> str:
    return text.replace("{'", "{'minecraft:").replace(", '", ", 'minecraft:")


def _blanks(text: str, draw: random.Random) -> str:
    def change(line: str) -> str:
        head, mark, tail = line.partition("(num")
        return head + mark + tail if mark else line.replace("_", " ")

    return _each(text, change)


def _plurals(text: str, draw: random.Random) -> str:
    """Other numbers of nouns: "logs" for "log", and "plank" for "planks"."""

    def change(match: re.Match[str]) -> str:
        word = match[0]
        if word.partition("_")[0].casefold() in _KEEP or draw.random() < 0.3:
            return word
        if word.casefold().endswith(("ss", "sh", "ch", "x")):
            return f"{word}es"
        return word[:-1] if word.casefold().endswith("s") else f"{word}s"

    return re.sub(r"[A-Za-z_]{4,}(?=[ ':,;]|$)", change, text, flags=re.MULTILINE)


_KEEP = {*VERBS, "step", "from", "with", "null", "none", "tool", "here", "this", "plan"}


def _function_around(text: str, draw: random.Random) -> str:
    body = "\n".join(f"    {line}" for line in text.split("\n"))
    return f"def obtain_it(inventory = {{}}):\n{body}\n    return 'it'"


def _chatter(text: str, draw: random.Random) -> str:
    return f"Sure! The task needs several things.\n\n{text}\n\nI hope that this helps."


def _no_semicolons(text: str, draw: random.Random) -> str:
    return text.replace(";", "")


#: Name → what spoils a text in this way.
FAULTS: Mapping[str, Callable[[str, random.Random], str]] = {
    "quotes missing": _without_some_quotes,
    "quotes of all sorts": _other_quotes,
    "capitals": _capitals,
    "fence": _fenced,
    "namespace": _namespaces,
    "blanks for underscores": _blanks,
    "plurals": _plurals,
    "function": _function_around,
    "chatter": _chatter,
    "no semicolons": _no_semicolons,
}


def some_bytes(text: str, draw: random.Random) -> str:
    """Put a few random characters at random places."""
    characters = list(text)
    for _ in range(draw.randint(1, 12)):
        place = draw.randrange(len(characters) + 1)
        characters.insert(place, draw.randbytes(1).decode("latin-1"))
    return "".join(characters)


def noisy_plan(
    number: int, items: Mapping[str, Sequence[str]], faults: int, *, spoilt: bool = False
) -> tuple[list[Goal], str]:
    """Goals, and a plan of them with so many faults; spoilt: with random bytes, too."""
    draw = random.Random(stable_seed("noisy plan", number, faults, spoilt))
    goals = some_goals(items, draw)
    form = draw.choice(FORMS)
    text = "\n".join(form(goal) for goal in goals)
    for name in draw.sample(sorted(FAULTS), faults):
        text = FAULTS[name](text, draw)
    return goals, some_bytes(text, draw) if spoilt else text


def recovered(goals: Sequence[Goal], read: Sequence[Goal]) -> int:
    """How many goals were read with verb, item and count, in their order."""
    written = [(goal.verb, goal.item, goal.count) for goal in goals]
    parsed = [(goal.verb, goal.item, goal.count) for goal in read]
    place = number = 0
    for one in written:
        if one in parsed[place:]:
            place = parsed.index(one, place) + 1
            number += 1
    return number
