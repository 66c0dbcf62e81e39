"""Twelve uses of the command line and the public API, each reduced to digests of its results.

tests/golden/behaviour.json holds the digests; `--update-goldens` rewrites those of the scenarios
that run. Each test writes what it digested into its temporary directory, to be compared with that
of another commit: `pytest --basetemp DIR -o tmp_path_retention_policy=all`. LDM_BEHAVIOUR_WORKERS
sets the number of workers.

Times, paths, run ids, costs and empty fields are left out, so the digests depend on neither the
names of options nor the layout of files. The bundled embedder is used: on another processor its
last digits may differ, and with them the digests of recalls, notes and searches.
"""

import base64
import gzip
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ldm
from ldm.llm import Message
from tests.agents import cook
from tests.agents.decomposition.ideal import halving
from tests.cases import cases
from tests.cli.conftest import run as run_command
from tests.conftest import CHECKOUT
from tests.llm.server import Behaviour, FakeServer, fitting
from tests.toy import ToyEnv, ToyOptions, expert, expert_trajectories

pytestmark = pytest.mark.slow

DATA = CHECKOUT / "data" / "trajectories"
GOLDEN = CHECKOUT / "tests" / "golden" / "behaviour.json"
WORKERS = f"--workers {os.environ.get('LDM_BEHAVIOUR_WORKERS', '1')}"
HOUSE = f"--env alfworld --split demo_test {WORKERS}"
EXPLORE = f"refine --env alfworld --split demo_explore {WORKERS}"
SHED = f"--env tests.toy:ToyEnv --env.tasks 6 --env.shelves 8 --limit 4 {WORKERS}"
COMMANDS: dict[str, str] = {
    name: command.replace("{HOUSE}", HOUSE).replace("{EXPLORE}", EXPLORE).replace("{SHED}", SHED)
    for name, command in cases(__file__, "commands").items()
}

#: Fields that differ from run to run.
LEFT_OUT = {"seconds", "usage"}
Facts = dict[str, Any]


def filled(name: str, **names: object) -> str:
    return COMMANDS[name].format(DATA=DATA, WORKERS=WORKERS, **names)


def ldm_main(name: str, *more: str, **names: object) -> tuple[str, str]:
    """Run a command in this process; return its standard output and standard error."""
    outcome = run_command(*filled(name, **names).split(), *more).done()
    return outcome.out, outcome.err


def play(name: str, **names: object) -> Facts:
    """Run an evaluation and return what it recorded; its runs are moved to the folder `name`."""
    ldm_main(name, **names)
    Path("runs").rename(name)
    return recorded(Path(name))


# Reducing results to facts


def reduced(value: Any) -> Any:
    """Return a JSON value without LEFT_OUT, empty fields, keys of model calls and tracebacks."""
    match value:
        case {"kind": "calls"}:
            return {}
        case {"error": str(error), **others} if "\n" in error:
            return reduced({**others, "error": error.strip().rpartition("\n")[2]})
        case dict():
            fields = {key: reduced(field) for key, field in value.items() if key not in LEFT_OUT}
            return {key: field for key, field in fields.items() if field}
        case list() | tuple():
            return [reduced(item) for item in value]
        case float():
            return int(value) if value.is_integer() else round(value, 4)
    return value


def canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def in_order(values: Sequence[Any]) -> list[Any]:
    return sorted(map(reduced, values), key=canonical)


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def recorded(folder: Path) -> Facts:
    """Return the results, notes, steps and recalls of all runs below a folder."""
    results, notes, steps, recalls = [], [], [], []
    for file in folder.rglob("episodes.jsonl"):
        for episode in lines(file):
            notes.append([episode["task"]["id"], episode.pop("notes", [])])
            results.append(episode)
        for trial in lines(file.with_name("trajectories.jsonl")):
            recalled = [
                (one.pop("recalls", None) or [], one.pop("followed", None) or [])
                for one in trial["steps"]
            ]
            steps.append(trial)
            recalls.append([trial["task"]["id"], recalled])
    facts = {"results": results, "notes": notes, "steps": steps, "recalls": recalls}
    return {name: in_order(values) for name, values in facts.items()}


