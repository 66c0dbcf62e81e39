"""Measure what a memory that learns which facts matter is worth, in any world: a command a table.

    python benchmarks/relevance.py table babyai [--only TEXT] [--json FILE] [--folder FOLDER]
        [--worlds ../shared/worlds] [--data ../shared/data] [--draws 3] [--tasks 0] [--curve FILE]

Tables: desk, babyai, cooking, minecraft, alfworld, webshop, home, ablation, calibration, cost,
curve. BabyAI needs minigrid, cooking textworld (`WORLDS/README.md`). What is recorded stays in
FOLDER; memories and evaluations as well, below the digest of the code of `ldm`, so that a table is
of one version and an interrupted one goes on. --only takes the lines whose name has this text.

Rates have Wilson's 95 % intervals and, where the control played the same tasks, McNemar's exact
test; scores a bootstrap interval and the exact test of signs. The control recalls the same tuples
with their actions exchanged (`--control random`). Training and test tasks are disjoint.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import random
import re
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import ldm
from ldm.embed import load_embedder, with_disk_cache
from ldm.episode import Agent, Environment, Episode, run_episode
from ldm.memory.lessons import lessons_of
from ldm.policy import PolicyOptions
from ldm.reason import features, relevance, vocabulary
from ldm.reason.features import Situation
from ldm.reason.relevance import Ranking, learn
from ldm.reason.vocabulary import Lesson
from ldm.run.statistics import bootstrap, mcnemar, sign_flips, wilson
from ldm.types import Step, Task, Trajectory, stable_seed
from tools.drawing import svg

Line = dict[str, Any]
#: The name of a line and what measures it; it is not called where --only leaves it out.
Lines = Iterator[tuple[str, Callable[[], Line]]]
TICKETS, BINS, FOLDS = 60, 10, 3
#: Part that is taken away → the groups of features (`ldm.reason.features.GROUPS`) without weight.
PARTS = {
    "nothing": "",
    "reading of structure": "facts",
    "history": "deeds repeat phase",
    "slots": "filler lines agree relation",
    "the goal's things": "roles",
    "kinds of task": "kind",
}


@dataclass(frozen=True)
class Played:
    """An episode: task, kind, success, score and steps."""

    task: str
    kind: str
    success: bool
    score: float
    steps: int


class Nearest(Agent):
    """The nearest neighbour: the action of the most similar recorded step that is possible here."""

    name = "nearest"
    needs = ("memory",)
    Options = PolicyOptions

    def solve(self, episode: Episode) -> None:
        memory: Any = self._resources.memory
        with episode.trial() as now:
            while True:
                recalls = memory.retrieve(episode.goal, now.observation, 60)
                recalls.sort(key=lambda one: -one.similarity)
                actions = [one.tuple.action for one in recalls if not one.tuple.is_warning]
                listed = actions[:1] if now.admissible is None else now.admissible
                possible = [action for action in actions if action in listed]
                now = episode.act([*possible, *listed, ""][0])


@dataclass(frozen=True)
class Bench:
    """Where things are, and what they are made from."""

    arguments: argparse.Namespace

    @property
    def folder(self) -> Path:
        """Recordings and vectors."""
        folder: Path = self.arguments.folder
        return folder

    @cached_property
    def made(self) -> Path:
        """Memories and results of this version of the code."""
        digest = hashlib.sha256()
        for path in sorted((ROOT / "ldm").rglob("*.py")):
            digest.update(path.read_bytes())
        return self.folder / digest.hexdigest()[:10]

    @property
    def runtime(self) -> ldm.Runtime:
        return ldm.Runtime(self.made / "runs", 1, cache=self.folder / "compiled",
                           embeddings=self.folder / "vectors")  # fmt: skip

    def recorded(self, name: str, script: str, *options: str) -> Path:
        """Return the episodes that a recorder of the worlds writes."""
        path = self.folder / "recorded" / name / "train.jsonl"
        if not path.exists():
            command = [sys.executable, str(self.arguments.worlds / script), "--out", str(path)]
            subprocess.run([*command, *options], check=True, stdout=sys.stderr)  # noqa: S603
        return path

    def imported(self, name: str, *paths: Path, least: float = 0.0) -> list[Trajectory]:
        """Return the episodes in files of any format, those with `least` score."""
        path = self.folder / "recorded" / f"{name}.jsonl"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            found = ldm.read_trajectories(paths, strict=False)
            ldm.write_trajectories(path, [one for one in found if one.score >= least])
        return ldm.read_trajectories(path)

    def memory(self, name: str, data: Any, **options: Any) -> str:
        """Return the place of a memory of episodes."""
        place = self.made / "memories" / name
        if not place.with_suffix(".done").exists():
            built = ldm.Build(rebuild=True, **options)
            ldm.build_memory(data, str(place), built, runtime=self.runtime)
            place.with_suffix(".done").touch()
        return str(place)

    def stored(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a figure of this version of the code, which is measured once."""
        path = self.made / f"{name}.json"
        if not path.exists():
            content = json.dumps(make())
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    def played(self, name: str, memory: str, env: Any, **options: Any) -> list[Played]:
        """Return the episodes of an agent on the tasks of a split."""

        def play() -> list[dict[str, Any]]:
            spec = ldm.Evaluate(env, memory=memory, **options)
            results = ldm.evaluate(spec, runtime=self.runtime).results
            return [
                asdict(Played(x.task.id, x.task.kind, x.success, x.score, x.env_steps))
                for x in results
            ]

        if limit := self.arguments.tasks:
            name, options = f"{name}, {limit}", {**options, "limit": limit}
        return [Played(**one) for one in self.stored(f"played/{name}", play)]

    def compared(self, name: str, memory: str, env: Any, goal: str = "", **options: Any) -> Line:
        """Return a line: the memory against random tuples."""
        mine = self.played(name, memory, env, **options)
        agent = {"name": "ldm", "control": "random"}
        control = self.played(f"{name}, random", memory, env, agent=agent, **options)
        return success_line(mine, control, goal)


