"""Mutated inputs over all formats: each is read, or refused with a reason.

    python -m tests.hostile.mutants 10000

Of each format a sound example is changed (bytes, values, lines, nesting) and read as commands read
it. What comes of it is a record, a problem or an LdmError, soon, and the other lines are kept.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from ldm import records
from ldm.agents import demonstrations
from ldm.agents.autoplan import plans
from ldm.agents.replies import read as read_reply
from ldm.cli.options import listed_ids
from ldm.envs import formats
from ldm.envs.alfworld import data as alfworld
from ldm.envs.interchange.foreign import Assumed
from ldm.envs.textcraft.recipes import load_book
from ldm.envs.textcraft.tasks import read_list
from ldm.envs.webshop.catalogue import Files, read_products
from ldm.errors import LdmError
from ldm.eval.published import PresetRecord, PublishedRow, PublishedTable, remarks
from ldm.experiments.evaluation import preset_record
from ldm.experiments.presets import SHIPPED, preset
from ldm.explore.refine import ExploredGoal, Tree
from ldm.llm import Message, Sampling
from ldm.llm.calls import Call, Request
from ldm.llm.capabilities import CapabilityStore
from ldm.llm.prices import load_prices
from ldm.llm.recording import read_calls
from ldm.llm.structured import form_of
from ldm.memory.exchange import export, import_memory
from ldm.memory.packs import export_pack, read_pack
from ldm.runs import Manifest, open_run
from ldm.types import EpisodeResult, Note, StateActionTuple, Task, Trajectory, Usage
from ldm.untrusted import Problem, lines, printable
from tests.embedder import BagOfWords
from tests.envs.alfworld.test_conversations import line as conversation
from tests.envs.alfworld.test_environment import make_game
from tests.envs.textcraft.test_tasks import GOOD as LISTED
from tests.envs.webshop.test_episodes import BUY, episode
from tests.envs.webshop.test_sessions import A, event, item, purchase, results
from tests.hostile.flips import small_memory
from tests.test_records import RESULT
from tests.test_types import TUPLE
from tests.toy import expert_trajectories

#: A preset that ships.
TABLE = (SHIPPED / "autoplan-table3-hotpotqa.toml").read_bytes()
#: Seconds that any reading may take.
PATIENCE = 30
#: Values that stand where another is expected.
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    -5,
    1e300,
    1.5,
    "",
    "a",
    "\x1b]0;x\x07",
    "\u202e",
    "\x00",
    "x" * 9999,
    "</memory foo>",
    "```",
    "{{x}}",
    "../../etc/passwd",
    "os:system",
    [],
    {},
    [[]],
    {"a": {}},
    [1, "a", None],
    {"": ""},
    2**63,
    2**31,
    "1",
    "NaN",
)
#: Bytes that are put somewhere, JSON or not.
TOKENS = (
    b"NaN",
    b"Infinity",
    b"-",
    b"1e999",
    b"9" * 5000,
    b"\\ud800",
    b"\xff\xfe",
    b"\x00",
    b"\n",
    b"{",
    b"[" * 3000,
    b'"',
    b"\xed\xa0\x80",
    b"}",
    b"]",
    b",",
    b"\\",
    b"\r",
    b"\xe2\x80\xa8",
    b"null",
)


@dataclass(frozen=True)
class Subject:
    """A format. read: what a command makes of the file; its results may hold problems.

    by_line: whether each line is a record of its own, of which none may be lost.
    """

    name: str
    file: str
    content: bytes
    read: Callable[[Path], Iterable[object]]
    by_line: bool = False


class Hangs(Exception):
    """Reading took too long."""


def mutated(content: bytes, draw: random.Random, *, by_line: bool) -> bytes:
    """Return the content with one to three changes."""
    for _ in range(draw.randint(1, 3)):
        change = draw.randrange(4) if content[:1] in b"{[" else draw.randrange(2)
        content = bytes(_bytes(content, draw) if change < 2 else _value(content, draw, by_line))
    return content


def _bytes(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    end = min(len(content), at + draw.choice((0, 1, 1, 5, 200)))
    match draw.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + draw.choice(TOKENS) + content[end:]
        case 2:
            return content[:at] + content[end:]
        case 3:
            return content[:end] + content[at:]
    changed = bytearray(content)
    if changed:
        changed[at % len(changed)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _value(content: bytes, draw: random.Random, by_line: bool) -> bytes:
    """Change a value within the JSON of the whole file, or of one of its lines."""
    parts = content.split(b"\n") if by_line else [content]
    number = draw.randrange(len(parts))
    try:
        value = json.loads(parts[number])
    except (ValueError, RecursionError):
        return content
    try:
        parts[number] = json.dumps(_changed(value, draw)).encode()
    except RecursionError:
        return content
    return b"\n".join(parts)


def _changed(value: Any, draw: random.Random) -> Any:
    value = copy.deepcopy(value)
    inner = value
    while isinstance(inner, dict | list) and inner:
        keys: list[Any] = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = draw.choice(keys)
        if not isinstance(inner[key], dict | list) or not inner[key] or draw.random() < 0.3:
            if draw.random() < 0.15:
                del inner[key]
            elif isinstance(inner, dict) and draw.random() < 0.1:
                inner[draw.choice(("", "extra", "\x1b[2J", "id"))] = inner.pop(key)
            else:
                inner[key] = draw.choice(VALUES)
            return value
        inner = inner[key]
    return draw.choice(VALUES)


def outcome(subject: Subject, path: Path) -> str:
    """Read a file; return "read", "problem" or "refused". Raises what is no way to end."""
    signal.alarm(PATIENCE)
    try:
        results = list(subject.read(path))
    except LdmError as error:
        printable(str(error)).encode()
        if not str(error).strip():
            raise AssertionError("an error without words") from error
        return "refused"
    finally:
        signal.alarm(0)
    if subject.by_line and len(results) < sum(1 for _ in lines(path)):
        raise AssertionError(f"{len(results)} results: lines were lost")
    for one in results:
        if not isinstance(one, Problem) and hasattr(type(one), "__pydantic_config__"):
            records.loads(records.dumps(one), type(one))  # what was read can be written
    return "problem" if any(isinstance(one, Problem) for one in results) else "read"


def attack(number: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """Read `number` mutants, equally many of each format; return (counts, what went wrong)."""
    draw, counts, wrong = random.Random(seed), Counter[str](), list[str]()
    everything = subjects(folder / "sound")
    signal.signal(signal.SIGALRM, _stop)
    for count in range(number):
        subject = everything[count % len(everything)]
        place = folder / f"{count}"
        path = place / subject.file
        path.parent.mkdir(parents=True)
        content = mutated(_plain(subject), draw, by_line=subject.by_line)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        try:
            counts[f"{subject.name}: {outcome(subject, path)}"] += 1
        except BaseException:
            counts[f"{subject.name}: WRONG"] += 1
            wrong.append(f"{subject.name}, {path}:\n{traceback.format_exc()[-1500:]}")
            if isinstance(sys.exc_info()[1], KeyboardInterrupt):
                raise
    return counts, wrong


def _plain(subject: Subject) -> bytes:
    return gzip.decompress(subject.content) if subject.file.endswith(".gz") else subject.content


def _stop(number: int, frame: FrameType | None) -> None:
    raise Hangs


def subjects(folder: Path) -> list[Subject]:
    """Return all formats, each with a sound example."""
    folder.mkdir(parents=True)
    listed = [*_recorded(folder), *_foreign(folder), *_data(folder), *_kept(folder), *_replies()]
    for subject in listed:  # a sound one is read without a problem
        path = folder.parent / "checked" / subject.name / subject.file
        path.parent.mkdir(parents=True)
        path.write_bytes(subject.content)
        if (first := outcome(subject, path)) != "read":
            raise AssertionError(f"{subject.name}: {first}")
    return listed


def _text(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _written(record: object) -> bytes:
    return (records.dumps(record) + "\n").encode()


def _recorded(folder: Path) -> list[Subject]:
    def scanning(kind: type[Any]) -> Callable[[Path], Iterable[object]]:
        return lambda path: records.scan(path, kind)

    trajectories = expert_trajectories()[:3]
    tree = Tree(("a",), trajectories[0])
    of_kind: dict[type[Any], list[Any]] = {
        Trajectory: trajectories,
        StateActionTuple: [TUPLE, TUPLE],
        EpisodeResult: [RESULT, replace(RESULT, notes=(Note("plan", 0, {"a": [1.5]}),))],
        Task: [t.task for t in trajectories],
        ExploredGoal: [ExploredGoal(0, trajectories[0].task, (tree,))],
    }
    listed = [
        Subject(kind.__name__, "a.jsonl", b"".join(map(_written, held)), scanning(kind), True)
        for kind, held in of_kind.items()
    ]
    content = gzip.compress(b"".join(map(_written, trajectories)))
    return [*listed, Subject("packed", "a.jsonl.gz", content, scanning(Trajectory), True)]


def _foreign(folder: Path) -> list[Subject]:
    """Formats of others that become trajectories, as `ldm import` reads them."""

    def reading(name: str) -> Callable[[Path], Iterable[object]]:
        def read(path: Path) -> Iterable[object]:
            formats.format_of(path)  # whatever it is taken for
            return formats.read(path, name, None, Assumed(env="kitchen"))

        return read

    listed = []
    for name, file in (
        ("atif", "a.json"),
        ("atif", "a.jsonl"),
        ("chat", "a.jsonl"),
        ("parquet", "a.parquet"),
    ):
        path = folder / file
        several = expert_trajectories()[: 1 if file == "a.json" else 3]
        formats.write(path, several, name)
        by_line = file.endswith("l")
        listed.append(Subject(f"{name} {file}", file, path.read_bytes(), reading(name), by_line))
    opening = "-= Welcome =-\n\nA room.\n\nYour task is to: put a hot egg in desk."
    told = conversation(opening, "go to desk 1", "You arrive at loc 3.", "put egg 1 in/on desk 1")
    shopped = (results("red lamp", [A]), item("red lamp", A), purchase(A, {"size": "s"}))
    return [
        *listed,
        Subject(
            "conversations", "a.jsonl", _text(told, told), reading("alfworld-conversations"), True
        ),
        Subject(
            "shop episodes", "a.jsonl", _text(episode(*BUY)), reading("webshop-episodes"), True
        ),
        Subject(
            "shop log", "a.jsonl", _text(event("index"), *shopped), reading("webshop-sessions")
        ),
    ]


def _data(folder: Path) -> list[Subject]:
    """Published data of the environments, as `ldm data check` reads them."""
    trial = "pick_and_place_simple-Pen-None-Desk-1/trial_1"
    game = make_game(folder / "games", "train", trial)

    def games(path: Path) -> Iterable[object]:
        report = alfworld.check(path.parents[4])
        return report.problems or [report.total("train")]

    def products(path: Path) -> Iterable[object]:
        for name, content in (("items_shuffle.json", SHOP), ("items_ins_v2.json", INSTRUCTIONS)):
            if not (path.parent / name).exists():
                (path.parent / name).write_bytes(content)
        return read_products(Files.find(path.parent, human=False))

    book = load_book()
    return [
        Subject("game", game.relative_to(folder).as_posix(), game.read_bytes(), games),
        Subject("products", "items_shuffle.json", SHOP, products),
        Subject("instructions", "items_ins_v2.json", INSTRUCTIONS, products),
        Subject("crafts", "a.jsonl", _text(LISTED), lambda path: read_list(path, book), True),
        Subject(
            "task ids", "ids.txt", b"# some\nvalid_seen/1\ntrain/2\n", lambda p: listed_ids(str(p))
        ),
    ]


def _product(asin: str) -> dict[str, Any]:
    return {
        "asin": asin,
        "name": "A red lamp",
        "full_description": "It is red.",
        "images": ["a.jpg"],
        "small_description": ["red", "bright"],
        "category": "home",
        "query": "lamp",
        "product_category": "Home › Lamps",
        "pricing": "$10.00$20.00",
        "title_nouns": ["lamp"],
        "customization_options": {"size": [{"value": "small"}, {"value": "large"}]},
    }


SHOP = json.dumps([_product("B000000001"), _product("B000000002")]).encode()
INSTRUCTIONS = json.dumps(
    {
        "B000000001": {
            "attributes": ["red"],
            "instruction": "i want a red lamp",
            "instruction_attributes": ["red"],
        }
    }
).encode()


def _preset(path: Path) -> Iterable[object]:
    one = preset(path)
    one.check()
    return [one.published, one.needs(), str(one)]


def _recorded_preset(path: Path) -> Iterable[object]:
    run = open_run(str(path.parent), path.parent)
    return [remarks(preset_record(run))] if "preset" in run.manifest.arguments else []


def _kept(folder: Path) -> list[Subject]:
    """What ldm itself writes and reads again, and others may send: runs, plans, memories."""
    memory = str(small_memory(folder))
    export(memory, "toy", folder / "memory.jsonl")
    export_pack(memory, "toy", folder / "memory.ldmpack")

    def memories(path: Path) -> Iterable[object]:
        place = path.parent / "memory"
        try:
            return [import_memory(str(place), path, BagOfWords()).number]
        finally:
            if sys.exc_info()[0] and place.exists():
                raise AssertionError("a memory is half-written")

    manifest = Manifest("eval", {"plan": {"env": "toy"}}, {"split": "a"}, id="x", fingerprint="y")
    record = PresetRecord("p", "d", PublishedTable("Sheds", "Table 1", rows=(PublishedRow("a"),)))
    of_preset = replace(manifest, arguments={"preset": json.loads(records.dumps(record))})
    plan = plans.PlanFile("toy", "wash", "train", "Wash it.", ("1",), ("1",), {}, {}, 0, "r")
    division = demonstrations.Division("wash it", "a sink", "Step 1: wash it")
    request = Request("m", (Message("user", "hello"),), sampling=Sampling(), max_tokens=5)
    call = Call(request.key, "llm", request, "word", "stop", Usage(1, 2, 0, 3))
    known = {"http://host": {"m": {"structured": "json_schema"}}}
    prices = {"models": {"m": [1, 0.5, 2.0]}}
    return [
        Subject(
            "run", "run.json", _written(manifest), lambda p: [open_run(str(p.parent), p.parent)]
        ),
        Subject(
            "plan", "p.json", _written(plan), lambda p: [plans.read(p), plans.digest(p.parent)]
        ),
        Subject("preset", "p.toml", TABLE, _preset),
        Subject("preset of a run", "run.json", _written(of_preset), _recorded_preset),
        Subject("plans", "d.json", b'{"1": "Do it."}', lambda p: [demonstrations._plans(p)]),
        Subject("divisions", "d.jsonl", _written(division), demonstrations._divisions),
        Subject("calls", "llm.jsonl", _written(call), read_calls),
        Subject("capabilities", "c.json", _text(known), lambda p: [CapabilityStore(p).get("m")]),
        Subject("prices", "prices.json", _text(prices), lambda p: [load_prices(p)]),
        Subject("memory", "m.jsonl", (folder / "memory.jsonl").read_bytes(), memories),
        Subject(
            "pack", "m.ldmpack", (folder / "memory.ldmpack").read_bytes(), lambda p: [read_pack(p)]
        ),
    ]


@dataclass(frozen=True)
class Asked:
    """A form that a model fills in."""

    thought: str
    items: list[str]
    score: float = 0.0


def _replies() -> list[Subject]:
    """What models answer: any text at all."""

    def loose(path: Path) -> Iterable[object]:
        text = path.read_bytes().decode("utf-8", "replace")
        return [Note("reply", 0, {"reply": repr(read_reply(text, frozenset({"go", "take"})))})]

    def form(path: Path) -> Iterable[object]:
        value, complaint = form_of(Asked).read(path.read_bytes().decode("utf-8", "replace"))
        return (
            [Note("reply", 0, {"thought": value.thought, "items": value.items})]
            if value
            else [Problem("reply", 1, "", complaint)]
        )

    answer = json.dumps({"thought": "go", "items": ["a", "b"], "score": 0.5}).encode()
    return [
        Subject("free reply", "r.txt", b"Think: I go.\nAct: go to desk 1\n", loose),
        Subject("JSON reply", "r.json", b'{"action": "go to desk 1"}', loose),
        Subject("form", "f.json", answer, form),
    ]


def main() -> None:
    """Print the counts by format, and whatever went wrong; exit with 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = attack(arguments.number, arguments.seed, Path(folder))
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")  # noqa: T201
    print(f"{counts.total()} mutants, {len(wrong)} went wrong")  # noqa: T201
    for one in wrong[:20]:
        print(one)  # noqa: T201
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