def formed(env: str) -> Facts:
    """Return the tuples of the memory, and the batch and the types that each belongs to."""
    ldm_main("export", file="export.jsonl", env=env)
    rows = [line["tuple"] for line in lines(Path("export.jsonl")) if line["tuple"]]
    tuples = [reduced(row.pop("tuple")) for row in rows]
    places = [[digest(one), row] for one, row in zip(tuples, rows, strict=True)]
    return {"tuples": in_order(tuples), "places": in_order(places)}


def explored(name: str, **names: object) -> Facts:
    """Refine the memory; return the trees and the tuples that it holds then."""
    ldm_main(name, **names)
    Path("runs").rename(name)
    (trees,) = Path(name).rglob("trees.jsonl")
    (env,) = {goal["task"]["env"] for goal in lines(trees)}
    return {"trees": in_order(lines(trees)), **formed(env)}


def named(name: str, facts: Facts) -> Facts:
    return {f"{name}: {kind}": fact for kind, fact in facts.items()}


# Models


@contextmanager
def model(answer: Callable[[list[str], Facts], str]) -> Iterator[Facts]:
    """Serve a model; the yielded facts hold in the end which prompts and forms it was sent.

    answer: returns the reply to the texts of a conversation and to a form, empty if none is asked.
    """

    def reply(body: dict[str, Any]) -> str:
        form = body.get("response_format", {}).get("json_schema", {}).get("schema")
        texts = [message["content"] for message in body["messages"]]
        if len(texts) == 1:  # a probe
            return json.dumps(fitting(form)) if form else "Hello."
        return answer(texts, fitting(form) if form else {})

    asked: Facts = {}
    with FakeServer(Behaviour(answer=reply)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.url)
        patch.setenv("OPENAI_API_KEY", "none")
        yield asked
    bodies = [body for body in server.bodies if len(body["messages"]) > 1]
    for name, field in (("prompts", "messages"), ("forms", "response_format")):
        asked[name] = sorted({canonical(body[field]) for body in bodies if field in body})


def ways() -> dict[str, tuple[str, ...]]:
    """Return goal → actions that achieve it, for the tasks of the shed."""
    tasks = ToyEnv(ToyOptions(tasks=6, shelves=8)).tasks("test")
    return {task.goal: expert(task, 8) for task in reversed(tasks)}


def handy(texts: list[str], form: Facts) -> str:
    """Take a possible action where they are listed; else think once, then do what is right."""
    question = texts[-1]
    if "action" in form:
        listed = question.partition("<possible-actions>\n")[2].partition("\n<")[0].split("; ")
        done = question.partition("<done>")[2].partition("</done>")[0].count("\n")
        own = {"choice": 0, "then": []} if "choice" in form else {}
        return json.dumps({**form, **own, "action": listed[7 * done % len(listed)]})
    if form:
        return json.dumps(form)
    goal = question.rpartition("<task>\n")[2].partition("\n</task>")[0]
    so_far = question.rpartition("<so-far>")[2]
    if "\nThink: " not in so_far:
        return "Think: I search shelf by shelf."
    actions, done = ways()[goal], so_far.count("\nAct: ")
    return f"Act: {actions[min(done, len(actions) - 1)]}"


def dividing(texts: list[str], form: Facts) -> str:
    """Divide each task in two, and the second part once more."""
    return halving(ways()).reply([Message("user", text) for text in texts])


#: What a planner replies: its first plan, then one for each that failed.
CRAFTING = (
    """mine({"oak_log": 3}, null); # step 1
craft({"oak_planks": 12}, {"oak_log": 3}, null); # step 2
craft({"stick": 4}, {"oak_planks": 2}, null); # step 3
mine({"cobblestone": 2}, null); # step 4""",
    """craft({"crafting_table": 1}, {"oak_planks": 4}, null);
craft({"wooden_pickaxe": 1}, {"oak_planks": 3, "stick": 2}, "crafting_table");
mine({"cobblestone": 2}, "wooden_pickaxe");""",
    'craft({"stone_sword": 1}, {"cobblestone": 2, "stick": 1}, "crafting_table");',
)


def crafting(texts: list[str], form: Facts) -> str:
    """Plan as in CRAFTING."""
    if "You find out why" in texts[0]:
        return "Something is missing."
    return CRAFTING[min(texts[-1].count("<plan>"), len(CRAFTING) - 1)]


# Scenarios, each in an empty directory