def success_line(mine: Sequence[Played], control: Sequence[Played], goal: str) -> Line:
    """Return the cells of two agents that played the same tasks, and the goal."""
    known = {one.task: one for one in control}
    pairs = [(one, known[one.task]) for one in mine if one.task in known]
    kinds: dict[str, list[bool]] = defaultdict(list)
    for one in mine:
        kinds[one.kind].append(one.success)
    return {
        "tasks": len(mine),
        "memory": rated([one.success for one in mine]),
        "random tuples": rated([one.success for one in control]),
        "paired": paired([(a.success, b.success) for a, b in pairs]),
        "score": f"{mean(one.score for one in mine):.3f}",
        "by kind": ", ".join(f"{kind} {sum(of)}/{len(of)}" for kind, of in kinds.items()),
        "goal": goal,
        "episodes": [asdict(one) for one in mine],
    }


def rated(successes: Sequence[bool]) -> str:
    """Return a rate with its interval."""
    if not successes:
        return "–"
    low, high = wilson(sum(successes), len(successes))
    return f"{100 * mean(successes):.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def paired(pairs: Sequence[tuple[bool, bool]]) -> str:
    """Return how many tasks only the first and only the second solved, with the exact test."""
    if not pairs:
        return "–"
    first, second = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    return f"{first} : {second}, p = {mcnemar(first, second):.2g}"


def desk(bench: Bench) -> Lines:
    """Support desk: the tables of `desk_benchmark.py`, 200 and 800 short, 200 long."""
    for episodes, mode, goal in (
        (200, "short", "≥ the reference"),
        (800, "short", "≥ the reference"),
        (200, "long", "≥ 40 %"),
    ):
        yield f"{episodes} {mode}", partial(_desk, bench, episodes, mode, goal)


