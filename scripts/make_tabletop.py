"""Generate the expert's tabletop episodes (reproducible to the byte).

    python scripts/make_tabletop.py

Writes data/trajectories/tabletop/train.jsonl.gz: an episode of each task of the training split.
The tasks of all splits are solved, and every episode is replayed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.worlds.tabletop import Tabletop
from ldm.worlds.tabletop.environment import SPLITS, TRAIN
from tools.replaying import replay
from tools.tabletop.expert import solve

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories" / "tabletop"


def main() -> None:
    """Solve the tasks of all splits, replay them, and write those of the training split."""
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    env = Tabletop()
    for split in SPLITS:
        episodes = [solve(env, task) for task in env.tasks(split)]
        for episode in episodes:
            replay(env, episode)
        if split == TRAIN:
            records.write(TRAJECTORIES / "train.jsonl.gz", episodes)
        lengths = [len(episode.steps) for episode in episodes]
        print(f"{split}: {len(episodes)} tasks, expert steps {mean(lengths):.1f}, "
              f"at most {max(lengths)}")  # fmt: skip


if __name__ == "__main__":
    main()
