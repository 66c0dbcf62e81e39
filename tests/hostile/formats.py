"""All formats that are attacked, each with a sound example and how it is read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ldm.llm.batch_endpoint import objects_in
from ldm.llm.batches import PendingCall, Submission, answered_call, read_submission

from ldm import records
from ldm.agents import demonstrations
from ldm.agents.autoplan import plans
from ldm.agents.deps import styles
from ldm.agents.deps.horizon import HorizonModel
from ldm.agents.deps.parser import Parser
from ldm.agents.deps.plans import Goal
from ldm.agents.deps.policies import Malformed, Policy, Unmet
from ldm.agents.deps.vocabulary import Vocabulary
from ldm.agents.replies import read as read_reply
from ldm.cli.options import listed_ids
from ldm.envs import formats
from ldm.envs.alfworld import data as alfworld
from ldm.envs.download import unpack
from ldm.envs.textcraft.recipes import load_book
from ldm.envs.textcraft.tasks import read_list
from ldm.envs.webshop.catalogue import Files, read_products
from ldm.explore.refine import ExploredGoal, Tree
from ldm.interchange.foreign import Assumed
from ldm.llm import Message, Sampling
from ldm.llm.calls import Call, Request
from ldm.llm.capabilities import Capabilities, CapabilityStore
from ldm.llm.prices import load_prices
from ldm.llm.recording import scan_calls
from ldm.llm.structured import form_of
from ldm.run.evaluate import preset_record
from ldm.run.presets import SHIPPED, preset
from ldm.run.published import PresetRecord, PublishedRow, PublishedTable, remarks
from ldm.runs import Manifest, open_run
from ldm.text import Problem
from ldm.types import EpisodeResult, Note, StateActionTuple, Task, Trajectory, Usage
from ldm.worlds.hotpotqa import library, questions
from tests.agents.deps.test_horizon import small_forest
from tests.agents.deps.workshop import CARD as WORKSHOP
from tests.envs.alfworld.test_conversations import line as conversation
from tests.envs.alfworld.test_environment import make_game
from tests.envs.textcraft.test_tasks import GOOD as LISTED
from tests.envs.webshop.test_episodes import BUY, episode
from tests.envs.webshop.test_sessions import A, event, item, purchase, results
from tests.hostile.stored_formats import caches, memories
from tests.hostile.subject import IMPORT, VALIDATE, Subject
from tests.interchange.test_otel import ANSWER, CALL, GOAL, HEAT, called, exported
from tests.test_records import RESULT
from tests.test_types import TUPLE
from tests.toy import expert_trajectories


def subjects(folder: Path) -> list[Subject]:
    """Return all formats, each with a sound example. folder: for what they are made of."""
    folder.mkdir(parents=True)
    return [
        *_recorded(),
        *_foreign(folder),
        *_data(folder),
        *_questions(),
        *_stored(folder),
        *_batches(),
        *memories(folder),
        *caches(folder),
        *_replies(),
    ]


def _text(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _written(record: object) -> bytes:
    return (records.dumps(record) + "\n").encode()


def _recorded() -> list[Subject]:
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
        Subject(
            kind.__name__,
            "a.jsonl",
            b"".join(map(_written, held)),
            scanning(kind),
            True,
            commands=(IMPORT, VALIDATE) if kind is Trajectory else (VALIDATE,),
        )
        for kind, held in of_kind.items()
    ]
    content, read = b"".join(map(_written, trajectories)), scanning(Trajectory)
    return [
        *listed,
        Subject("gzipped", "a.jsonl.gz", content, read, True, wrap=_gzipped, commands=(IMPORT,)),
        Subject("gzip", "a.jsonl.gz", _gzipped(content), read, commands=(VALIDATE,)),
    ]


def _gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


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
        content = path.read_bytes()
        listed.append(
            Subject(f"{name} {file}", file, content, reading(name), by_line, commands=(IMPORT,))
        )
    messages = [{"from": "human", "value": "Heat an egg."}, {"from": "gpt", "value": "take egg"}]
    shared = [{"conversations": messages, "id": "1"}, {"conversations": messages, "score": 0.5}]
    chats = [
        {"messages": [{"role": "user", "content": "Heat."}, {"role": "assistant", "content": "go"}]}
    ]
    spans = exported(called(GOAL, CALL, ANSWER, answered=HEAT), called(GOAL, answered=HEAT))
    logs: tuple[tuple[str, str, bytes, bool], ...] = (
        ("sharegpt", "a.jsonl", _text(*shared), True),
        ("sharegpt", "a.json", _text(shared), False),
        ("chat", "several.json", _text(chats * 2), False),
        ("otel", "a.jsonl", _text(spans, exported(called(GOAL, answered=CALL, trace="t2"))), False),
        ("otel", "a.json", _text(spans), False),
    )
    listed += [
        Subject(f"{name} {file}", file, content, reading(name), by_line, commands=(IMPORT,))
        for name, file, content, by_line in logs
    ]
    opening = "-= Welcome =-\n\nA room.\n\nYour task is to: put a hot egg in desk."
    story = conversation(opening, "go to desk 1", "You arrive at loc 3.", "put egg 1 in/on desk 1")
    shopped = (results("red lamp", [A]), item("red lamp", A), purchase(A, {"size": "s"}))
    return [
        *listed,
        Subject(
            "conversations",
            "a.jsonl",
            _text(story, story),
            reading("alfworld-conversations"),
            True,
            commands=(IMPORT,),
        ),
        Subject(
            "shop episodes",
            "a.jsonl",
            _text(episode(*BUY)),
            reading("webshop-episodes"),
            True,
            commands=(IMPORT,),
        ),
        Subject(
            "shop log",
            "a.jsonl",
            _text(event("index"), *shopped),
            reading("webshop-sessions"),
            commands=(IMPORT,),
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
        Subject(
            "game",
            game.relative_to(folder).as_posix(),
            game.read_bytes(),
            games,
            commands=("data check alfworld GAMES",),
        ),
        Subject(
            "products",
            "items_shuffle.json",
            SHOP,
            products,
            commands=("data check webshop FOLDER",),
        ),
        Subject("instructions", "items_ins_v2.json", INSTRUCTIONS, products),
        Subject(
            "crafts",
            "a.jsonl",
            _text(LISTED),
            lambda path: read_list(path, book),
            True,
            commands=("data check textcraft FILE",),
        ),
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


def _questions() -> list[Subject]:
    """HotpotQA: questions, articles, and the archive of abstracts."""
    sound = {"type": "bridge", "level": "hard", "supporting_facts": [["Egg", 0]]}
    context = [["Egg", ["An egg.", "It is."]], ["Mug", ["A mug."]]]
    listed = [
        {**sound, "_id": name, "question": "Is it?", "answer": "yes", "context": context}
        for name in ("a", "b")
    ]
    articles = {"Egg": ["An egg."], "Mug": ["A mug.", "It is one."]}
    lines = _text({"title": "Egg", "text": ["An egg."]}, {"title": "Mug", "text": ["A mug."]})

    def archived(content: bytes) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:bz2") as archive:
            inner = bz2.compress(content)
            member = tarfile.TarInfo("a/wiki_00.bz2")
            member.size = len(inner)
            archive.addfile(member, io.BytesIO(inner))
        return packed.getvalue()

    return [
        Subject(
            "questions",
            "hotpot_dev_distractor_v1.json",
            json.dumps(listed).encode(),
            questions.read_questions,
            commands=("data check hotpotqa FOLDER",),
        ),
        Subject("articles", "a.json", json.dumps(articles).encode(), questions.read_articles),
        Subject("abstracts", "a.tar.bz2", lines, library._read_abstracts, wrap=archived),
        Subject("archive", "a.tar.bz2", archived(lines), library._read_abstracts),
    ]


def _presets(manifest: Manifest) -> list[Subject]:
    """Presets, and what a run remembers of its own."""

    def read(path: Path) -> Iterable[object]:
        one = preset(path)
        one.check()
        return [one.published, one.needs(), str(one)]

    def recorded(path: Path) -> Iterable[object]:
        run = open_run(str(path.parent), path.parent)
        return [remarks(preset_record(run))] if "preset" in run.manifest.arguments else []

    table = (SHIPPED / "autoplan-table3-hotpotqa.toml").read_bytes()
    record = PresetRecord("p", "d", PublishedTable("Sheds", "Table 1", rows=(PublishedRow("a"),)))
    of_preset = replace(manifest, arguments={"preset": json.loads(records.dumps(record))})
    return [
        Subject("preset", "p.toml", table, read, commands=("presets show FILE",)),
        Subject("preset of a run", "run.json", _written(of_preset), recorded),
    ]


def _stored(folder: Path) -> list[Subject]:
    """What ldm itself writes and reads again, and others may send: runs, plans, recordings."""
    manifest = Manifest("eval", {"env": "toy"}, {"split": "a"}, id="x", fingerprint="y")
    plan = plans.PlanFile("toy", "wash", "train", "Wash it.", ("1",), ("1",), {}, {}, 0, "r")
    division = demonstrations.Division("wash it", "a sink", "Step 1: wash it")
    request = Request("m", (Message("user", "hello"),), sampling=Sampling(), max_tokens=5)
    call = Call(request.key, "llm", request, "word", "stop", Usage(1, 2, 0, 3))
    known = {"http://host": {"m": {"structured": "json_schema"}}}
    prices = {"models": {"m": [1, 0.5, 2.0]}}
    (folder / "sound").mkdir()
    rounds = {"1": [{"plan": ["Step 1: wash it"], "done": 1, "description": "It is done."}]}
    forest = small_forest(folder / "sound" / "h.npz")
    (folder / "sound" / "llm.jsonl").write_bytes(_written(call))
    priced = f"llm usage {folder / 'sound'} --prices FILE"

    def unpacked(path: Path) -> Iterable[object]:
        target = path.parent / "unpacked"
        count = unpack(path, target)
        written = [one for one in target.rglob("*") if one.is_file()]
        if any(target not in one.resolve().parents for one in written):
            raise AssertionError("something was written elsewhere")
        return [count]

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/game.tw-pddl", "hello " * 50)
        made.writestr("b.txt", "b")
    return [
        Subject(
            "run",
            "run.json",
            _written(manifest),
            lambda p: [open_run(str(p.parent), p.parent)],
            commands=(
                "runs list --runs PARENT",
                "runs tree FOLDER",
                "compare FOLDER FOLDER",
                "runs show FOLDER",
                "report FOLDER -o NEW",
            ),
        ),
        Subject(
            "plan", "p.json", _written(plan), lambda p: [plans.read(p), plans.digest(p.parent)]
        ),
        Subject("plans", "d.json", b'{"1": "Do it."}', lambda p: [demonstrations._plans(p)]),
        Subject("divisions", "d.jsonl", _written(division), demonstrations._divisions),
        Subject("rounds", "d.rounds.json", _text(rounds), lambda p: [styles._read(p)]),
        Subject("horizon model", "h.npz", forest.read_bytes(), lambda p: [HorizonModel.load(p)]),
        *_presets(manifest),
        Subject(
            "calls",
            "llm.jsonl",
            _written(call) + _written(call),
            scan_calls,
            True,
            torn_tail=True,
            commands=("llm usage FILE",),
        ),
        Subject("capabilities", "c.json", _text(known), lambda p: [CapabilityStore(p).get("m")]),
        Subject("prices", "p.json", _text(prices), lambda p: [load_prices(p)], commands=(priced,)),
        Subject("zip", "a.zip", archive.getvalue(), unpacked),
    ]


def _batches() -> list[Subject]:
    """What is written down of calls in a batch, and the file of replies to them."""
    request = Request("m", (Message("user", "hello"),), max_tokens=5)
    waiting = PendingCall(request.key, "llm", request, 5)
    batch = Submission("t", "http://host", 1, Capabilities(), 1.0, "file", "batch")
    choice = {"message": {"content": "word"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 2, "completion_tokens": 3}
    response = {"status_code": 200, "body": {"choices": [choice], "usage": usage}}
    line = {"custom_id": request.key, "response": response, "error": None}

    def answered(path: Path) -> Iterable[object]:
        calls = [answered_call(waiting, one, batch) for one in objects_in(path.read_bytes())]
        return [call or Problem("reply", 1, "", "none") for call in calls]

    return [
        Subject("open batch", "b.json", _written(batch), lambda p: [read_submission(p)]),
        Subject(
            "calls of a batch", "b.jsonl", _written(waiting), lambda p: records.read(p, PendingCall)
        ),
        Subject("replies of a batch", "r.jsonl", _text(line), answered),
    ]


PLANNED = b'mine({"log": 3}, null); # step 1\nStep 2: craft 4 planks from 1 log\n'
PROGRAM = b'while not inventory.has({"log": 2}):\n    mine(obj="log", tool=None)\n'


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

    vocabulary = Vocabulary.of(WORKSHOP)

    def planned(path: Path) -> Iterable[object]:
        plan = Parser(vocabulary).plan(path.read_bytes().decode("utf-8", "replace"))
        return [Note("plan", 0, {"goals": [one.as_data() for one in plan.goals]})]

    def programmed(path: Path) -> Iterable[object]:
        counts = Counter[str]()

        def act(goal: Goal) -> None:
            counts[goal.item] += 1

        policy = Policy(vocabulary, lambda item, count: counts[item] >= count, act)
        try:
            policy.run(path.read_bytes().decode("utf-8", "replace"))
        except (Malformed, Unmet) as error:
            return [Problem("program", 1, "", str(error))]
        return [Note("program", 0, dict(counts))]

    answer = json.dumps({"thought": "go", "items": ["a", "b"], "score": 0.5}).encode()
    return [
        Subject("free reply", "r.txt", b"Think: I go.\nAct: go to desk 1\n", loose),
        Subject("plan reply", "p.txt", PLANNED, planned),
        Subject("program", "p.py", PROGRAM, programmed),
        Subject("JSON reply", "r.json", b'{"action": "go to desk 1"}', loose),
        Subject("form", "f.json", answer, form),
    ]