def _desk(bench: Bench, episodes: int, mode: str, goal: str) -> Line:
    """Run the benchmark, keeping the outcome of each ticket, for the paired test."""

    def measure() -> dict[str, Any]:
        module, kept = importlib.import_module("desk_benchmark"), []

        def success(world: Any, agent: Any, tickets: int, mode: str, drift: bool) -> float:
            kept.append([])
            for ticket in world.unseen_worlds(tickets, mode=mode, drift=drift):
                while not ticket.over:
                    call = agent(ticket.goal, ticket.observation, tuple(ticket.history))
                    ticket.step(world.filled(call, ticket))
                kept[-1].append(bool(ticket.success))
            return mean(kept[-1])

        options = argparse.Namespace(
            folder=bench.made / f"desk-{mode}", world="support_desk", episodes=[episodes],
            tickets=TICKETS, mode=mode, drifted=False, no_drift=True, agent="benchmarks.relevance:random_tuple",
            vectors=bench.folder / "vectors",
        )  # fmt: skip
        with patch.object(module, "success", success):
            rows = module.measure(options)["rows"]
        names = [name for name in rows if name != "random"]
        outcomes = dict(zip(names, kept, strict=True))
        return {"outcomes": outcomes, "rows": {n: rows[n][str(episodes)] for n in rows}}

    measured = bench.stored(f"desk-{mode}-{episodes}", measure)
    won = measured["outcomes"]
    others = won["own agent"]
    best = max((name for name in won if name.startswith("ldm")), key=lambda name: sum(won[name]))
    base = max((name for name in won if name.startswith("base")), key=lambda n: sum(won[n]))
    reference = won["learned reference"]
    return {
        "tasks": TICKETS,
        "memory": f"{rated(won[best])}, {best.removeprefix('ldm + ')}",
        "random tuples": rated(others),
        "paired": paired([*zip(won[best], others, strict=True)]),
        "nearest": rated(won[base]),
        "reference": rated(reference),
        "against it": paired([*zip(won[best], reference, strict=True)]),
        "decisive": " / ".join(
            f"{measured['rows'][name]['decisive']:.2f}" for name in (best, base, "learned reference")
        ),
        "goal": goal,
        "episodes": won,
    }


def random_tuple(memory: Any, goal: str, observation: str, history: Sequence[Any]) -> str:
    """Return the action of a random tuple: the desk's agent that recalls at random."""
    seed = stable_seed("random", goal, len(history))
    action: str = memory.newest.sample(1, seed)[0].tuple.action
    return action


BABYAI = {"name": "babyai:BabyAI"}


def _cooking(bench: Bench, goal: str) -> dict[str, str]:
    folder = str(bench.folder / "games")
    return {"name": "cooking:Cooking", "goal": goal, "folder": folder}


def _babyai_memory(bench: Bench) -> str:
    return bench.memory("babyai", bench.recorded("babyai", "record_babyai.py"), env=BABYAI)


def _cooking_memory(bench: Bench, goal: str) -> str:
    options = ("--goal", goal, "--games", str(bench.folder / "games"))
    path = bench.recorded(f"cooking-{goal}", "record_cooking.py", *options)
    return bench.memory(f"cooking-{goal}", path, env=_cooking(bench, goal))


def babyai(bench: Bench) -> Lines:
    """BabyAI: three levels, 30 demonstrations each."""

    def line() -> Line:
        return bench.compared("babyai", _babyai_memory(bench), BABYAI, "≥ 95 %", split="test")

    yield "three levels", line


def cooking(bench: Bench) -> Lines:
    """Cooking: 48 demonstrations, the recipe in the goal, or in the cookbook."""
    for goal, aim in (("recipe", "≥ 90 %"), ("plain", "≥ 60 %")):

        def line(goal: str = goal, aim: str = aim) -> Line:
            env, memory = _cooking(bench, goal), _cooking_memory(bench, goal)
            return bench.compared(f"cooking-{goal}", memory, env, aim, split="test")

        yield goal, line


def _shipped(bench: Bench, env: str) -> str:
    return bench.memory(env, ROOT / "data" / "trajectories" / env, env=env)


