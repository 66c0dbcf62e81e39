"""Measure what a memory that learns which facts matter is worth, in any world: a command a table.

    python benchmarks/relevance.py table babyai [--only TEXT] [--json FILE] [--folder FOLDER]
        [--worlds ../shared/worlds] [--data ../shared/data] [--draws 3] [--tasks N] [--curve FILE]

Tables: babyai, cooking, houses, minecraft, desk, alfworld, practice, webshop, home, training,
ablation, calibration, cost, curve. BabyAI needs minigrid, cooking and houses textworld
(`WORLDS/README.md`). What is recorded stays in FOLDER; memories and results as well, below the
digest of the code of `ldm`, so that a table is of one version and an interrupted one goes on.
--only takes the lines whose name has this text.

Rates have Wilson's 95 % intervals and, where the control played the same tasks, McNemar's exact
test; scores a bootstrap interval and the exact test of signs. The control recalls the same tuples
with their actions exchanged (`--control random`). Training and test tasks are disjoint.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ldm
from ldm.embed import load_embedder, with_disk_cache
from ldm.episode import Agent, Episode
from ldm.memory import environments
from ldm.policy import PolicyOptions
from ldm.run.builders import build_environment
from ldm.run.selection import select
from ldm.run.statistics import bootstrap, mcnemar, sign_flips, wilson
from ldm.types import Card, Trajectory, stable_seed
from tools.drawing import bars

ROOT = Path(__file__).resolve().parents[1]
Line = dict[str, Any]
#: The name of a line, and what measures it: not called where --only leaves it out.
Lines = Iterator[tuple[str, Callable[[], Line]]]
#: Tickets of a desk that are worked on, and the first one, for a test and for training.
TICKETS, TRAINED = (60, 100_000), (240, 50_000)
#: Training tasks of a world that are played beside the recorded ones.
UNRECORDED = 120
DESK, BANK = "support_desk", "benchmarks.bank_desk"
AGENTS: dict[str, dict[str, str]] = {
    "memory": {"name": "ldm"},
    "random tuples": {"name": "ldm", "control": "random"},
    "nearest neighbour": {"name": "benchmarks.relevance:Nearest"},
    "no memory": {"name": "ldm", "control": "none"},
}


class Nearest(Agent):
    """The nearest neighbour: the action of the most similar recorded step that is possible here."""

    name = "nearest"
    needs = ("memory",)
    Options = PolicyOptions

    def budget(self, card: Card) -> int:
        return 50

    def solve(self, episode: Episode) -> None:
        memory: Any = self._resources.memory
        with episode.trial() as now:
            while True:
                recalls = memory.retrieve(episode.goal, now.observation, 60)
                recalls.sort(key=lambda one: -one.similarity)
                actions = [one.tuple.action for one in recalls if not one.tuple.is_warning]
                listed = actions[:1] if now.admissible is None else now.admissible
                now = episode.act([*(one for one in actions if one in listed), *listed, ""][0])


def random_tuple(memory: Any, goal: str, observation: str, history: Sequence[Any]) -> str:
    """Return the action of a random tuple: the desk's agent that recalls at random."""
    (recall,) = memory.newest.sample(1, stable_seed("random", goal, len(history)))
    action: str = recall.tuple.action
    return action


@dataclass(frozen=True)
class Played:
    """An episode."""

    task: str
    kind: str
    success: bool
    score: float


