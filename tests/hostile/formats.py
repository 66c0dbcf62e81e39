"""All formats that are attacked, each with a sound example and how it is read."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ldm import records
from ldm.agents.replies import read as read_reply
from ldm.deps.select import HorizonModel
from ldm.envs import formats
from ldm.envs.download import unpack
from ldm.envs.formats import Assumed
from ldm.explore.refine import ExploredGoal, Tree
from ldm.llm import Message
from ldm.llm.answers import form_of
from ldm.llm.calls import Call, Request, read_calls
from ldm.llm.capabilities import CapabilityStore
from ldm.llm.meter import load_prices
from ldm.runs import Manifest, open_run
from ldm.text import Problem
from ldm.types import EpisodeResult, Note, StateActionTuple, Trajectory, Usage
from ldm.worlds.textcraft.environment import load_book, read_list
from ldm.worlds.webshop.catalogue import Files, read_products
from tests.deps.test_horizon import small_forest
from tests.hostile.stored_formats import caches, memories
from tests.hostile.subject import IMPORT, VALIDATE, Subject
from tests.interchange.test_alfworld_conversations import line as conversation
from tests.interchange.test_traces import LANGFUSE, LANGSMITH
from tests.interchange.test_webshop_episodes import BUY, episode
from tests.interchange.test_webshop_sessions import A, event, item, purchase, results
from tests.test_records import RESULT
from tests.test_types import TUPLE
from tests.toy import expert_trajectories
from tests.worlds.textcraft.test_tasks import GOOD as LISTED

TRAJECTORIES = expert_trajectories()[:3]


def subjects(folder: Path) -> list[Subject]:
    """Return all formats, each with a sound example. folder: for what they are made of."""
    folder.mkdir(parents=True)
    stored = [*memories(folder), *caches(folder)]
    return [*_recorded(), *_foreign(folder), *_data(), *_written(folder), *stored, *_replies()]


def _text(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _lines(*written: object) -> bytes:
    return "".join(records.dumps(one) + "\n" for one in written).encode()


def _recorded() -> list[Subject]:
    goal = ExploredGoal(0, TRAJECTORIES[0].task, (Tree(("a",), TRAJECTORIES[0]),))
    of_kind: dict[type[Any], list[Any]] = {
        Trajectory: TRAJECTORIES,
        StateActionTuple: [TUPLE, TUPLE],
        EpisodeResult: [RESULT, replace(RESULT, notes=(Note("plan", 0, {"a": [1.5]}),))],
        ExploredGoal: [goal],
    }
    listed = [
        Subject(
            kind.__name__,
            "a.jsonl",
            _lines(*held),
            partial(records.scan, record_type=kind),
            by_line=True,
            commands=(IMPORT, VALIDATE) if kind is Trajectory else (VALIDATE,),
        )
        for kind, held in of_kind.items()
    ]
    packed = gzip.compress(_lines(*TRAJECTORIES), mtime=0)
    read = partial(records.scan, record_type=Trajectory)
    return [*listed, Subject("gzip", "a.jsonl.gz", packed, read, commands=(IMPORT,))]


def _foreign(folder: Path) -> list[Subject]:
    """Formats of others that become trajectories, as `ldm import` reads them."""

    def reading(name: str) -> Callable[[Path], Iterable[object]]:
        def read(path: Path) -> Iterable[object]:
            formats.format_of(path)  # whatever it is taken for
            return formats.read(path, name, Assumed(env="kitchen"))

        return read

    def ours(name: str, file: str) -> bytes:
        formats.write(folder / file, TRAJECTORIES[: 1 if file == "a.json" else 3], name)
        return (folder / file).read_bytes()

    opening = "-= Welcome =-\n\nA room.\n\nYour task is to: put a hot egg in desk."
    story = conversation(opening, "go to desk 1", "You arrive at loc 3.", "put egg 1 in/on desk 1")
    shopped = (results("red lamp", [A]), item("red lamp", A), purchase(A, {"size": "s"}))
    logs: tuple[tuple[str, str, bytes, bool], ...] = (
        ("chat", "a.jsonl", ours("chat", "a.jsonl"), True),
        ("alfworld-conversations", "a.jsonl", _text(story, story), True),
        ("traces", "a.jsonl", _text(*LANGSMITH, LANGFUSE), False),
        ("webshop-episodes", "a.jsonl", _text(episode(*BUY)), True),
        ("webshop-episodes", "b.jsonl", _text(PEOPLE), True),
        ("webshop-sessions", "a.jsonl", _text(event("index"), *shopped), False),
    )
    return [
        Subject(name, file, content, reading(name), by_line, commands=(IMPORT,))
        for name, file, content, by_line in logs
    ]


#: What a person did, as WebShop's imitation baselines have it.
PEOPLE = {
    "states": ["WebShop\nInstruction:\na red lamp\n[button] Search [button_]\n", "Page 1\n"],
    **{"actions": ["search[lamp]", "click[b000000001]"], "action_idxs": [-1, 0]},
}
#: A shop's product and instruction in the form of the published data.
PRODUCT = {
    **{"asin": "B000000001", "name": "A red lamp", "full_description": "It is red."},
    **{"images": ["a.jpg"], "small_description": ["red", "bright"], "category": "home"},
    **{"query": "lamp", "product_category": "Home › Lamps", "pricing": "$10.00$20.00"},
    "customization_options": {"size": [{"value": "small"}, {"value": "large"}]},
}
INSTRUCTION = {"attributes": ["red"], "instruction": "a lamp", "instruction_attributes": ["red"]}


def _data() -> list[Subject]:
    """Published data, as `ldm data` reads them."""

    def products(path: Path) -> Iterable[object]:
        instructions = json.dumps({"B000000001": INSTRUCTION})
        (path.parent / "items_ins_v2.json").write_text(instructions)
        return read_products(Files.find(path.parent, human=False))

    book, shop = load_book(), json.dumps([PRODUCT]).encode()
    crafts, of_crafts = partial(read_list, book=book), ("data textcraft FILE",)
    of_shop = ("data webshop FOLDER",)
    return [
        Subject("products", "items_shuffle.json", shop, products, commands=of_shop),
        Subject("crafts", "a.jsonl", _text(LISTED), crafts, by_line=True, commands=of_crafts),
    ]


def _written(folder: Path) -> list[Subject]:
    """What ldm writes and reads again, and others may send: runs, plans, recordings, archives."""
    spec = {"env": {"name": "toy", "size": 2}, "agent": "random", "split": "test"}
    manifest = Manifest("eval", spec, {"split": "a"}, id="x", fingerprint="y")
    request = Request("m", (Message("user", "hello"),), max_tokens=5)
    call = Call(request.key, "llm", request, "word", "stop", Usage(1, 2, 0, 3))
    known = {"http://host": {"m": {"structured": "json_schema"}}}
    forest = small_forest(folder / "h.json").read_bytes()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/game.tw-pddl", "hello " * 50)

    def unpacked(path: Path) -> Iterable[object]:
        target = path.parent / "unpacked"
        count = unpack(path, target)
        assert all(target in one.resolve().parents for one in target.rglob("*") if one.is_file())
        return [count]

    of_run = ("runs show FOLDER --tree", "compare FOLDER FOLDER", "runs show FOLDER")
    run = Subject(
        *("run", "run.json", _lines(manifest), lambda p: [open_run(str(p.parent), p.parent)]),
        commands=of_run,
    )
    calls = Subject(
        "calls", "llm.jsonl", _lines(call, call), read_calls, by_line=True, torn_tail=True
    )
    store, priced = _text(known), _text({"models": {"m": [1, 0.5, 2.0]}})
    return [
        run,
        calls,
        Subject("horizon model", "h.json", forest, lambda p: [HorizonModel.load(p)]),
        Subject("capabilities", "c.json", store, lambda p: [CapabilityStore(p).get("m")]),
        Subject("prices", "p.json", priced, lambda p: [load_prices(p)]),
        Subject("zip", "a.zip", archive.getvalue(), unpacked),
    ]


@dataclass(frozen=True)
class Asked:
    """A form that a model fills in."""

    thought: str
    items: list[str]
    score: float = 0.0


def _replies() -> list[Subject]:
    """What models answer: any text at all."""

    def loose(text: str) -> object:
        return Note("reply", 0, {"reply": repr(read_reply(text, frozenset({"go", "take"})))})

    def form(text: str) -> object:
        value, complaint = form_of(Asked).read(text)
        return Note("reply", 0, {"a": value.items}) if value else Problem("", 1, "", complaint)

    def of(read: Callable[[str], object]) -> Callable[[Path], Iterable[object]]:
        return lambda path: [read(path.read_bytes().decode("utf-8", "replace"))]

    answer = json.dumps({"thought": "go", "items": ["a", "b"], "score": 0.5}).encode()
    return [
        Subject("free reply", "r.txt", b"Think: I go.\nAct: go to desk 1\n", of(loose)),
        Subject("JSON reply", "r.json", b'{"action": "go to desk 1"}', of(loose)),
        Subject("form", "f.json", answer, of(form)),
    ]