def minecraft(bench: Bench) -> Lines:
    """Minecraft: the 39 shipped episodes."""
    for split in ("test", "test_worlds"):

        def line(split: str = split) -> Line:
            memory, aim = _shipped(bench, "minecraft"), "+15 points"
            return bench.compared(f"minecraft-{split}", memory, "minecraft", aim, split=split)

        yield split, line


def alfworld(bench: Bench) -> Lines:
    """ALFWorld, valid_seen: few recorded episodes with and without practice, and 1,200.

    Games that can be played again give the possible actions of their episodes (`listed`); practice
    starts from episodes that are recorded alone, as in `benchmarks/learning.py`.
    """
    env = _alfworld(bench)
    goals = {2: "≥ 70 %", 4: "≥ 83 %", 10: "≥ 89 %", 30: "≥ 93 %"}
    for seed in range(bench.arguments.draws):
        for count, goal in goals.items():
            if not seed or count in (2, 10):
                name = f"{6 * count} listed, draw {seed}"
                memory = partial(_drawn, bench, "replay_episodes", count, seed)
                yield name, partial(_on_alfworld, bench, name, memory, goal)
    yield "1,200", lambda: _on_alfworld(bench, "1200", lambda: _expert(bench), "≥ 96 %")
    for seed in range(bench.arguments.draws):
        for count in (2, 4, 10):
            name = f"{6 * count} practised, draw {seed}"
            yield name, partial(_practised, bench, name, count, seed, env)


def _alfworld(bench: Bench) -> dict[str, str]:
    return {"name": "alfworld", "data": str((bench.arguments.data / "alfworld").resolve())}


def _on_alfworld(bench: Bench, name: str, memory: Callable[[], str], goal: str) -> Line:
    return bench.compared(
        f"alfworld-{name}", memory(), _alfworld(bench), goal, split="valid_seen"
    )


def _expert(bench: Bench) -> str:
    name = "expert_trajectories_train"
    episodes = bench.imported(name, bench.arguments.data / "alfworld" / f"{name}.jsonl")
    return bench.memory("alfworld-1200", episodes)


def _drawn(bench: Bench, name: str, count: int, seed: int) -> str:
    """Return a memory of so many episodes of each kind, drawn as in `benchmarks/learning.py`."""
    recorded = bench.imported(name, bench.arguments.data / "alfworld" / f"{name}.jsonl")
    chosen: list[Trajectory] = []
    for kind in sorted({one.task.kind for one in recorded}):
        of_kind = sorted((one for one in recorded if one.task.kind == kind), key=lambda t: t.id)
        chosen += random.Random(stable_seed(seed, kind)).sample(of_kind, count)
    return bench.memory(f"alfworld-{name}-{count}-{seed}", chosen, env=_alfworld(bench))


def _practised(bench: Bench, name: str, count: int, seed: int, env: Any) -> Line:
    """Practise once on the 180 training games; the control is the memory before that."""
    memory = _drawn(bench, "expert_trajectories_train", count, seed)

    def practise() -> float:
        start = time.perf_counter()
        more = {"reuse_goals": True, "memory": memory}
        ldm.refine(ldm.Refine(env, "train", limit=180, **more), runtime=bench.runtime)
        return time.perf_counter() - start

    play = partial(bench.played, memory=memory, env=env, split="valid_seen")
    first = play(f"alfworld-{name}, before", generation=0)
    seconds = bench.stored(f"practice-{count}-{seed}", practise)
    line = success_line(play(f"alfworld-{name}, after"), first, "≥ 94 %")
    line["before practice"] = line.pop("random tuples")
    return line | {"practice": f"{seconds:.0f} s"}


def webshop(bench: Bench) -> Lines:
    """WebShop, test 0–499: 50 people's sessions and 179 agent episodes."""
    yield "test 0–499", lambda: _webshop(bench)


