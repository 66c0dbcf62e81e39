"""Read games: the official ones from folders, and our small ones that ship with the package.

An official game is `<data>/json_2.1.1/<split>/<task>/<trial>/game.tw-pddl`, a JSON object with the
keys pddl_domain, grammar, pddl_problem and solvable. Our own are lines of `demo/<split>.jsonl.gz`,
which hold only their differences: all follow the rules of ALFWorld's new grammar.

The fast engine implements these rules, not PDDL; it must make sure that a game has no others. Every
action of a game's domain and the whole grammar are compared by digest with those that the
comparison with the official engine covers. Only the types that an action names may differ: which
receptacles clean, heat and cool, and which objects cut. Texts are processed as the published
runners do.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ldm.envs._base import facts
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import parse_json, read_bytes
from ldm.types import Task, stable_hash

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
TASK = "Your task is to: "
NOTHING = "Nothing happens."

#: The two verbs of ALFWorld: games before 0.4 say "put X in/on Y", later ones "move X to Y". Agents
#: and memories built on one silently fail with the other, so both are understood everywhere.
Dialect = Literal["put", "move"]

# "mug 1", or "(object)" in the list of commands that the new grammar's `help` prints.
_THING = r"(?:[a-z]+ \d+|\([a-z]+\))"
_FORMS = {
    "put": (rf"\bput (the )?({_THING}) in/on (the )?({_THING})", r"put \1\2 in/on \3\4"),
    "move": (rf"\bmove (the )?({_THING}) to (the )?({_THING})", r"move \1\2 to \3\4"),
}
_ARRIVAL = re.compile(r"\AYou arrive at [^.\n]+\. ")


def opening(feedback: str) -> str:
    """Return the engine's introduction without its banner: the room, then a line with the task."""
    paragraphs = [part.strip() for part in feedback.split("\n\n")]
    return "\n".join(part for part in paragraphs if part and part != BANNER)


def observation(feedback: str) -> str:
    """Return an answer of the engine without the sentence on where the agent has arrived.

    The old grammar names a location there ("You arrive at loc 5."), the new one the receptacle,
    which the next sentence names again.
    """
    return _ARRIVAL.sub("", feedback.strip())


def goal_of(text: str) -> str:
    """Return the text after "Your task is to: " on its line, or ""."""
    _, marker, rest = text.partition(TASK)
    return rest.split("\n", 1)[0].strip() if marker else ""


def entity_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the readable name of each thing of a game: "mug_bar__plus_02…" → "mug 1".

    Things of a type are numbered by their ids in descending order, as the published games are. An
    id without a position ("agent1") keeps its own name.
    """
    types = {name: _type_of(name) for name in sorted(set(ids))}
    numbers = Counter(kind for kind in types.values() if kind)
    names = {}
    for name, kind in types.items():
        names[name] = f"{kind} {numbers[kind]}" if kind else name
        numbers[kind] -= 1
    return names


def _type_of(name: str) -> str:
    kind, separator, _ = name.partition("_bar_")
    if not separator:
        return ""
    return kind + "basin" if "basin" in name else kind


def translate(text: str, dialect: Dialect) -> str:
    """Return `text` (an action or an observation) with the placing verb of `dialect`."""
    other = "move" if dialect == "put" else "put"
    if f"{other} " not in text:  # most texts: looking for a word is faster than for a pattern
        return text
    return re.sub(_FORMS[other][0], _FORMS[dialect][1], text)


Expression: TypeAlias = "str | tuple[Expression, ...]"
Fact: TypeAlias = tuple[str, ...]

_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")
_TASK_LINE = re.compile(rf'"{TASK}((?:[^"\\]|\\.)*)"')
#: A plain task; other characters could form one of the grammar's expressions, which are Python.
_PLAIN = re.compile(r"[\w ,.:;!?'()/-]*")

#: Digests of actions and grammars, predicates, and the answer to `help`.
FACTS = facts(__file__)
_OPTIONAL = "help"


class UnknownRules(ValueError):
    """A text is not PDDL, or defines rules that the fast engine does not implement."""


class Rules(NamedTuple):
    """The parameters that differ between games with ALFWorld's rules.

    cleaners, heaters, coolers: types of receptacle; knives: types of object that cut; all in lower
    case, as PDDL ignores case. help: whether there is a command "help".
    """

    dialect: Dialect = "move"
    help: bool = True
    cleaners: frozenset[str] = frozenset({"sinkbasintype"})
    heaters: frozenset[str] = frozenset({"microwavetype"})
    coolers: frozenset[str] = frozenset({"fridgetype"})
    knives: frozenset[str] = frozenset({"knifetype", "butterknifetype"})


#: The rules of the installed package, which our own games follow.
OWN_RULES = Rules()


class GameProblem(NamedTuple):
    """A game's things, facts and goal.

    things: name → type, as declared. facts: the initial ones, sorted. All in lower case.
    """

    things: dict[str, str]
    facts: tuple[Fact, ...]
    goal: Expression


def parse(text: str) -> Expression:
    """Return the one parenthesised expression in `text`, in lower case, without comments.

    Raise UnknownRules if a parenthesis is missing or something follows the last one.
    """
    stack: list[list[Expression]] = [[]]
    for token in _TOKEN.findall(text.lower()):
        if token == "(":  # noqa: S105 - a parenthesis
            stack.append([])
        elif token == ")":  # noqa: S105
            if len(stack) == 1:
                raise UnknownRules("there is an extra closing parenthesis")
            expression = tuple(stack.pop())
            stack[-1].append(expression)
        elif token[0] != ";":
            stack[-1].append(token)
    if len(stack) > 1:
        raise UnknownRules("a closing parenthesis is missing")
    if len(stack[0]) != 1 or isinstance(stack[0][0], str):
        raise UnknownRules("not one parenthesised expression")
    return stack[0][0]


def read_problem(text: str) -> GameProblem:
    """Return a game's problem. Raise UnknownRules if a section is missing or invalid."""
    sections = {part[0]: part[1:] for part in parse(text) if isinstance(part, tuple) and part}
    for name in (":objects", ":init", ":goal"):
        if name not in sections:
            raise UnknownRules(f"the problem has no {name}")
    things = dict(typed(sections[":objects"]))
    facts: set[Fact] = set()
    for fact in sections[":init"]:
        words = tuple(word for word in fact if isinstance(word, str))
        if isinstance(fact, str) or not fact or (len(words) != len(fact) and words[0] != "="):
            raise UnknownRules(f"not a fact: {fact}")
        if words[0] == "=":  # costs and distances affect no observation
            continue
        for word in words[1:]:
            if word not in things:
                raise UnknownRules(f"{word!r} is used but not declared")
        facts.add(words)
    goal = sections[":goal"]
    if len(goal) != 1:
        raise UnknownRules("the goal is not one formula")
    return GameProblem(things, tuple(sorted(facts)), goal[0])