class Mortal(ToyEnv):
    """A shed that kills its process at the fifth task, once, if there is a file `doomed`."""

    def reset(self, task: ldm.Task) -> ldm.TimeStep:
        doomed = Path("doomed")
        if task == self.tasks(task.split)[4] and doomed.exists():
            doomed.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(task)


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Configure nothing, and install a stranger's package, for worker processes, too."""
    site, package = tmp_path_factory.mktemp("site"), CHECKOUT / "tests" / "thirdparty"
    announce("ldm-post-office", package / "pyproject.toml", site)
    with pytest.MonkeyPatch.context() as patch:
        for place in (package, site):
            patch.syspath_prepend(place)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (*sys.path, str(CHECKOUT)))))
        yield


def announce(name: str, project: Path, site: Path) -> None:
    """Write the entry points of a project into a folder, as installing it would."""
    points = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    with (folder / "entry_points.txt").open("w") as file:
        for group, targets in points.items():
            file.write(f"[{group}]\n")
            file.writelines(f"{point} = {target}\n" for point, target in targets.items())


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a memory of three environments, and an evaluation of it with a control."""
    place = tmp_path_factory.mktemp("house")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        ldm_main("build")
        play("house")
    return place


Use = Callable[[], None]


def build(use_house: Use) -> Facts:
    use_house()
    facts: Facts = {}
    for env, goal, seen in (
        ("alfworld", "put a hot egg in the fridge", "You see a microwave 1."),
        ("hotpotqa", "Which river is longer, the Oder or the Elbe?", "Search for something."),
        ("webshop", "red shoes, price lower than 50.00 dollars", "[Search]"),
    ):
        recalls = json.loads(ldm_main("search", goal, seen, env=env)[0])["recalls"]
        facts |= named(env, {**formed(env), "search": reduced(recalls)})
    return facts


def evaluate(use_house: Use) -> Facts:
    use_house()
    facts = named("house", recorded(Path("house")))
    for name in ("house by batch", "shop", "wiki"):
        facts |= named(name, play(name))
    return facts


def evaluate_with_a_recorded_model(use_house: Use) -> Facts:
    ldm.write_trajectories("shed.jsonl", expert_trajectories(options=ToyOptions(4, 8)))
    ldm_main("build from", file="shed.jsonl")
    facts: Facts = {}
    for name in ("react", "always", "unsure"):
        with model(handy) as asked:
            played = play(name)
        (run,) = Path(name).iterdir()
        assert play(f"{name} again", run=run) == played
        facts |= named(name, {**played, **asked})
    return facts


def refine(use_house: Use) -> Facts:
    use_house()
    shutil.copytree(".ldm", "kept")
    facts = named("without the gate", explored("explore"))
    shutil.rmtree(".ldm")
    Path("kept").rename(".ldm")
    return facts | named("with the gate", explored("explore with the gate"))


def autoplan(use_house: Use) -> Facts:
    with model(lambda texts, form: cook.answer(texts)) as asked:
        ldm_main("autoplan")
        shutil.rmtree("runs")
        played = play("planned")
    (file,) = Path("plans").glob("*.json")
    plan = json.loads(file.read_text("utf-8"))
    facts = {name: reduced(plan[name]) for name in ("plan", "pool", "sources", "iterations")}
    return {**facts, **played, **asked}


def adapt(use_house: Use) -> Facts:
    with model(dividing) as asked:
        played = play("adapt")
    return {**played, **asked}


def deps(use_house: Use) -> Facts:
    with model(crafting) as asked:
        played = play("deps")
    return {**played, **asked}


def resume_after_a_kill(use_house: Use) -> Facts:
    whole = play("mortal")
    Path("doomed").touch()
    command = [sys.executable, "-m", "ldm", *filled("mortal").split()]
    assert subprocess.run(command, capture_output=True, check=False).returncode
    assert not Path("doomed").exists()
    (run,) = Path("runs").iterdir()
    ldm_main("resume", run=run)
    assert recorded(Path("runs")) == whole
    return whole


def house_and_control() -> tuple[Path, Path]:
    """Return the runs of the evaluation with a control; the control has less success."""
    run, control = sorted(Path("house").iterdir(), key=lambda run: -len(solved(run)))
    assert len(solved(run)) > len(solved(control))
    return run, control


def solved(run: Path) -> list[Any]:
    return [one["task"]["id"] for one in lines(run / "episodes.jsonl") if one["success"]]


def compare(use_house: Use) -> Facts:
    use_house()
    run, control = house_and_control()
    out, err = ldm_main("compare", run=run, other=control)
    figures = (
        *("env", "split", "episodes", "success_rate", "interval", "finished_rate", "by_kind"),
        *("mean_score", "mean_steps", "trials", "errors", "sees_reward"),
    )
    rates = [{name: one[name] for name in figures} for one in json.loads(out)["runs"]]
    (difference,) = (line for line in err.splitlines() if " − " in line)
    return {"rates": reduced(rates), "difference": re.findall(r"[-+]?\d+\.\d+", difference)}


def report(use_house: Use) -> Facts:
    """Return which of the recorded texts and tuple ids the listing and the page show."""
    use_house()
    run, control = house_and_control()
    listed = json.loads(ldm_main("show", run=run)[0])["episodes"]
    tasks = [episode["task"]["id"] for episode in listed]
    shown = [json.loads(ldm_main("show", task, run=run)[0]) for task in tasks]
    ldm_main("report", run=run, other=control)
    page = Path("page.html").read_text("utf-8")
    packed = re.findall(r'<script type="text/plain"[^>]*>([A-Za-z0-9+/=]+)</script>', page)
    data = [json.loads(gzip.decompress(base64.b64decode(one))) for one in packed]
    wanted = [lines(one / "trajectories.jsonl") for one in (run, control)]
    facts = {
        "shown": set(texts_in(shown)) & set(texts_in(wanted[0])),
        "page": set(texts_in(data)) & set(texts_in(wanted)),
    }
    return {"listed": in_order(listed), **{name: sorted(fact) for name, fact in facts.items()}}


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


def growing_memory(use_house: Use) -> Facts:
    facts = {}
    memory = ldm.Memory.open("desk", "desk", create=True)
    for number, subject in enumerate(("parcel", "invoice", "refund", "address", "password")):
        with memory.record(f"answer a question about the {subject}", "mail") as episode:
            episode.step(f"A customer asks about the {subject}.", f"look up the {subject}")
            episode.step(f"The {subject} is found.", "reply" if number else "wait")
            episode.finish(float(number > 0), "The customer is gone.")
        facts[f"after {number + 1}"] = recalls_of(memory)
    memory.close()
    with ldm.Memory.open("desk", "desk", create=True) as again:
        facts["opened again"] = recalls_of(again)
        again.fold()
        facts["folded"] = recalls_of(again)
    return facts


def recalls_of(memory: ldm.GrowingMemory) -> list[Any]:
    states = (("the refund is late", "A customer asks."), ("find an invoice", "It is found."))
    return [
        [
            [one.tuple.goal, round(one.similarity, 4), one.tuple.action]
            for one in memory.recall(*state)
        ]
        for state in states
    ]


def environment_of_a_stranger(use_house: Use) -> Facts:
    stranger = importlib.import_module("post_office.environment")
    ldm.write_trajectories("post.jsonl", stranger.expert_episodes())
    ldm_main("build from", file="post.jsonl")
    facts = named("explored", explored("post, explored"))
    for name in ("post", "post, room by room"):
        facts |= named(name, play(name))
    return facts


SCENARIOS = (
    build,
    evaluate,
    evaluate_with_a_recorded_model,
    refine,
    autoplan,
    adapt,
    deps,
    pytest.param(resume_after_a_kill, marks=pytest.mark.process),
    compare,
    report,
    growing_memory,
    environment_of_a_stranger,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_results_are_as_before(
    scenario: Callable[[Use], Facts],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)

    def use_house() -> None:
        shutil.copytree(request.getfixturevalue("house"), place, dirs_exist_ok=True)

    facts = scenario(use_house)
    for name, fact in facts.items():
        text = json.dumps(fact, indent=1, ensure_ascii=False, sort_keys=True)
        (tmp_path / f"{name.replace(':', ',')}.json").write_text(text, "utf-8")
    now = {name: digest(fact) for name, fact in facts.items() if fact}
    digests = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
    if request.config.getoption("--update-goldens"):
        digests[scenario.__name__] = now
        GOLDEN.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", "utf-8")
    before = digests.get(scenario.__name__, {})
    changed = sorted(name for name, _ in now.items() ^ before.items())
    assert not changed, f"changed: {', '.join(dict.fromkeys(changed))}; see {tmp_path}"