def _webshop(bench: Bench) -> Line:
    data = bench.arguments.data.resolve() / "webshop"
    people = bench.imported("webshop-people", data / "human_sessions")
    agents = bench.imported("webshop-agents", data / "react_episodes.jsonl", least=1.0)
    memory = bench.memory("webshop", [*people, *agents], failures="keep")
    env, tasks = {"name": "webshop", "data": str(data)}, tuple(f"test/{i}" for i in range(500))
    agent = {"name": "ldm", "control": "random"}
    mine = bench.played("webshop", memory, env, split="test", tasks=tasks)
    other = bench.played("webshop, random", memory, env, split="test", tasks=tasks, agent=agent)
    gains = np.array([a.score - b.score for a, b in zip(mine, other, strict=True)])
    low, high = bootstrap([one.score for one in mine])
    line = success_line(mine, other, "score ≥ 0.81")
    line["score"] += f" ({low:.3f}–{high:.3f}), random {mean(one.score for one in other):.3f}"
    signs = np.sign(gains).astype(int).tolist()
    return line | {"score paired": f"{gains.mean():+.3f}, p = {sign_flips(signs):.2g}"}


def home(bench: Bench) -> Lines:
    """What was measured before: HotpotQA, TextCraft, tabletop, our own shop."""
    for env, split, limit, goal in (
        ("hotpotqa", "demo_test", None, "80.0 %"),
        ("textcraft", "", 24, "0"),
        ("tabletop", "test100", None, "90.0 %"),
        ("webshop", "demo_test", None, "score 0.924"),
    ):
        options = {"split": split, "limit": limit}
        yield env, partial(_home, bench, env, goal, options)


def _home(bench: Bench, env: str, goal: str, options: Mapping[str, Any]) -> Line:
    return bench.compared(f"home-{env}", _shipped(bench, env), env, f"not below {goal}", **options)


def ablation(bench: Bench) -> Lines:
    """Parts taken away one by one, each in a process of its own, on three worlds."""
    for part in (*PARTS, "learnt weights", "evidence"):
        yield part, partial(_without, bench, part)


def _without(bench: Bench, part: str) -> Line:
    line: Line = {}
    for world in ("babyai", "recipe", "desk"):

        def measure(world: str = world) -> Any:
            options = ("--folder", bench.folder, "--worlds", bench.arguments.worlds)
            command = [sys.executable, __file__, "part", world, "--only", part, *options]
            done = subprocess.run(map(str, command), check=True, stdout=subprocess.PIPE)  # noqa: S603
            return json.loads(done.stdout)

        won = bench.stored(f"without/{part}-{world}", measure)
        whole = bench.stored(f"without/nothing-{world}", measure)
        line[world] = rated(won)
        line["lost : won"] = ""
        if part != "nothing":
            line[world] += f"; {paired([*zip(won, whole, strict=True)])}"
    return line


def part_alone(bench: Bench, world: str, part: str) -> list[bool]:
    """Return which tasks are solved without a part of the rule; learns and plays anew."""
    groups = [features.GROUPS.index(name) for name in PARTS.get(part, "").split()]
    features.SCALES[groups] = 0.0
    same = patch.object(vocabulary, "weight_of", lambda _: 1.0)
    name, agent = f"without {part}", {"name": "ldm"}
    if part == "learnt weights":
        agent["control"] = "none"
    with same if part == "evidence" else nullcontext():
        if world == "desk":
            return _desk_alone(bench, name, part)
        env = BABYAI if world == "babyai" else _cooking(bench, world)
        episodes = ldm.read_trajectories(_recorded(bench, world))
        memory = bench.memory(f"{world}, {name}", episodes, env=env)
    played = bench.played(f"{world}, {name}", memory, env, split="test", agent=agent)
    return [one.success for one in played]