@dataclass(frozen=True)
class World:
    """What is played: an environment, a memory, more options of `ldm.Evaluate`, and the goal."""

    env: Any
    memory: Callable[[], str]
    goal: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """Where things are, and what they are made from."""

    arguments: argparse.Namespace

    @cached_property
    def made(self) -> Path:
        """The folder of memories and results of this version of the code, without a part of it."""
        digest = hashlib.sha256()
        for path in sorted((ROOT / "ldm").rglob("*.py")):
            digest.update(path.read_bytes())
        made: Path = self.arguments.folder / digest.hexdigest()[:10] / self.arguments.part
        return made

    @property
    def runtime(self) -> ldm.Runtime:
        folder = self.arguments.folder
        folders = {"cache": folder / "compiled", "embeddings": folder / "vectors"}
        return ldm.Runtime(self.made / "runs", 1, **folders)

    @cached_property
    def embedder(self) -> Any:
        return with_disk_cache(load_embedder(), self.arguments.folder / "vectors")

    def recorded(self, name: str, script: str, *options: str) -> Path:
        """Return the episodes that a recorder of the worlds writes."""
        path: Path = self.arguments.folder / "recorded" / name / "train.jsonl"
        if not path.exists():
            command = [sys.executable, str(self.arguments.worlds / script), "--out", str(path)]
            modules = {"PYTHONPATH": f"{self.arguments.worlds}:{ROOT}"}
            subprocess.run(  # noqa: S603
                [*command, *options], check=True, stdout=sys.stderr, env=os.environ | modules
            )
        return path

    def imported(self, name: str, path: Path, least: float = 0.0) -> list[Trajectory]:
        """Return the episodes in files of any format, those with `least` score."""
        recorded = self.arguments.folder / "recorded" / f"{name}.jsonl"
        if not recorded.exists():
            recorded.parent.mkdir(parents=True, exist_ok=True)
            episodes = ldm.read_trajectories(path, strict=False)
            ldm.write_trajectories(recorded, [one for one in episodes if one.score >= least])
        return ldm.read_trajectories(recorded)

    def memory(self, name: str, data: Any, **options: Any) -> str:
        """Return the place of a memory of episodes."""
        place = self.made / "memories" / name
        done = place.with_name(f"{name}.done")
        if not done.exists():
            built = ldm.Build(rebuild=True, **options)
            ldm.build_memory(data, str(place), built, runtime=self.runtime)
            done.touch()
        return str(place)

    def shipped(self, env: str) -> World:
        """Return a world whose episodes come with the project."""
        return World(env, lambda: self.memory(env, ROOT / "data" / "trajectories" / env, env=env))

    def stored(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a figure of this version of the code, which is measured once."""
        path = self.made / "results" / f"{name}.json"
        if not path.exists():
            content = json.dumps(make())
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    def played(self, name: str, world: World, agent: str = "memory", **more: Any) -> list[Played]:
        """Return the episodes of an agent on the tasks of a split."""
        options = {**world.options, "agent": AGENTS[agent], **more}
        if limit := self.arguments.tasks:
            name, options = f"{name}, {limit}", {**options, "limit": limit}

        def play() -> list[dict[str, Any]]:
            spec = ldm.Evaluate(world.env, memory=world.memory(), **options)
            results = ldm.evaluate(spec, runtime=self.runtime).results
            return [asdict(Played(x.task.id, x.task.kind, x.success, x.score)) for x in results]

        return [Played(**one) for one in self.stored(f"{name}, {agent}", play)]

    def compared(self, name: str, world: World) -> Line:
        """Return a line: the memory against random tuples."""
        mine, control = (self.played(name, world, agent) for agent in list(AGENTS)[:2])
        return success_line(mine, control, world.goal)

    def demonstrated(self, name: str, env: Mapping[str, str], goal: str, *script: str) -> World:
        """Return a world of which a recorder shows its expert's episodes."""

        def memory() -> str:
            return self.memory(name, self.recorded(name, *script), env=env)

        return World(env, memory, goal, {"split": "test"})

    def worlds(self) -> dict[str, World]:
        """Return the worlds in which possible actions are listed, by the names of their lines."""
        room = {"name": "babyai:BabyAI"}
        known = {"BabyAI": self.demonstrated("babyai", room, "≥ 95 %", "record_babyai.py")}
        room = {"name": "benchmarks.babyai_levels:BabyAI"}
        script = str(ROOT / "benchmarks" / "babyai_levels.py")
        known["other levels of BabyAI"] = self.demonstrated("levels", room, "", script)
        games = str(self.arguments.folder / "games")
        levels = str(ROOT / "benchmarks" / "cooking_levels.py")
        for wording, goal in (("recipe", "≥ 90 %"), ("plain", "≥ 60 %")):
            kitchen = {"name": "cooking:Cooking", "goal": wording, "folder": games}
            script = ("record_cooking.py", "--goal", wording, "--games", games)
            name = f"cooking, {wording}"
            known[name] = self.demonstrated(f"cooking-{wording}", kitchen, goal, *script)
            house = {**kitchen, "name": "benchmarks.cooking_levels:Cooking"}
            name = f"houses, {wording}"
            known[name] = self.demonstrated(f"houses-{wording}", house, "", levels, *script[1:])
        for split in ("test", "test_worlds"):
            one = replace(self.shipped("minecraft"), options={"split": split}, goal="+15 points")
            known[f"Minecraft, {split}"] = one
        for seed in range(self.arguments.draws):
            for count, goal in ((2, "≥ 70 %"), (4, "≥ 83 %"), (10, "≥ 89 %"), (30, "≥ 93 %")):
                if not seed or count in (2, 10):
                    name = f"ALFWorld, {6 * count} listed, draw {seed}"
                    known[name] = self.alfworld("replay_episodes", count, seed, goal)
        known["ALFWorld, 1,200"] = self.alfworld("expert_trajectories_train", 0, 0, "≥ 96 %")
        for env, goal, options in (
            ("hotpotqa", "80.0 %", {"split": "demo_test"}),
            ("textcraft", "0 %", {"limit": 24}),
            ("tabletop", "90.0 %", {"split": "test100"}),
            ("webshop", "score 0.924", {"split": "demo_test"}),
        ):
            known[f"home, {env}"] = replace(
                self.shipped(env), options=options, goal=f"not below {goal}"
            )
        return known

    def alfworld(self, name: str, count: int, seed: int, goal: str) -> World:
        """Return ALFWorld with so many episodes of each kind, drawn as in `learning.py`; 0: all."""
        data = self.arguments.data.resolve() / "alfworld"
        env = {"name": "alfworld", "data": str(data)}

        def memory() -> str:
            recorded = self.imported(name, data / f"{name}.jsonl")
            chosen: list[Trajectory] = [] if count else recorded
            for kind in sorted({one.task.kind for one in recorded}) if count else ():
                of = sorted((one for one in recorded if one.task.kind == kind), key=lambda t: t.id)
                chosen += random.Random(stable_seed(seed, kind)).sample(of, count)
            return self.memory(f"alfworld-{name}-{count}-{seed}", chosen, env=env)

        return World(env, memory, goal, {"split": "valid_seen"})


def rated(successes: Sequence[bool]) -> str:
    """Return a rate with its interval."""
    low, high = wilson(sum(successes), len(successes))
    return f"{100 * mean(successes):.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def paired(first: Sequence[bool], second: Sequence[bool]) -> str:
    """Return how many tasks only the first and only the second solved, with the exact test."""
    won = sum(a > b for a, b in zip(first, second, strict=True))
    lost = sum(a < b for a, b in zip(first, second, strict=True))
    return f"{won} : {lost}, p = {mcnemar(won, lost):.2g}"


def success_line(mine: Sequence[Played], other: Sequence[Played], goal: str) -> Line:
    """Return the cells of two agents that played the same tasks, and the goal."""
    won, control = ([one.success for one in played] for played in (mine, other))
    gains = np.array([a.score - b.score for a, b in zip(mine, other, strict=True)])
    kinds: dict[str, list[bool]] = defaultdict(list)
    for one in mine:
        kinds[one.kind].append(one.success)
    scores = [one.score for one in mine]
    low, high = bootstrap(scores) if np.ptp(scores) else (scores[0], scores[0])
    signs = sign_flips(np.sign(gains))
    return {
        "tasks": len(mine),
        "memory": rated(won),
        "random tuples": rated(control),
        "paired": paired(won, control),
        "score": f"{mean(scores):.3f} ({low:.3f}–{high:.3f})",
        "more": f"{gains.mean():+.3f}, p = {signs:.2g}",
        "by kind": ", ".join(f"{kind} {sum(of)}/{len(of)}" for kind, of in kinds.items()),
        "goal": goal,
        "episodes": [asdict(one) for one in mine],
    }


def playing(beginning: str, bench: Bench) -> Lines:
    """Worlds with lists of possible actions, the memory against random tuples."""
    for name, world in bench.worlds().items():
        if name.startswith(beginning):
            yield name, partial(bench.compared, name, world)


def practice(bench: Bench) -> Lines:
    """ALFWorld, valid_seen, before and after a round of practice on the 180 training games."""
    for seed in range(bench.arguments.draws):
        for count in (2, 4, 10):
            name = f"ALFWorld, {6 * count}, draw {seed}"
            world = bench.alfworld("expert_trajectories_train", count, seed, "≥ 94 %")
            yield name, partial(_practised, bench, name, world)


def _practised(bench: Bench, name: str, world: World) -> Line:
    def practise() -> float:
        start = time.perf_counter()
        spec = ldm.Refine(world.env, "train", limit=180, reuse_goals=True, memory=world.memory())
        ldm.refine(spec, runtime=bench.runtime)
        return time.perf_counter() - start

    before = bench.played(f"{name}, before", world, generation=0)
    seconds = bench.stored(f"{name}, practice", practise)
    line = success_line(bench.played(f"{name}, after", world), before, world.goal)
    line["memory"] = f"{line.pop('random tuples')} → {line['memory']}"
    return line | {"practice": f"{seconds:.0f} s"}


def webshop(bench: Bench) -> Lines:
    """WebShop: 50 people's sessions and 179 agent episodes."""
    data = bench.arguments.data.resolve() / "webshop"

    def memory() -> str:
        people = bench.imported("webshop-people", data / "human_sessions")
        agents = bench.imported("webshop-agents", data / "react_episodes.jsonl", least=1.0)
        return bench.memory("webshop-1000", [*people, *agents], failures="keep")

    options = {"split": "test", "tasks": tuple(f"test/{i}" for i in range(500))}
    env = {"name": "webshop", "data": str(data)}
    name, world = "WebShop, test 0–499", World(env, memory, "score ≥ 0.81", options)
    yield name, partial(bench.compared, name, world)


def desk(bench: Bench) -> Lines:
    """Support desk and bank: what `desk_benchmark.py` measures."""
    for world, episodes, mode, goal in (
        (DESK, 200, "short", "≥ the reference"),
        (DESK, 800, "short", "≥ the reference"),
        (DESK, 200, "long", "≥ 40 %"),
        (BANK, 200, "short", "≥ the reference"),
        (BANK, 500, "short", "≥ the reference"),
    ):
        yield f"{world}, {episodes} {mode}", partial(_desk, bench, world, episodes, mode, goal)


def training(bench: Bench) -> Lines:
    """Training tasks that are not recorded, by which constants and mechanisms are chosen."""
    for name, world in bench.worlds().items():
        recorded = name.startswith(("ALFWorld, 180", "ALFWorld, 1,200"))  # no task is left
        if name.startswith(("BabyAI", "other", "ALFWorld")) and not recorded:
            yield name, partial(_unrecorded, bench, name, world)
    for desk, episodes, mode in (
        (DESK, 200, "short"), (DESK, 400, "short"), (DESK, 800, "short"), (DESK, 200, "long"),
        (BANK, 200, "short"), (BANK, 500, "short"),
    ):  # fmt: skip
        measure = partial(_desk, bench, desk, episodes, mode, "", TRAINED)
        yield f"{desk}, {episodes} {mode}", measure


def _unrecorded(bench: Bench, name: str, world: World) -> Line:
    """Return a line on training tasks that are not recorded, as many of each kind."""
    place = world.memory()
    recorded = ldm.Memory.open(place, environments(place)[0]).contents.sources()
    with closing(build_environment(ldm.Evaluate(world.env).env)) as env:
        tasks = [one for one in env.tasks("train") if one.leak_key not in recorded]
    chosen = tuple(one.id for one in select(tasks, limit=UNRECORDED))
    options = {"split": "train", "tasks": chosen}
    return bench.compared(f"training, {name}", replace(world, options=options, goal=""))


def tickets_closed(world: Any, agent: Any, count: int, mode: str, drift: bool) -> list[bool]:
    """Return which tickets an agent closes rightly."""
    closed = []
    for ticket in world.unseen_worlds(count, mode=mode, drift=drift):
        while not ticket.over:
            call = agent(ticket.goal, ticket.observation, tuple(ticket.history))
            ticket.step(world.filled(call, ticket))
        closed.append(bool(ticket.success))
    return closed


def _desk(
    bench: Bench, world: str, episodes: int, mode: str, goal: str, drawn: tuple[int, int] = TICKETS
) -> Line:
    count, first = drawn

    def measure() -> dict[str, Any]:
        module, closed = importlib.import_module("desk_benchmark"), list[list[bool]]()
        desk = importlib.import_module(world)
        unseen = partial(desk.unseen_worlds, first=first)

        def success(*given: Any) -> float:
            closed.append(tickets_closed(*given))
            return mean(closed[-1])

        options = argparse.Namespace(
            folder=bench.made / f"desk-{mode}", world=world, episodes=[episodes],
            tickets=count, mode=mode, drifted=False, no_drift=True,
            agent="benchmarks.relevance:random_tuple", vectors=bench.arguments.folder / "vectors",
        )  # fmt: skip
        with patch.object(module, "success", success), patch.object(desk, "unseen_worlds", unseen):
            rows = module.measure(options)["rows"]
        rows.pop("random")
        decisive = {name: row[str(episodes)]["decisive"] for name, row in rows.items()}
        return {"closed": dict(zip(rows, closed, strict=True)), "decisive": decisive}

    measured = bench.stored(f"{world}, {episodes} {mode}, {first}", measure)
    closed = measured["closed"]
    best, base = (
        max((name for name in closed if name.startswith(begin)), key=lambda one: sum(closed[one]))
        for begin in ("ldm", "base")
    )
    control, reference = closed["own agent"], closed["learned reference"]
    return {
        "tasks": count,
        "memory": f"{rated(closed[best])}, {best.removeprefix('ldm + ')}",
        "random tuples": rated(control),
        "paired": paired(closed[best], control),
        "nearest": rated(closed[base]),
        "reference": rated(reference),
        "against it": paired(closed[best], reference),
        "decisive step: memory, nearest, reference": ", ".join(
            f"{measured['decisive'][name]:.2f}" for name in (best, base, "learned reference")
        ),
        "goal": goal,
        "episodes": {"memory": closed[best], "random tuples": control,
                     "nearest neighbour": closed[base]},
    }  # fmt: skip


def curve(bench: Bench) -> Lines:
    """One picture: five worlds, memory against random tuples against the nearest neighbour."""
    yield "five worlds", lambda: _curve(bench)


def _curve(bench: Bench) -> Line:
    names = {"BabyAI": "BabyAI", "cooking": "cooking, plain", "Minecraft": "Minecraft, test",
             "ALFWorld": "ALFWorld, 24 listed, draw 0"}  # fmt: skip
    worlds, desks = bench.worlds(), _desk(bench, DESK, 800, "short", "")["episodes"]
    drawn, cells = defaultdict[str, dict[str, Any]](dict), Line()
    for agent in desks:
        solved = {
            world: [one.success for one in bench.played(name, worlds[name], agent)]
            for world, name in names.items()
        } | {"desk": desks[agent]}
        for world, one in solved.items():
            drawn[world][agent] = (mean(one), *wilson(sum(one), len(one)))
        cells[agent] = ", ".join(f"{world} {rated(one)}" for world, one in solved.items())
    picture = bars(drawn, "What a memory is worth in five worlds", "Tasks solved in per cent")
    bench.arguments.curve.write_text(picture, encoding="utf-8")
    return cells


TABLES: dict[str, Callable[[Bench], Lines]] = {
    "babyai": partial(playing, "BabyAI"),
    "cooking": partial(playing, "cooking"),
    "houses": partial(playing, "houses"),
    "minecraft": partial(playing, "Minecraft"),
    "desk": desk,
    "alfworld": partial(playing, "ALFWorld"),
    "practice": practice,
    "webshop": webshop,
    "home": partial(playing, "home"),
    "training": training,
    "curve": curve,
}


def main() -> None:
    """Print a Markdown table, a line as soon as it is measured."""
    from benchmarks import rule

    tables = {**TABLES, **rule.TABLES}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table", help="print a table")
    table.add_argument("name", choices=list(tables))
    table.add_argument("--only", default="", help="the lines whose name has this text")
    table.add_argument("--json", type=Path, help="also write the figures to this file")
    table.add_argument("--curve", type=Path, default=ROOT / "docs" / "lab" / "worlds.svg")
    without = commands.add_parser("without", help="print as JSON what is solved without a part")
    without.add_argument("name")
    for each in (table, without):
        each.add_argument("--folder", type=Path, default=Path(".ldm/relevance"))
        each.add_argument("--worlds", type=Path, default=ROOT.parent / "shared" / "worlds")
        each.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
        each.add_argument("--draws", type=int, default=3, help="of ALFWorld's recorded episodes")
        each.add_argument("--tasks", type=int, default=0, help="play only so many, for a trial")
        each.add_argument(
            "--part", default="", choices=["", *rule.PARTS], help="what is taken away"
        )
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    sys.path.insert(0, str(arguments.worlds))
    bench, lines = Bench(arguments), dict[str, Line]()
    if arguments.command == "without":
        print(json.dumps(rule.solved_without(bench, arguments.name, arguments.part)))
        return
    for name, measure in tables[arguments.name](bench):
        if arguments.only in name:
            lines[name] = measure()
            cells = {key: str(value) for key, value in lines[name].items() if key != "episodes"}
            if len(lines) == 1:
                print(f"| | {' | '.join(cells)} |\n|---{'|---' * len(cells)}|")
            print(f"| {name} | {' | '.join(cells.values())} |", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
