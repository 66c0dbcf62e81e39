"""Record episodes of an expert on ALFWorld's training games, for a memory as LDM² has it.

    python scripts/record_alfworld.py --out recorded/experts.jsonl

Plays the games at $ALFWORLD_DATA (`ldm data alfworld --to FOLDER`), --per-kind of each kind (200 in
LDM², arXiv 2312.08402, §4.3), drawn by --seed. The expert (`tools/alfworld/expert.py`) knows the
usual places of things and not where they are. An interrupted recording goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.envs.alfworld import ALFWorld, ALFWorldOptions
from ldm.errors import LdmError
from ldm.types import Trajectory, stable_seed
from tools.alfworld.expert import solve

#: Attempts at a game, each of which searches in another order.
ATTEMPTS = 5


def main() -> None:
    """Append an episode for each chosen game that has none yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", default="train")
    parser.add_argument("--per-kind", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    env = ALFWorld(ALFWorldOptions(data=os.environ.get("ALFWORLD_DATA")))
    tasks = sorted(env.tasks(arguments.split), key=lambda task: task.id)
    random.Random(stable_seed("experts", arguments.seed)).shuffle(tasks)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.touch()
    known = records.read(arguments.out, Trajectory, torn_tail=True)
    records.write(arguments.out, known)
    counts, played = Counter(one.task.kind for one in known), {one.task.id for one in known}
    with arguments.out.open("a", encoding="utf-8") as file:
        for task in tasks:
            if task.id in played or counts[task.kind] >= arguments.per_kind:
                continue
            for attempt in range(ATTEMPTS):
                try:
                    episode = solve(env, task, seed=arguments.seed + attempt)
                except LdmError:
                    continue
                records.append(file, episode)
                counts[task.kind] += 1
                break
    env.close()
    print(", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