def _desk_alone(bench: Bench, name: str, part: str) -> list[bool]:
    """Return which tickets are closed by a memory of 200 episodes that is formed at once."""
    world = importlib.import_module("support_desk")
    place = bench.memory(f"desk, {name}", _desk_episodes(), failures="contrast")
    embedder = with_disk_cache(load_embedder(), bench.folder / "vectors")
    memory = ldm.Memory.open(place, "desk", embedder=embedder, create=True)
    first_that_worked = importlib.import_module("desk_benchmark").first_that_worked
    known, won = part != "learnt weights", []
    for ticket in world.unseen_worlds(TICKETS):
        while not ticket.over:
            history = tuple(ticket.history) if known else ()
            recalls = memory.recall(ticket.goal, ticket.observation, 5, history)
            ticket.step(world.filled(first_that_worked(recalls), ticket))
        won.append(bool(ticket.success))
    return won


def _desk_episodes(count: int = 200) -> list[Trajectory]:
    """Return the desk's recorded episodes as trajectories."""
    world = importlib.import_module("support_desk")
    episodes = []
    for number, one in enumerate(world.recorded_episodes(count)):
        seen = [*(text for text, _ in one.steps[1:]), one.end]
        steps = [Step(call, text) for (_, call), text in zip(one.steps, seen, strict=True)]
        task = Task(f"recorded/{number}", "desk", "recorded", one.goal, "")
        worked = bool(one.success)
        opening = one.steps[0][0]
        episodes.append(Trajectory(task, opening, tuple(steps), worked, worked, "agent"))
    return episodes


def calibration(bench: Bench) -> Lines:
    """How often left-out steps are decided right, beside how sure the memory says it is."""
    episodes = {
        "BabyAI": lambda: _babyai_memory(bench),
        "cooking, recipe": lambda: _cooking_memory(bench, "recipe"),
        "cooking, plain": lambda: _cooking_memory(bench, "plain"),
        "desk, 200": lambda: bench.memory("desk", _desk_episodes(), failures="contrast"),
        "Minecraft": lambda: _shipped(bench, "minecraft"),
        "ALFWorld, 24": lambda: _drawn(bench, "replay_episodes", 4, 0),
        "ALFWorld, 60": lambda: _drawn(bench, "replay_episodes", 10, 0),
        "HotpotQA": lambda: _shipped(bench, "hotpotqa"),
        "our own shop": lambda: _shipped(bench, "webshop"),
    }
    for name, memory in episodes.items():
        yield name, partial(_calibrated, bench, name, memory)


def _calibrated(bench: Bench, name: str, memory: Callable[[], str]) -> Line:
    def measure() -> list[tuple[float, float, bool]]:
        return [*left_out(lessons_in(memory()))]

    steps = np.array(bench.stored(f"calibration/{name}", measure))
    sure, share, right = steps.T
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    bins = [(sure[place == i].mean(), right[place == i].mean(), (place == i).sum())
            for i in range(BINS) if (place == i).any()]  # fmt: skip
    curve = [[round(float(x), 3), round(float(y), 3), int(n)] for x, y, n in bins]
    return {
        "steps": len(steps),
        "right": f"{100 * right.mean():.1f} %",
        "sure": f"{100 * sure.mean():.1f} %",
        "error": f"{error_of(sure, right):.3f}",
        "as learnt": f"{error_of(share, right):.3f}",
        "sure ≥ 0.8": f"{100 * (sure >= 0.8).mean():.0f} % of steps, "
        f"{100 * right[sure >= 0.8].mean() if (sure >= 0.8).any() else 0:.0f} % right",
        "sure: right (steps)": "; ".join(f"{x:.2f}: {y:.2f} ({n})" for x, y, n in curve),
        "goal": "error ≤ 0.05",
    }


def error_of(sure: Any, right: Any) -> float:
    """Return the expected calibration error."""
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    parts = [place == i for i in range(BINS)]
    return float(sum(abs(sure[p].sum() - right[p].sum()) for p in parts) / len(sure))


def lessons_in(place: str) -> list[Lesson]:
    """Return the recorded steps of a memory."""
    memory = ldm.Memory.open(place, ldm.memory.environments(place)[0])
    return lessons_of(memory.rows, memory.visible)


