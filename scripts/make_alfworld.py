"""Generate our own ALFWorld households and expert episodes (reproducible to the byte).

    python scripts/make_alfworld.py

Writes the games of ldm/worlds/alfworld/demo/ and, for those of demo_train, the episodes in
data/trajectories/alfworld/demo_train.jsonl. Every game is solved by the exact solver and by the
expert, and every episode is replayed.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.alfworld.games import OWN_SPLITS, Game, own_games
from tools.alfworld.expert import solve
from tools.alfworld.game_generator import generate
from tools.alfworld.replay import replay
from tools.alfworld.solver import plan

ROOT = Path(__file__).resolve().parent.parent
GAMES = ROOT / "ldm" / "envs" / "alfworld" / "demo"
TRAJECTORIES = ROOT / "data" / "trajectories" / "alfworld"
SEED = 2312_08402
PER_KIND = dict(zip(OWN_SPLITS, (20, 10, 10), strict=True))


def pack(games: list[Game]) -> bytes:
    """Return the compact file of own games, the same bytes for the same games."""
    lines = (
        json.dumps({"id": game.id, "goal": game.goal, "problem": game.problem}) + "\n"
        for game in sorted(games, key=lambda game: game.id)
    )
    return gzip.compress("".join(lines).encode(), mtime=0)


def main() -> None:
    """Write the games of all splits, then the episodes of the training split."""
    GAMES.mkdir(exist_ok=True)
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    for split, per_kind in PER_KIND.items():
        temporary = GAMES / f".{split}.tmp"
        temporary.write_bytes(pack(generate(split, per_kind, seed=SEED)))
        temporary.replace(GAMES / f"{split}.jsonl.gz")
    env = ALFWorld()
    tasks = {split: env.tasks(split) for split in OWN_SPLITS}
    # The other games are solved too, to prove that they can be; their episodes are not stored.
    episodes_of = {
        split: [solve(env, task, seed=SEED) for task in tasks[split]] for split in OWN_SPLITS
    }
    for trajectory in (trajectory for split in episodes_of.values() for trajectory in split):
        for difference in replay(env, trajectory):
            sys.exit(f"A replay differs: {difference}")
    records.write(TRAJECTORIES / "demo_train.jsonl", episodes_of["demo_train"])
    for split, episodes in episodes_of.items():
        lengths = [len(trajectory.steps) for trajectory in episodes]
        shortest = [len(plan(game)) for game in own_games(split)]
        print(
            f"{split}: {len(episodes)} games, expert steps {mean(lengths):.1f} (at most "
            f"{max(lengths)}), shortest {mean(shortest):.1f} (at most {max(shortest)})"
        )


if __name__ == "__main__":
    main()