def typed(names: tuple[Expression, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, type) for each name of a typed list: "a b - object c - location"."""
    untyped: list[str] = []
    words = iter(names)
    for word in words:
        if not isinstance(word, str):
            raise UnknownRules(f"not a name: {word}")
        if word != "-":
            untyped.append(word)
            continue
        kind = next(words, None)
        if not isinstance(kind, str):
            raise UnknownRules(f"a type is missing after {' '.join(untyped)}")
        yield from ((name, kind) for name in untyped)
        untyped = []
    if untyped:
        raise UnknownRules(f"without a type: {' '.join(untyped)}")


@lru_cache(maxsize=16)
def read_rules(domain: str, grammar: str) -> Rules:
    """Return the rules of a game. Raise UnknownRules if they are not ALFWorld's."""
    if flaw := grammar_flaw(grammar):
        raise UnknownRules(flaw)
    types: dict[str, frozenset[str]] = {}
    for name, (digest, action_types) in action_digests(domain).items():
        if FACTS["actions"].get(name) != digest:
            raise UnknownRules(f"the domain's action {name!r} is not ALFWorld's")
        types[name] = action_types
    missing = FACTS["actions"].keys() - types.keys() - {_OPTIONAL}
    if missing:
        raise UnknownRules(f"the domain lacks the action {min(missing)!r}")
    dialect = FACTS["grammars"][grammar_digest(grammar)]
    tools = (types[f"{verb}object"] for verb in ("clean", "heat", "cool", "slice"))
    return Rules(dialect, _OPTIONAL in types, *tools)


def grammar_flaw(grammar: str) -> str:
    """Return why a grammar must not be used, "" if it is one of ALFWorld's two with a plain task.

    The official engine evaluates the contents of braces as Python code.
    """
    for task in _TASK_LINE.findall(grammar):
        if not _PLAIN.fullmatch(task):
            return "the task holds more than plain words, which the official engine could run"
    if grammar_digest(grammar) not in FACTS["grammars"]:
        return "the grammar is neither of ALFWorld's two"
    return ""


def action_digests(domain: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return name → (digest, types in its preconditions) for each action of a domain."""
    digests = {}
    for part in parse(domain):
        if isinstance(part, tuple) and part[0] == ":action":
            types: set[str] = set()
            pattern = _pattern(part[2:], types)
            digests[str(part[1])] = (stable_hash(repr(pattern)), frozenset(types))
    return digests


def grammar_digest(grammar: str) -> str:
    """Return the digest of a grammar without its task, its indentation and empty lines."""
    lines = (line.strip() for line in _TASK_LINE.sub('"TASK"', grammar).splitlines())
    return stable_hash("\n".join(line for line in lines if line))


def _pattern(form: Expression, types: set[str]) -> Expression:
    """Return `form` with every choice of types merged into one, and add the types to `types`.

    A choice of types is, for example, (or (objecttype ?x a) (objecttype ?x b)).
    """
    if isinstance(form, str):
        return form
    if form and form[0] == "or" and all(_names_type(part) for part in form[1:]):
        types.update(str(part[2]) for part in form[1:])
        return ("or", tuple(sorted({repr(part[:2]) for part in form[1:]})))
    return tuple(_pattern(part, types) for part in form)


def _names_type(form: Expression) -> bool:
    return (
        isinstance(form, tuple) and len(form) == 3 and form[0] in ("receptacletype", "objecttype")
    )


ENV = "alfworld"
FOLDER = "json_2.1.1"
FILE = "game.tw-pddl"
OFFICIAL_SPLITS = ("train", "valid_seen", "valid_unseen")
#: Games with shipped episodes, games for refinement, games for evaluation; the splits are disjoint.
OWN_SPLITS = ("demo_train", "demo_explore", "demo_test")
KINDS = {
    "pick_and_place_simple": "pick",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "pick2",
}


@dataclass(frozen=True)
class Game:
    """One game: its name, its task, and the texts that an engine plays.

    id: "<split>/<task folder>/<trial folder>".
    kind: one of the values of KINDS.
    goal: the task as the game prints it.
    domain, grammar: both "" for our own games, which follow the rules of the alfworld package.
    """

    id: str
    kind: str
    goal: str
    problem: str
    domain: str = ""
    grammar: str = ""

    @cached_property
    def dialect(self) -> Dialect:
        """The placing verb of the game's grammar."""
        verb: Dialect = FACTS["grammars"][grammar_digest(self.grammar)] if self.grammar else "move"
        return verb

    @cached_property
    def digest(self) -> str:
        """A hash of everything that an engine uses."""
        return stable_hash(self.domain, self.grammar, self.goal, self.problem)

    @property
    def task(self) -> Task:
        return Task(self.id, ENV, self.id.split("/", 1)[0], self.goal, self.kind)


class Skipped(NamedTuple):
    """A game file that the published set leaves out, and why."""

    reason: str


def kind_of(game_id: str) -> str:
    """Return the kind of a game from its task folder's name, "" if it is unknown."""
    folder = game_id.split("/")[1] if "/" in game_id else game_id
    return KINDS.get(folder.split("-", 1)[0], "")


def data_root(path: Path) -> Path:
    """Return the folder that holds the splits: `path` itself or its json_2.1.1.

    Raise LdmError if there is none.
    """
    for root in (path / FOLDER, path):
        if any((root / split).is_dir() for split in OFFICIAL_SPLITS):
            return root
    problem = "has no" if path.is_dir() else "does not exist, so there is no"
    raise LdmError(
        f"{path} {problem} {FOLDER}/train, valid_seen or valid_unseen.",
        "Name the folder that holds json_2.1.1, or download it: ldm data alfworld --to FOLDER.",
    )


def scan_split(root: Path, split: str) -> Iterator[Game | Skipped | Problem]:
    """Yield each game file of an official split, by name: a game, or why it is not one."""
    for file in sorted((root / split).glob(f"*/*/{FILE}")):
        game_id = file.parent.relative_to(root).as_posix()
        yield read_game(file, game_id)


def read_game(file: Path, game_id: str) -> Game | Skipped | Problem:
    """Return the game in `file`, or why it cannot or must not be played."""
    if "movable" in game_id:
        return Skipped("movable receptacle")
    if "Sliced" in game_id:
        return Skipped("sliced object")
    try:
        data = parse_json(read_bytes(file), str(file))
    except LdmError as error:
        return Problem(str(file), 1, "", error.message)
    if isinstance(data, Problem):
        return data
    if not isinstance(data, dict):
        return Problem(str(file), 1, "", "not a JSON object")
    return _game_from(data, file, game_id)


def _game_from(data: dict[str, Any], file: Path, game_id: str) -> Game | Skipped | Problem:
    for key in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(data.get(key), str):
            return Problem(str(file), 1, key, "not a text" if key in data else "missing")
    if "solvable" not in data:
        return Problem(str(file), 1, "solvable", "missing, so the published set skips the game")
    if not data["solvable"]:
        return Skipped("unsolvable")
    kind = kind_of(game_id)
    if not kind:
        return Problem(str(file), 1, "", f"unknown task kind in the folder name {file.parts[-3]!r}")
    domain, grammar, problem = (data[key] for key in ("pddl_domain", "grammar", "pddl_problem"))
    goal = _task_in(grammar)
    if flaw := grammar_flaw(grammar) if goal else f"has no line {TASK!r}":
        return Problem(str(file), 1, "grammar", flaw)
    return Game(game_id, kind, goal, problem, domain, grammar)


def _task_in(grammar: str) -> str:
    """Return the task that a grammar prints; "" if it has none."""
    match = _TASK_LINE.search(grammar)
    text = parse_json(f'"{match[1]}"', "") if match else ""
    return text.split("\n", 1)[0].strip() if isinstance(text, str) else ""


@cache
def own_games(split: str) -> list[Game]:
    """Return the games of one of OWN_SPLITS, sorted by id."""
    packed = (Path(__file__).parent / "demo" / f"{split}.jsonl.gz").read_bytes()
    lines = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    return [Game(line["id"], kind_of(line["id"]), line["goal"], line["problem"]) for line in lines]