def left_out(lessons: Sequence[Lesson]) -> Iterator[tuple[float, float, bool]]:
    """Yield (sure, share, right) of each step that worked, learnt from other episodes."""
    names = sorted({one.episode for one in lessons})
    random.Random(0).shuffle(names)
    for fold in range(FOLDS):
        held = set(names[fold::FOLDS])
        rule = learn([one for one in lessons if one.episode not in held])
        for one in lessons:
            if one.episode in held and one.weight > 0:
                now = Situation(rule.vocabulary, one.goal, one.kind, one.past, one.observation)
                ranking = rule.rank(now, one.possible)
                yield ranking.sure, max(ranking.shares, default=0.0), _first(ranking, one.action)


def _first(ranking: Ranking, action: str) -> bool:
    """Return whether nothing that is known speaks for another action more than for this one."""
    if not ranking.knows or action not in ranking.texts:
        return False
    group = ranking.groups[ranking.texts.index(action)]
    return ranking.shares[group] == max(ranking.shares)


class Timed:
    """An environment that notes the seconds between its answers and the next actions."""

    def __init__(self, env: Environment) -> None:
        self._env, self._answered, self.seconds = env, 0.0, list[float]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, task: Task) -> ldm.TimeStep:
        now = self._env.reset(task)
        self._answered = time.perf_counter()
        return now

    def step(self, action: str) -> ldm.TimeStep:
        self.seconds.append(time.perf_counter() - self._answered)
        now = self._env.step(action)
        self._answered = time.perf_counter()
        return now


def cost(bench: Bench) -> Lines:
    """Fitting, and a decision: texts are embedded before, one process, one thread."""
    for count in (2_000, 20_000, 1_000_000):
        yield f"fit {count:,}", partial(_fitted, bench, count)
    yield "decide, ALFWorld", lambda: _decided(bench)
    yield "decide, 800 actions, 2,000 facts", _decided_among


def _fitted(bench: Bench, count: int) -> Line:
    """Learn from so many steps of ALFWorld; beyond 19,950 episodes are repeated by other names."""
    lessons = lessons_in(_expert(bench))
    more = [replace(one, episode=f"{one.episode} {i}") for i in range(1, count // len(lessons) + 1)
            for one in lessons]  # fmt: skip
    start = time.perf_counter()
    rule = learn([*lessons, *more][:count])
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"time": f"{seconds:.1f} s", "features": len(rule.columns), "peak": f"{peak:.1f} GB"}


def _decided(bench: Bench) -> Line:
    from ldm.agents import Resources
    from ldm.agents.ldm import LdmAgent, LdmOptions
    from ldm.envs import load_env
    from ldm.reason.offline import OfflineReasoner

    kind = load_env("alfworld")
    env: Any = Timed(kind(kind.Options(data=_alfworld(bench)["data"])))
    embedder = with_disk_cache(load_embedder(), bench.folder / "vectors")
    memory = ldm.Memory.open(_expert(bench), "alfworld", embedder=embedder)
    agent = LdmAgent(LdmOptions(), Resources(memory, OfflineReasoner(embedder)))
    for _ in range(2):  # the second time all texts have vectors
        env.seconds.clear()
        for task in env.tasks("valid_seen")[::7]:
            run_episode(env, agent, task)
    return _times(env.seconds, "≤ 3 ms")


def _decided_among() -> Line:
    draw, states, lessons = random.Random(0), ("open", "shut", "hot", "cold"), list[Lesson]()
    actions = tuple(f"take thing {i % 200} from place {i % 40}" for i in range(800))

    def sight() -> str:
        return "\n".join(f"thing {i % 200} {i // 200} is {draw.choice(states)} near place {i % 40}"
                         for i in range(2_000))  # fmt: skip

    for episode in range(12):
        past: tuple[tuple[str, str], ...] = ()
        for _ in range(4):
            observation, action = sight(), draw.choice(actions)
            goal = f"bring thing {draw.randrange(200)} to me"
            lessons.append(Lesson(str(episode), goal, "", past, observation, action, actions))
            past = (*past, (observation, action))
    rule, seconds = learn(lessons), list[float]()
    for one in lessons:
        observation, start = sight(), time.perf_counter()
        rule.rank(Situation(rule.vocabulary, one.goal, "", one.past, observation), actions)
        seconds.append(time.perf_counter() - start)
    return _times(seconds, "≤ 10 ms")


def _times(seconds: Sequence[float], goal: str) -> Line:
    half, most = 1000 * np.quantile(seconds, [0.5, 0.99])
    return {"decisions": len(seconds), "p50": f"{half:.2f} ms", "p99": f"{most:.2f} ms", "goal": goal}


def curve(bench: Bench) -> Lines:
    """One picture: five worlds, memory against random tuples against the nearest neighbour."""
    yield "five worlds", lambda: _curve(bench)


def _curve(bench: Bench) -> Line:
    plain = _cooking(bench, "plain")
    worlds: dict[str, Any] = {
        "BabyAI": ("babyai", _babyai_memory(bench), BABYAI, "test"),
        "cooking": ("cooking-plain", _cooking_memory(bench, "plain"), plain, "test"),
        "Minecraft": ("minecraft-test", _shipped(bench, "minecraft"), "minecraft", "test"),
        "ALFWorld": ("alfworld-24 listed, draw 0", _drawn(bench, "replay_episodes", 4, 0),
                     _alfworld(bench), "valid_seen"),
    }  # fmt: skip
    agents = {"memory": {"name": "ldm"}, "random tuples": {"name": "ldm", "control": "random"},
              "nearest neighbour": {"name": "benchmarks.relevance:Nearest"}}  # fmt: skip
    ends = {"memory": "", "random tuples": ", random", "nearest neighbour": ", nearest"}
    won: dict[str, dict[str, list[bool]]] = {name: {} for name in agents}
    for world, (stored, memory, env, split) in worlds.items():
        for name, agent in agents.items():
            more = {"split": split, "agent": agent}
            played = bench.played(f"{stored}{ends[name]}", memory, env, **more)
            won[name][world] = [one.success for one in played]
    tickets = _desk(bench, 800, "short", "")["episodes"]
    best = {"memory": "ldm + history", "random tuples": "own agent", "nearest neighbour": "base"}
    for name, begin in best.items():
        won[name]["desk"] = max((v for k, v in tickets.items() if k.startswith(begin)), key=sum)
    lines = {
        name: [(float(i), mean(one), *wilson(sum(one), len(one))) for i, one in enumerate(of.values())]
        for name, of in won.items()
    }
    ticks = {float(i): world for i, world in enumerate(won["memory"])}
    drawn = svg(lines, "What a memory is worth in five worlds", "tasks solved", ticks)
    bench.arguments.curve.write_text(re.sub(r"<polyline[^>]*/>\n", "", drawn), encoding="utf-8")
    return {name: ", ".join(f"{w} {rated(one)}" for w, one in of.items()) for name, of in won.items()}


TABLES = {one.__name__: one for one in (desk, babyai, cooking, minecraft, alfworld, webshop, home,
                                        ablation, calibration, cost, curve)}  # fmt: skip


def main() -> None:
    """Print a Markdown table, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=["table", "part"])
    parser.add_argument("name", choices=[*TABLES, "recipe"])
    parser.add_argument("--only", default="", help="the lines whose name has this text")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, default=Path(".ldm/relevance"))
    parser.add_argument("--worlds", type=Path, default=ROOT.parent / "shared" / "worlds")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--draws", type=int, default=3, help="of ALFWorld's recorded episodes")
    parser.add_argument("--tasks", type=int, default=0, help="only so many, for a trial")
    parser.add_argument("--curve", type=Path, default=ROOT / "docs" / "lab" / "relevance.svg")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    sys.path.insert(0, str(arguments.worlds))
    bench, lines = Bench(arguments), dict[str, Line]()
    if arguments.command == "part":
        print(json.dumps(part_alone(bench, arguments.name, arguments.only)))
        return
    for name, measure in TABLES[arguments.name](bench):
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
